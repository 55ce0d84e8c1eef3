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


@dataclass(frozen=True)
class ModelSpec:
    """The model version that this process serves."""

    name: str
    version: str
    artifact: Path
    """The file to load: `<model>/<version>/<default_model_filename>`."""
    batched: bool
    """Whether axis 0 of every tensor is the batch. If not, every request runs alone."""
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    controls: tuple[str, ...] = ()
    """Names of the inputs that Triton adds to each request of a sequence."""
    is_optimized: bool = True
    """Whether TorchScript compiles the module for the shapes of the first requests."""

    @classmethod
    def from_args(cls, args: Mapping[str, str], default_filename: str) -> ModelSpec:
        """Read the `args` of `TritonPythonModel.initialize`, whose `model_config` is Triton's ModelConfig as JSON."""
        config: dict[str, Any] = json.loads(args["model_config"])
        filename = config.get("default_model_filename") or default_filename
        disabled = config.get("parameters", {}).get("DISABLE_OPTIMIZED_EXECUTION", {}).get("string_value", "false")
        return cls(
            name=args["model_name"],
            version=args["model_version"],
            artifact=Path(args["model_repository"], args["model_version"], filename),
            batched=int(config.get("max_batch_size", 0)) > 0,
            inputs=tuple(_tensor(entry) for entry in config.get("input", [])),
            outputs=tuple(_tensor(entry) for entry in config.get("output", [])),
            controls=tuple(entry["name"] for entry in config.get("sequence_batching", {}).get("control_input", [])),
            is_optimized=disabled.lower() not in ("true", "on", "1"),
        )

    def __str__(self) -> str:
        return f"model '{self.name}' version {self.version}"


def index_of(name: str) -> int | None:
    """Return 2 for `output__2`, and None for a name without a number."""
    match = INDEXED_NAME.fullmatch(name)
    return int(match.group(1)) if match else None


def _tensor(entry: Mapping[str, Any]) -> TensorSpec:
    # The backend sees the shapes of `reshape`, clients see `dims`.
    dims = entry["reshape"]["shape"] if "reshape" in entry else entry["dims"]
    data_type = entry["data_type"].removeprefix("TYPE_")
    return TensorSpec(entry["name"], data_type, tuple(int(length) for length in dims))
