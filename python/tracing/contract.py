"""What a model's trace.py is given and what it returns. No torch at import time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from torch import Tensor, nn


Precision: TypeAlias = Literal["fp32", "bf16", "fp16"]


class TraceError(Exception):
    """Something a person has to put right: what is wrong, and in `hint` what to do about it."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


# Where a field of model.yaml is, such as ("input", 0, "dims"), and the value of one that holds a shape.
FieldPath: TypeAlias = tuple[str | int, ...]
Dims: TypeAlias = list[int]


def field_name(path: FieldPath) -> str:
    """As people write it: input[0].dims."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")


class ConfigError(TraceError):
    """The weights need other dims than model.yaml has; `--fit-config` sets `values` there."""

    def __init__(self, message: str, values: Mapping[FieldPath, Dims]) -> None:
        fields = ", ".join(f"{field_name(path)} to {dims}" for path, dims in values.items())
        super().__init__(message, f"Run it again with --fit-config, which sets {fields} in model.yaml.")
        self.values = values


@dataclass(frozen=True)
class Weights:
    """Where a model's weights come from, in words that are printed and published with the artifact.

    kind: `none` for a module without parameters.
    description: a phrase, such as "ResNet-50, ImageNet-1k (torchvision IMAGENET1K_V2)".
    source: file, directory, hub id or package that the weights were read from.
    """

    kind: Literal["pretrained", "random", "none"]
    description: str
    source: str | None = None

    @classmethod
    def random(cls, seed: int) -> Weights:
        """Weights drawn from torch's generator after it was seeded."""
        return cls("random", f"seeded random weights (seed {seed}), not pretrained")

    @classmethod
    def none(cls) -> Weights:
        """A module that has no parameters."""
        return cls("none", "no weights")


@dataclass(frozen=True)
class TraceContext:
    """One model to export.

    model: the folder's name.  version: the version directory.  folder: the model's folder.
    config: model.yaml, parsed.  seed: torch's generators are seeded with it before `export` is called.
    weights: the value of `--weights MODEL=VALUE` (a file, a directory or a hub id), None when not given.
    """

    model: str
    version: int
    folder: Path
    config: Mapping[str, Any]
    seed: int
    weights: str | None = None

    def input_dims(self, name: str) -> list[int]:
        """`dims` of the input called `name` in model.yaml, without the batch axis where max_batch_size > 0."""
        return self._dims("input", name)

    def output_dims(self, name: str) -> list[int]:
        """`dims` of the output called `name` in model.yaml, without the batch axis where max_batch_size > 0."""
        return self._dims("output", name)

    def all_dims(self) -> list[tuple[FieldPath, Dims]]:
        """Every `dims` in model.yaml, of inputs, outputs and warm-up samples, and where it is."""
        return list(_dims_in(self.config, ()))

    @property
    def max_batch_size(self) -> int:
        """`max_batch_size` of model.yaml; 0, Triton's default, means that the model sees the shapes as they come."""
        return int(self.config.get("max_batch_size", 0))

    def _dims(self, kind: Literal["input", "output"], name: str) -> list[int]:
        tensors = self.config.get(kind, [])
        for tensor in tensors:
            if tensor.get("name") == name:
                return [int(dim) for dim in tensor["dims"]]
        names = ", ".join(str(tensor.get("name")) for tensor in tensors) or "none"
        raise TraceError(
            f"{self.folder / 'model.yaml'} has no {kind} called '{name}' (it has: {names})",
            f"trace.py of {self.model} needs it: name it as trace.py does.",
        )


def _dims_in(value: object, path: FieldPath) -> Iterator[tuple[FieldPath, Dims]]:
    entries = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for step, entry in entries:
        if step == "dims" and isinstance(entry, list):
            yield (*path, step), entry
        else:
            yield from _dims_in(entry, (*path, step))


@dataclass(frozen=True, kw_only=True)
class _Export:
    """What every export says about itself.

    eager: the module in eval mode, the truth that the artifact is compared with.
    fresh_inputs: tuples of input tensors, none of them the tracing input and no two the same. Where max_batch_size > 0
        batches of 1 and of that size; where dims are -1 at least two sizes, the smallest that is allowed among them.
    precision: what the artifact computes in. The eager module stays FP32, and so do inputs and outputs.
    tolerance: largest |artifact - eager| allowed in any output element; 0 means equal to the bit. One for each
        precision that the model may be served in, or a number for all.
    serving_tolerance: the same of a server's answers to the golden requests, None for `tolerance`. It may be larger,
        for servers with other arithmetic, such as TF32 on GPUs; never less than `tolerance` counts.
    extra_files: path relative to the model's folder -> bytes, written with the artifact.
    """

    eager: nn.Module
    fresh_inputs: Sequence[tuple[Tensor, ...]]
    tolerance: float | Mapping[Precision, float]
    weights: Weights
    precision: Precision = "fp32"
    serving_tolerance: float | None = None
    extra_files: Mapping[str, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        tolerances = self.tolerance.values() if isinstance(self.tolerance, Mapping) else [self.tolerance]
        for value in (*tolerances, self.serving_tolerance or 0):
            # Every difference is allowed by infinity, and by NaN, which no number exceeds.
            if not (math.isfinite(value) and value >= 0):
                raise TraceError(f"a tolerance is {value}; allowed: finite numbers from 0", "Correct it in trace.py.")

    @property
    def allowed(self) -> float:
        """The tolerance of the artifact. Raises TraceError where none is given for its precision."""
        if isinstance(self.tolerance, int | float):
            return self.tolerance
        if self.precision not in self.tolerance:
            raise TraceError(
                f"trace.py exports in {self.precision}, and gives tolerances for {', '.join(self.tolerance)} only",
                "Measure it with npm run bench -- --only precision, and add it.",
            )
        return self.tolerance[self.precision]

    @property
    def allowed_served(self) -> float:
        """The tolerance of a server's answers."""
        return max(self.allowed, self.serving_tolerance or 0)


@dataclass(frozen=True, kw_only=True)
class TorchScriptExport(_Export):
    """A model.pt.

    example_inputs: they are traced; None scripts the whole module instead (decisions on data survive).
    channels_last: give convolutions images and weights as NHWC, which tensor cores of a GPU want in BF16 and FP16.
    freeze: fold weights into the graph, such as a batch norm into the convolution before it.
    """

    example_inputs: tuple[Tensor, ...] | None
    channels_last: bool = False
    freeze: bool = False


@dataclass(frozen=True, kw_only=True)
class OnnxExport(_Export):
    """A model.onnx. `save` writes the file, in `precision`, at the path it is given, and maybe data files beside it."""

    save: Callable[[Path], None]


Export: TypeAlias = TorchScriptExport | OnnxExport
