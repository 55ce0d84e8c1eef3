"""The class that Triton expects in model.py."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar


class PythonModel:
    """Serves a model with the class `backend` of the module `module`.

    Before Triton loads a model, it starts a short-lived process only to check whether the backend completes the
    configuration. Slow imports are therefore in `initialize`.
    """

    module: ClassVar[str]
    backend: ClassVar[str]

    def initialize(self, args: Mapping[str, str]) -> None:
        """Load one version of a model."""
        self._backend = getattr(importlib.import_module(f".{self.module}", __package__), self.backend)()
        self._backend.initialize(args)

    def execute(self, requests: Sequence[Any]) -> Any:
        """Return one response for each request, in order."""
        return self._backend.execute(requests)

    def finalize(self) -> None:
        """End the process."""
        self._backend.finalize()
