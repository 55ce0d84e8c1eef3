"""What makes a picture of GFPGAN's output; scripted, so that it takes any height and width."""

import torch

from tracing import TorchScriptExport, TraceContext, Weights
from tracing.faces import Postprocess


def export(context: TraceContext) -> TorchScriptExport:  # noqa: ARG001 - nothing depends on it
    """Equal to the bit, at sizes from one pixel on, with values on both sides of [-1, 1]."""
    sizes = ((1, 1), (187, 213), (256, 256), (3, 640))
    return TorchScriptExport(
        eager=Postprocess(),
        example_inputs=None,
        fresh_inputs=[(torch.randn(1, 3, *size),) for size in sizes],
        tolerance=0,
        weights=Weights.none(),
    )
