"""What makes a picture of GFPGAN's output, in the size of the photograph; scripted, so that it takes any."""

import torch

from tracing import TorchScriptExport, TraceContext, Weights
from tracing.faces import Postprocess


def export(context: TraceContext) -> TorchScriptExport:  # noqa: ARG001 - nothing depends on it
    """Equal to the bit, at sizes from one pixel on, with values on both sides of [-1, 1]."""
    # Of the network's image and of the photograph: equal, smaller, larger, and both at once.
    sizes = (
        ((1, 1), (1, 1)),
        ((187, 213), (3, 640)),
        ((256, 256), (256, 256)),
        ((256, 256), (407, 301)),
        ((3, 640), (187, 213)),
    )
    return TorchScriptExport(
        eager=Postprocess(),
        example_inputs=None,
        fresh_inputs=[
            (torch.randn(1, 3, *size), torch.randint(0, 256, (*photo, 3), dtype=torch.uint8)) for size, photo in sizes
        ],
        tolerance=0,
        # One grey level: where resized pixels are added up in another order, one between two levels may move.
        serving_tolerance=1,
        weights=Weights.none(),
    )
