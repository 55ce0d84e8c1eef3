"""Exports the postprocessing of GFPGAN: its output becomes a picture in the size of the photograph.

The module is scripted, so that it accepts any height and width.
"""

import torch

from tracing import TorchScriptExport, TraceContext, Weights
from tracing.faces import Postprocess


def export(context: TraceContext) -> TorchScriptExport:  # noqa: ARG001 - nothing depends on it
    """Export, checked for bitwise equality at sizes from one pixel on, with values below -1 and above 1."""
    # (image of the network, photograph): equal, larger, or larger on one axis and smaller on the other.
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
        # One grey level: if resized pixels are summed in another order, a value between two levels may round otherwise.
        serving_tolerance=1,
        weights=Weights.none(),
    )
