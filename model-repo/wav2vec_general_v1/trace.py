"""Exports the network of wav2vec_general_v2, of which `npm run build -- --stack` makes a TensorRT plan.

Weights: seeded random, or `--weights wav2vec_general_v1=OWNER/NAME@REVISION`, or a directory.
"""

from __future__ import annotations

import json
from dataclasses import replace

from tracing import OnnxExport, TraceContext
from tracing.models.speech_recognizer import export_recognizer

# Samples, 16,000 a second: the plan takes 0.1 to 30 s, and is tuned for full batches of 10 s. Where single short sounds
# are usual, tune it for those.
LENGTHS = {"input_values": {"min": [1_600], "opt": [160_000], "max": [480_000]}}


def export(context: TraceContext) -> OnnxExport:
    """Export the recognizer as ONNX, with the shapes of the plan."""
    exported = export_recognizer(context)
    plan = {f"{context.version}/plan.json": json.dumps(LENGTHS).encode()}
    return replace(exported, extra_files={**exported.extra_files, **plan})
