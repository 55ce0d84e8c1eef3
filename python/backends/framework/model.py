"""Serves models of PyTorch and ONNX from Triton's python backend. The folder of each backend is a link to this one."""

import sys
from pathlib import Path

# Triton's interpreter ignores PYTHONPATH; only this folder is on its sys.path.
sys.path.append(str(Path(__file__).resolve().parents[1] / "lib"))

from backend_common.model import TritonPythonModel

__all__ = ["TritonPythonModel"]
