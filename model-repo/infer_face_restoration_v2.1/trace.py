"""Exports GFPGAN v1 for one image at a time.

For trained weights: `--weights infer_face_restoration_v2.1=GFPGANv1.pth`.
"""

from tracing import TorchScriptExport, TraceContext
from tracing.restoration import export_restoration


def export(context: TraceContext) -> TorchScriptExport:
    """Export, checked with three calls, because TorchScript optimises a module after its first calls."""
    return export_restoration(context, traced_batch=1, checked_batches=(1, 1, 1))
