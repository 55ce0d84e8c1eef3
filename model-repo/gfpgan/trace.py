"""Exports GFPGAN v1 for batches. For trained weights: `--weights gfpgan=GFPGANv1.pth`."""

from tracing import TorchScriptExport, TraceContext
from tracing.restoration import export_restoration


def export(context: TraceContext) -> TorchScriptExport:
    """Export, traced with two images and checked with 1 and 8 too, so that a frozen batch size is found."""
    return export_restoration(context, traced_batch=2, checked_batches=(2, 1, 8))
