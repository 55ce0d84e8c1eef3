"""GFPGAN v1 for batches; `--weights gfpgan=GFPGANv1.pth` for trained weights."""

from tracing import TorchScriptExport, TraceContext
from tracing.restoration import export_restoration


def export(context: TraceContext) -> TorchScriptExport:
    """Traced with two images and checked with other numbers of them, so that no batch size can be frozen in."""
    return export_restoration(context, traced_batch=2, checked_batches=(3, 1, 8))
