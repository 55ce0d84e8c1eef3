"""Exports Wav2Vec2 base with a CTC head, 95 M weights.

Weights: seeded random, or `--weights wav2vec_general_v2=OWNER/NAME@REVISION`, or a directory.
"""

from __future__ import annotations

import json
from functools import partial

import torch
from transformers import Wav2Vec2Config, Wav2Vec2ForCTC

from tracing import OnnxExport, TraceContext, TraceError, Weights
from tracing.models.pretrained import load_letters, load_pretrained, weights_from
from tracing.models.speech_recognizer import LETTERS, SpeechRecognizer, save_onnx, shortest_sound

# Masks parts of the sound in training. Some published checkpoints lack it.
TRAINING_ONLY = ("wav2vec2.masked_spec_embed",)


def export(context: TraceContext) -> OnnxExport:
    """Export the recognizer as ONNX, checked at lengths and batch sizes that differ from the exported ones."""
    if context.weights is None:
        network = Wav2Vec2ForCTC(Wav2Vec2Config())
        weights = Weights.random(context.seed)
    else:
        network = load_pretrained(Wav2Vec2ForCTC, context.weights, training_only=TRAINING_ONLY)
        weights = weights_from("Wav2Vec2 with CTC head", context.weights)
    check_letters(context, network.config.vocab_size)
    letters = LETTERS if context.weights is None else read_letters(context.weights, network)
    model = SpeechRecognizer(network).eval()
    # A program of torch.export takes two frames or more.
    frames = 2 if context.config.get("platform") == "torch_aoti" else 1
    shapes = [(1, shortest_sound(network, frames)), (3, 7_777), (1, 48_001), (8, 12_345)]
    return OnnxExport(
        eager=model,
        save=partial(save_onnx, model),
        fresh_inputs=[(torch.randn(batch, samples),) for batch, samples in shapes],
        # ONNX Runtime sums in another order than PyTorch. Logits of trained weights reach some tens.
        tolerance=1e-3,
        # For TF32, which ONNX Runtime uses on a GPU. PyTorch on an H100 differs by 0.0023 with TF32, and not more than
        # 5.8e-6 without (docs/tracing.md#on-a-gpu).
        serving_tolerance=0.1,
        weights=weights,
        extra_files={f"{context.version}/vocab.json": json.dumps(letters).encode()},
    )


def read_letters(source: str, network: Wav2Vec2ForCTC) -> dict[str, int]:
    """Return the letters that were published with the weights."""
    return load_letters(source, network.config.vocab_size, network.config.pad_token_id)


def check_letters(context: TraceContext, letters: int | None) -> None:
    """Raise TraceError if the number of letters of the weights differs from the dims in model.yaml."""
    declared = context.output_dims(0)
    if declared != [-1, letters]:
        raise TraceError(
            f"the weights give {letters} letters, but logits in model.yaml has dims {declared}",
            f"Set dims of logits to [-1, {letters}], or use weights with that many letters.",
        )
