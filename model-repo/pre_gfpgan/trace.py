"""What makes a photograph of any size ready for GFPGAN; scripted, so that it takes any height and width."""

import torch

from tracing import TorchScriptExport, TraceContext, Weights
from tracing.faces import Preprocess


def export(context: TraceContext) -> TorchScriptExport:
    """Equal to the bit, at sizes from one pixel on: smaller, larger, of the network's own, and both at once."""
    *_, size = context.output_dims("output__0")
    sizes = ((1, 1), (187, 213), (size, size), (3, 640), (407, 301))
    return TorchScriptExport(
        eager=Preprocess(size),
        example_inputs=None,
        fresh_inputs=[(torch.randint(0, 256, (*photo, 3), dtype=torch.uint8),) for photo in sizes],
        tolerance=0,
        # Another processor or another PyTorch may add up the pixels of a resized picture in another order.
        serving_tolerance=1e-4,
        weights=Weights.none(),
    )
