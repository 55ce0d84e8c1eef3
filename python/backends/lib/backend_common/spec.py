"""Configuration of a served model, read from the `args` that Triton passes to `initialize`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

INDEXED_NAME = re.compile(r"(?:(?!__).)*__(\d+)", re.DOTALL)
"""The index is the text after the first `__`, as in the libtorch backend."""

TRUE = frozenset({"true", "on", "1"})
FALSE = frozenset({"false", "off", "0"})


class ModelError(Exception):
    """An error in the model or its configuration. The message is for the person who published the model."""


@dataclass(frozen=True)
class TensorSpec:
    """One input or output of the configuration."""

    name: str
    data_type: str
    """Triton's name without `TYPE_`: FP32, INT64, ..."""
    dims: tuple[int, ...]
    """Shape that the model sees, without the batch axis; -1 is any length."""
    optional: bool = False

    @property
    def index(self) -> int | None:
        """Number in the name: 2 for `output__2`, None for a name without a number."""
        return index_of(self.name)


@dataclass(frozen=True)
class ModelSpec:
    """The model version that this process serves."""

    name: str
    version: str
    artifact: Path
    """The file to load: `<model>/<version>/<default_model_filename>`."""
    max_batch_size: int
    """0 means that tensors have no batch axis and every request runs alone."""
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    parameters: Mapping[str, str]
    kind: str
    """Kind of the instance: CPU, GPU or MODEL."""
    device_id: int
    controls: tuple[str, ...] = ()
    """Names of the inputs that Triton adds to each request of a sequence."""
    graph_level: int = 0
    """`optimization.graph.level`; 0 if not set."""
    missing: tuple[str, ...] = ()
    """Fields of the configuration that only backends in C++ can implement."""

    @classmethod
    def from_args(cls, args: Mapping[str, str], default_filename: str) -> ModelSpec:
        """Read the `args` of `TritonPythonModel.initialize`, whose `model_config` is Triton's ModelConfig as JSON."""
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
            controls=tuple(entry["name"] for entry in config.get("sequence_batching", {}).get("control_input", [])),
            graph_level=int(config.get("optimization", {}).get("graph", {}).get("level", 0)),
            missing=tuple(_missing_fields(config)),
        )

    @property
    def batched(self) -> bool:
        """Whether axis 0 of every tensor is the batch."""
        return self.max_batch_size > 0

    def __str__(self) -> str:
        return f"model '{self.name}' version {self.version}"

    def integer(self, parameter: str) -> int:
        """Return a value of the configuration's `parameters`, parsed like C++'s std::stoi; 0 if not set."""
        text = self.parameters.get(parameter, "0")
        match = re.match(r"\s*[+-]?\d+", text)
        if match is None:
            raise ModelError(f"parameter {parameter}: failed to convert '{text}' to integral number")
        return int(match.group())

    def flag(self, parameter: str, default: bool = False) -> bool:
        """Return a value of the configuration's `parameters` as a boolean."""
        text = self.parameters.get(parameter)
        if text is None:
            return default
        if text.lower() not in TRUE | FALSE:
            raise ModelError(f"parameter {parameter}: failed to convert '{text}' to boolean")
        return text.lower() in TRUE


def index_of(name: str) -> int | None:
    """Return 2 for `output__2`, and None for a name without a number."""
    match = INDEXED_NAME.fullmatch(name)
    return int(match.group(1)) if match else None


def _missing_fields(config: Mapping[str, Any]) -> list[str]:
    """Return the fields of `config` that Triton passes only to backends in C++."""
    fields = [name for name in ("batch_input", "batch_output") if config.get(name)]
    if any(entry.get("allow_ragged_batch") for entry in config.get("input", [])):
        fields.append("allow_ragged_batch")
    if config.get("sequence_batching", {}).get("state"):
        fields.append("sequence_batching.state")
    return fields


def _tensor(entry: Mapping[str, Any]) -> TensorSpec:
    # The backend sees the shapes of `reshape`, clients see `dims`.
    dims = entry["reshape"]["shape"] if "reshape" in entry else entry["dims"]
    return TensorSpec(
        name=entry["name"],
        data_type=entry["data_type"].removeprefix("TYPE_"),
        dims=tuple(int(length) for length in dims),
        optional=bool(entry.get("optional", False)),
    )
