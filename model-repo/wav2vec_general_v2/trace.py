"""Exports Wav2Vec2 base with a CTC head, 95 M weights.

Weights: seeded random, or `--weights wav2vec_general_v2=OWNER/NAME@REVISION`, or a directory.
"""

from __future__ import annotations

from tracing import OnnxExport, TraceContext
from tracing.models.speech_recognizer import export_recognizer


def export(context: TraceContext) -> OnnxExport:
    """Export the recognizer as ONNX."""
    return export_recognizer(context)
