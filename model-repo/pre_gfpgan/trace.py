"""What makes a photograph ready for GFPGAN; scripted, so that it takes any height and width."""

import torch

from tracing import TorchScriptExport, TraceContext, Weights
from tracing.faces import Preprocess


def export(context: TraceContext) -> TorchScriptExport:  # noqa: ARG001 - nothing depends on it
    """Equal to the bit, at sizes from one pixel on."""
    sizes = ((1, 1), (187, 213), (256, 256), (3, 640))
    return TorchScriptExport(
        eager=Preprocess(),
        example_inputs=None,
        fresh_inputs=[(torch.randint(0, 256, (*size, 3), dtype=torch.uint8),) for size in sizes],
        tolerance=0,
        weights=Weights.none(),
    )
