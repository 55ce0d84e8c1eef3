"""Serves ONNX models (`platform: "onnxruntime_onnx"`) from Triton's python backend."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

# Triton's interpreter ignores PYTHONPATH; only this folder, which may be a symbolic link, is on its sys.path.
sys.path.append(str(Path(__file__).resolve().parents[1] / "lib"))


class TritonPythonModel:
    """The class that Triton expects in model.py.

    Before Triton loads a model, it starts a short-lived process only to check whether the backend completes the
    configuration. Slow imports are therefore in `initialize`.
    """

    def initialize(self, args: Mapping[str, str]) -> None:
        """Load one version of a model."""
        from backend_common.onnx_session import OnnxBackend  # noqa: PLC0415

        self._backend = OnnxBackend()
        self._backend.initialize(args)

    def execute(self, requests: Sequence[Any]) -> list[object]:
        """Return one response for each request, in order."""
        return self._backend.execute(requests)

    def finalize(self) -> None:
        """End the process."""
        self._backend.finalize()
