"""Serves TorchScript models (`platform: "pytorch_libtorch"`) from Triton's python backend."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

# Triton's interpreter ignores PYTHONPATH and knows this folder only, which may be a symbolic link.
sys.path.append(str(Path(__file__).resolve().parents[1] / "lib"))


class TritonPythonModel:
    """The class Triton looks for.

    Before it loads a model Triton starts a process just to ask whether the configuration is to be completed, and ends
    it again. So what takes seconds to import is imported when a model is really loaded.
    """

    def initialize(self, args: Mapping[str, str]) -> None:
        """Loads one version of a model."""
        from backend_common.torchscript import TorchScriptBackend  # noqa: PLC0415

        self._backend = TorchScriptBackend()
        self._backend.initialize(args)

    def execute(self, requests: Sequence[Any]) -> list[object]:
        """One response for each request, in order."""
        return self._backend.execute(requests)

    def finalize(self) -> None:
        """Ends the process."""
        self._backend.finalize()
