"""Serves programs of PyTorch 2 (`platform: "torch_aoti"`) from Triton's python backend."""

from __future__ import annotations

import sys
from pathlib import Path

# Triton's interpreter ignores PYTHONPATH; only this folder, which may be a symbolic link, is on its sys.path.
sys.path.append(str(Path(__file__).resolve().parents[1] / "lib"))

from backend_common.model import PythonModel


class TritonPythonModel(PythonModel):
    """The class that Triton loads."""

    module = "program"
    backend = "ProgramBackend"
