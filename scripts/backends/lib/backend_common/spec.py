"""What a backend has to know about the model it serves, read from what Triton passes to `initialize`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

INDEXED_NAME = re.compile(r".*__(\d+)")


class ModelError(Exception):
    """Something is wrong with the model or its configuration, in words for the person who published it."""


@dataclass(frozen=True)
class TensorSpec:
    """One input or output of the configuration."""

    name: str
    data_type: str
    """Triton's name without `TYPE_`: FP32, INT64, ..."""
    dims: tuple[int, ...]
    """Shape as the model sees it, without the batch axis; -1 is any length."""
    optional: bool = False

    @property
    def index(self) -> int | None:
        """2 for `output__2`; None for a name that is not numbered."""
        match = INDEXED_NAME.fullmatch(self.name)
        return int(match.group(1)) if match else None


@dataclass(frozen=True)
class ModelSpec:
    """One version of one model, as this process serves it."""

    name: str
    version: str
    artifact: Path
    """The file to load: `<model>/<version>/<default_model_filename>`."""
    max_batch_size: int
    """0: the tensors have no batch axis and every request runs alone."""
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    parameters: Mapping[str, str]
    kind: str
    """Kind of the instance: CPU, GPU or MODEL."""
    device_id: int

    @classmethod
    def from_args(cls, args: Mapping[str, str], default_filename: str) -> ModelSpec:
        """Read the `args` of `TritonPythonModel.initialize`; `model_config` in it is ModelConfig as JSON."""
        config: dict[str, Any] = json.loads(args["model_config"])
        filename = config.get("default_model_filename") or default_filename
        return cls(
            name=args["model_name"],
            version=args["model_version"],
            artifact=Path(args["model_repository"], args["model_version"], filename),
            max_batch_size=int(config.get("max_batch_size", 0)),
            inputs=tuple(_tensor(entry) for entry in config.get("input", [])),
            outputs=tuple(_tensor(entry) for entry in config.get("output", [])),
            parameters={key: value["string_value"] for key, value in config.get("parameters", {}).items()},
            kind=args["model_instance_kind"],
            device_id=int(args["model_instance_device_id"]),
        )

    @property
    def batched(self) -> bool:
        """Whether axis 0 of every tensor is the batch."""
        return self.max_batch_size > 0

    def __str__(self) -> str:
        return f"model '{self.name}' version {self.version}"

    def positive_int(self, parameter: str) -> int | None:
        """Value of one of the configuration's `parameters`; None when it is not set."""
        text = self.parameters.get(parameter)
        if text is None:
            return None
        if not text.isdecimal() or int(text) == 0:
            raise ModelError(f"parameter {parameter} is '{text}'; allowed: a positive whole number")
        return int(text)

    def flag(self, parameter: str) -> bool:
        """Value of one of the configuration's `parameters`; false when it is not set."""
        text = self.parameters.get(parameter, "false")
        if text.lower() not in ("true", "false"):
            raise ModelError(f"parameter {parameter} is '{text}'; allowed: true, false")
        return text.lower() == "true"


def _tensor(entry: Mapping[str, Any]) -> TensorSpec:
    # Triton hands over and takes back what `reshape` says; clients see `dims`.
    dims = entry["reshape"]["shape"] if "reshape" in entry else entry["dims"]
    return TensorSpec(
        name=entry["name"],
        data_type=entry["data_type"].removeprefix("TYPE_"),
        dims=tuple(int(length) for length in dims),
        optional=bool(entry.get("optional", False)),
    )
