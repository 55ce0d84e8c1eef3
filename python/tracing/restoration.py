"""Exports GFPGAN v1 as the face restoration models of the repository."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from tracing.contract import TorchScriptExport, TraceContext, TraceError, Weights
from tracing.gfpgan import SIZES, FaceRestorer
from tracing.weights import random_model, read_checkpoint

# An eighth of a grey level, for pixels in [-1, 1]. The original trace of this project differed by 3.15e-4.
TOLERANCE = 1e-3

# Four grey levels, for TF32 in the convolutions of other GPUs and for trained weights. With random weights, an H100
# differs by 0.0025 (docs/guides/gpu.md).
SERVING_TOLERANCE = 0.03


def export_restoration(
    context: TraceContext, *, traced_batch: int, checked_batches: Sequence[int]
) -> TorchScriptExport:
    """Export GFPGAN v1 at the size in model.yaml, traced with one batch size and checked with others.

    `--weights` names a checkpoint file, which determines the architecture; without --weights the weights are random.
    Raises TraceError, for example if the checkpoint is for another size than model.yaml.
    """
    size = image_size(context)
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


def image_size(context: TraceContext) -> int:
    """Return height and width of the images, in pixels, from the dims of input__0 in model.yaml."""
    dims = context.input_dims("input__0")
    shape = dims if context.max_batch_size > 0 else dims[1:]
    batch = [] if context.max_batch_size > 0 else dims[:1]
    if len(shape) != 3 or shape[0] != 3 or shape[1] != shape[2] or shape[1] not in SIZES or batch not in ([], [1]):
        allowed = "[3, SIZE, SIZE]" if context.max_batch_size > 0 else "[1, 3, SIZE, SIZE]"
        raise TraceError(
            f"{context.folder / 'model.yaml'}: dims of input__0 are {dims}; GFPGAN v1 takes {allowed}",
            f"SIZE is one of {', '.join(map(str, SIZES))}. The published weights are for 512.",
        )
    return shape[1]
