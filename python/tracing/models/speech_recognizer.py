"""Wav2Vec2 with a CTC head, and its ONNX file."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import torch
from onnx_ir.passes.common import ClearMetadataAndDocStringPass
from torch import Tensor, nn
from torch.export import Dim
from transformers import Wav2Vec2Config, Wav2Vec2ForCTC

from tracing.contract import OnnxExport, TraceContext, TraceError, Weights
from tracing.models.pretrained import load_letters, load_pretrained, weights_from

SAMPLE_RATE_HZ = 16_000

# Fixed, so that a newer PyTorch does not write an opset that the server cannot read. ONNX Runtime reads 20 since 1.17.
OPSET = 20

# The vocabulary of wav2vec2-base-960h: token -> index in the logits. `<pad>` is the CTC blank, `|` the space.
LETTERS = {
    token: place for place, token in enumerate(("<pad>", "<s>", "</s>", "<unk>", "|", *"ETAONIHSRDLUMWCFGYPBVK'XJQZ"))
}

# Masks parts of the sound in training. Some published checkpoints lack it.
TRAINING_ONLY = ("wav2vec2.masked_spec_embed",)


class SpeechRecognizer(nn.Module):
    """Computes logits of letters from sound. The greedy CTC text is their argmax without repeats and blanks (0)."""

    def __init__(self, network: Wav2Vec2ForCTC) -> None:
        super().__init__()
        self.network = network

    def forward(self, input_values: Tensor) -> Tensor:
        """FP32 [batch, samples], 16 kHz, mean 0 and deviation 1 -> FP32 [batch, frames, letters]."""
        logits: Tensor = self.network(input_values).logits
        return logits


def shortest_sound(network: Wav2Vec2ForCTC, frames: int = 1) -> int:
    """Return the number of samples for `frames`: for one, the receptive field of the convolutions, usually 400."""
    samples = frames
    for kernel, stride in reversed(list(zip(network.config.conv_kernel, network.config.conv_stride, strict=True))):
        samples = (samples - 1) * stride + kernel
    return samples


def save_onnx(model: SpeechRecognizer, path: Path) -> None:
    """Write one self-contained ONNX file: input_values [batch, samples] -> logits [batch, frames, letters].

    The example is two sounds of one second; torch.export proves that batch and samples are free.
    """
    program = torch.onnx.export(
        model,
        (torch.randn(2, SAMPLE_RATE_HZ),),
        dynamo=True,
        opset_version=OPSET,
        input_names=["input_values"],
        output_names=["logits"],
        dynamic_shapes={"input_values": {0: Dim("batch"), 1: Dim("samples", min=shortest_sound(model.network))}},
        verbose=False,
    )
    if program is None:
        raise RuntimeError("torch.onnx.export returned no program")
    # The metadata contain stack traces with paths of this machine, which must not be published.
    ClearMetadataAndDocStringPass()(program.model)
    program.save(path, external_data=False)


def export_recognizer(context: TraceContext) -> OnnxExport:
    """Export Wav2Vec2 base as ONNX, checked at lengths and batch sizes that differ from the exported ones."""
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
    config = network.config
    return load_letters(source, int(config.vocab_size or 0), int(config.pad_token_id or 0))


def check_letters(context: TraceContext, letters: int | None) -> None:
    """Raise TraceError if the number of letters of the weights differs from the dims in model.yaml."""
    declared = context.output_dims(0)
    if declared != [-1, letters]:
        raise TraceError(
            f"the weights give {letters} letters, but logits in model.yaml has dims {declared}",
            f"Set dims of logits to [-1, {letters}], or use weights with that many letters.",
        )
