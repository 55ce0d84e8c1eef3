"""Replaces the interface of Triton's model process to the Python-based backends."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils.dlpack import from_dlpack

LoadBackend = Callable[[str], ModuleType]

sys.path.append(str(Path(__file__).parents[2] / "python" / "backends" / "lib"))


class FakeTensor:
    """pb_utils.Tensor: stores the exported torch tensor."""

    def __init__(self, name: str, value: torch.Tensor) -> None:
        self._name = name
        self.value = value

    def name(self) -> str:
        return self._name

    def __dlpack__(self, **_: object) -> object:
        return self.value.__dlpack__()

    def __dlpack_device__(self) -> tuple[Any, int]:
        return self.value.__dlpack_device__()

    @classmethod
    def from_dlpack(cls, name: str, exported: Any) -> FakeTensor:
        return cls(name, from_dlpack(exported).clone())


class FakeRequest:
    def __init__(self, inputs: dict[str, torch.Tensor], outputs: set[str]) -> None:
        self._inputs = [FakeTensor(name, value) for name, value in inputs.items()]
        self._outputs = outputs

    def inputs(self) -> Sequence[FakeTensor]:
        return self._inputs

    def requested_output_names(self) -> set[str]:
        return self._outputs


def arguments(folder: Path, **config: Any) -> dict[str, str]:
    """`args` of TritonPythonModel.initialize for version 1 of a model called m."""
    return {
        "model_config": json.dumps(config),
        "model_name": "m",
        "model_version": "1",
        "model_repository": str(folder),
        "model_instance_kind": "CPU",
        "model_instance_device_id": "0",
    }


def tensor(name: str, data_type: str = "TYPE_FP32", dims: Sequence[int] = (-1,), **more: object) -> dict[str, Any]:
    return {"name": name, "data_type": data_type, "dims": list(dims), **more}


def backend_loader(monkeypatch: pytest.MonkeyPatch) -> LoadBackend:
    """Imports python/backends/lib/backend_common/<name>.py as Triton's process would."""
    pb_utils: Any = ModuleType("triton_python_backend_utils")
    pb_utils.Tensor = FakeTensor
    pb_utils.TritonModelException = type("TritonModelException", (Exception,), {})
    pb_utils.TritonError = lambda message: message
    pb_utils.InferenceResponse = lambda output_tensors, error=None: SimpleNamespace(
        outputs={tensor.name(): tensor.value for tensor in output_tensors}, error=error
    )
    pb_utils.Logger = SimpleNamespace(log_error=lambda _: None)
    monkeypatch.setitem(sys.modules, "triton_python_backend_utils", pb_utils)
    monkeypatch.delitem(sys.modules, "backend_common.backend", raising=False)

    def load(name: str) -> ModuleType:
        monkeypatch.delitem(sys.modules, f"backend_common.{name}", raising=False)
        return importlib.import_module(f"backend_common.{name}")

    return load
