"""Exports GFPGAN v1 as the face restoration models of the repository."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from tracing.contract import TorchScriptExport, TraceContext, TraceError, Weights
from tracing.gfpgan import FaceRestorer
from tracing.weights import random_model, read_checkpoint

# An eighth of a grey level, for pixels in [-1, 1]. The original trace of this project differed by 3.15e-4.
TOLERANCE = 1e-3

# Four grey levels, for TF32 in the convolutions of other GPUs and for trained weights. With random weights, an H100
# differs by 0.0025 (docs/tracing.md#on-a-gpu).
SERVING_TOLERANCE = 0.03


def export_restoration(
    context: TraceContext, *, traced_batch: int, checked_batches: Sequence[int]
) -> TorchScriptExport:
    """Export GFPGAN v1 at the size in model.yaml, traced with one batch size and checked with others.

    `--weights` names a checkpoint file, which determines the architecture; without --weights the weights are random.
    Raises TraceError, for example if the checkpoint is for another size than model.yaml.
    """
    # The comparison with model.yaml reports other dims than those of a square RGB image.
    size = (context.input_dims(0) or [0])[-1]
    model: FaceRestorer
    if context.weights is None:
        model, weights = random_model(size), Weights.random(context.seed)
    else:
        checkpoint = read_checkpoint(Path(context.weights))
        name = checkpoint.file.name
        if checkpoint.size != size:
            raise TraceError(
                f"{name} is for images of {checkpoint.size} x {checkpoint.size}, but model.yaml has {size} x {size}",
                f"In model.yaml, replace {size} by {checkpoint.size} in all dims, also in those of model_warmup.",
            )
        model = checkpoint.model()
        weights = Weights("pretrained", f"{checkpoint.architecture} from {name}", source=name)

    def images(batch: int) -> Tensor:
        return torch.rand(batch, 3, size, size) * 2 - 1

    return TorchScriptExport(
        eager=model,
        example_inputs=(images(traced_batch),),
        fresh_inputs=[(images(batch),) for batch in checked_batches],
        tolerance=TOLERANCE,
        serving_tolerance=SERVING_TOLERANCE,
        weights=weights,
    )
