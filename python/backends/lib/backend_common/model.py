"""The class that Triton expects in model.py."""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

BACKENDS = {
    "pytorch": ("torchscript", "TorchScriptBackend"),
    "torch_aoti": ("program", "ProgramBackend"),
    "onnxruntime": ("onnx_session", "OnnxBackend"),
}
"""`backend` of the configuration -> module and class."""


class TritonPythonModel:
    """Serves a model with the class of its backend.

    Before Triton loads a model, it starts a short-lived process only to check whether the backend completes the
    configuration. Slow imports are therefore in `initialize`.
    """

    def initialize(self, args: Mapping[str, str]) -> None:
        """Load one version of a model."""
        module, name = BACKENDS[json.loads(args["model_config"])["backend"]]
        self._backend = getattr(importlib.import_module(f".{module}", __package__), name)()
        self._backend.initialize(args)

    def execute(self, requests: Sequence[Any]) -> Any:
        """Return one response for each request, in order."""
        return self._backend.execute(requests)

    def finalize(self) -> None:
        """End the process."""
        self._backend.finalize()
