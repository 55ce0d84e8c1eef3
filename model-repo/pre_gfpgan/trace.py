"""Exports the preprocessing of GFPGAN. The module is scripted, so that it accepts any height and width."""

import torch

from tracing import TorchScriptExport, TraceContext, Weights
from tracing.faces import Preprocess


def export(context: TraceContext) -> TorchScriptExport:
    """Export, checked for bitwise equality at sizes from one pixel on.

    The sizes are smaller than, equal to and larger than that of the network, or smaller on one axis and larger on the
    other.
    """
    *_, size = context.output_dims(0)
    sizes = ((1, 1), (187, 213), (size, size), (3, 640), (407, 301))
    return TorchScriptExport(
        eager=Preprocess(size),
        example_inputs=None,
        fresh_inputs=[(torch.randint(0, 256, (*photo, 3), dtype=torch.uint8),) for photo in sizes],
        tolerance=0,
        # Another processor or PyTorch version may sum the pixels of a resized picture in another order.
        serving_tolerance=1e-4,
        weights=Weights.none(),
    )
