"""Argument and return types of `export` in trace.py. Does not import torch at runtime."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from torch import Tensor, nn


class TraceError(Exception):
    """A problem that the user has to fix: `message` is the problem, `hint` the next step, `others` more problems."""

    def __init__(self, message: str, hint: str | None = None, others: Sequence[TraceError] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.others = others


@dataclass
class Problems:
    """Collects problems, so that the user sees all of them at once."""

    found: list[TraceError] = field(default_factory=list)

    @contextmanager
    def collect(self) -> Iterator[None]:
        """Keep a TraceError of the block, and continue after the block."""
        try:
            yield
        except TraceError as error:
            self.found += [TraceError(error.message, error.hint), *error.others]

    def raise_all(self) -> None:
        """Raise one TraceError with all problems, if there are any."""
        if self.found:
            first, *others = self.found
            raise TraceError(first.message, first.hint, others)


@dataclass(frozen=True)
class Weights:
    """The source of a model's weights, as printed and as published with the artifact.

    kind: `none` for a module without parameters.
    description: a phrase, such as "ResNet-50, ImageNet-1k (torchvision IMAGENET1K_V2)".
    source: file, directory, hub id or package from which the weights were read.
    """

    kind: Literal["pretrained", "random", "none"]
    description: str
    source: str | None = None

    @classmethod
    def random(cls, seed: int) -> Weights:
        """Return the description of random weights from torch's seeded generator."""
        return cls("random", f"seeded random weights (seed {seed}), not pretrained")

    @classmethod
    def none(cls) -> Weights:
        """Return the description of a module without parameters."""
        return cls("none", "no weights")


@dataclass(frozen=True)
class TraceContext:
    """The model to export.

    model: name of the model's folder.  version: the version directory.  folder: the model's folder.
    config: model.yaml, parsed.  seed: the seed of torch's generators, set before `export` is called.
    weights: the value of `--weights MODEL=VALUE` (a file, a directory or a hub id), or None.
    """

    model: str
    version: int
    folder: Path
    config: Mapping[str, Any]
    seed: int
    weights: str | None = None

    def input_dims(self, which: str | int) -> list[int]:
        """Return `dims` of an input in model.yaml, by name or place, without the batch axis if max_batch_size > 0."""
        return self._dims("input", which)

    def output_dims(self, which: str | int) -> list[int]:
        """Return `dims` of an output in model.yaml, by name or place, without the batch axis if max_batch_size > 0."""
        return self._dims("output", which)

    @property
    def max_batch_size(self) -> int:
        """`max_batch_size` of model.yaml. 0, Triton's default, means that Triton adds no batch axis."""
        return int(self.config.get("max_batch_size") or 0)

    def _dims(self, kind: Literal["input", "output"], which: str | int) -> list[int]:
        tensors = self.config.get(kind, [])
        for place, tensor in enumerate(tensors):
            if which in {place, tensor.get("name")}:
                return [int(dim) for dim in tensor["dims"]]
        names = ", ".join(str(tensor.get("name")) for tensor in tensors) or "none"
        raise TraceError(
            f"{self.folder / 'model.yaml'} has no {kind} {which!r}; allowed: {names}",
            f"trace.py of {self.model} uses this name; use the same name in both files.",
        )


@dataclass(frozen=True, kw_only=True)
class _Export:
    """Fields of every export.

    eager: the module in eval mode, with which the artifact is compared.
    fresh_inputs: tuples of input tensors, all different and none equal to the tracing input. If max_batch_size > 0,
        they include batches of 1 and of max_batch_size; for dims of -1, at least two sizes with the smallest allowed.
    tolerance: largest allowed |artifact - eager| of any output element; 0 means bitwise equality.
    serving_tolerance: largest allowed difference of a server's answers to the golden requests; None means `tolerance`.
        May be larger for servers with other arithmetic, such as TF32 on GPUs. Values below `tolerance` have no effect.
    extra_files: path relative to the model's folder -> bytes, written with the artifact.
    """

    eager: nn.Module
    fresh_inputs: Sequence[tuple[Tensor, ...]]
    tolerance: float
    weights: Weights
    serving_tolerance: float | None = None
    extra_files: Mapping[str, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for value in (self.tolerance, self.serving_tolerance or 0):
            # Infinity and NaN would allow every difference: no number exceeds them.
            if not (math.isfinite(value) and value >= 0):
                raise TraceError(f"a tolerance is {value}; allowed: finite numbers from 0", "Correct it in trace.py.")

    @property
    def allowed_served(self) -> float:
        """The tolerance for a server's answers."""
        return max(self.tolerance, self.serving_tolerance or 0)


@dataclass(frozen=True, kw_only=True)
class ProgramExport(_Export):
    """An export of a PyTorch module. `platform` in model.yaml decides what becomes of it.

    torch_aoti: model.pt2, a program of torch.export. pytorch_libtorch: model.pt, TorchScript that is traced.
    example_inputs: inputs with which the module is exported or traced. Axes that model.yaml leaves free (the batch, and
        dims of -1) need a size of at least 2.
    """

    example_inputs: tuple[Tensor, ...] | None


@dataclass(frozen=True, kw_only=True)
class TorchScriptExport(ProgramExport):
    """A ProgramExport whose model.pt is made in another way.

    example_inputs: None scripts the whole module, which keeps data-dependent branches. A program then takes the
        largest of the fresh inputs as its example.
    freeze: fold weights into the graph, such as a batch norm into the convolution before it.
    """

    freeze: bool = False


@dataclass(frozen=True, kw_only=True)
class OnnxExport(_Export):
    """An export to model.onnx. `save` writes the file to the given path, and optional data files."""

    save: Callable[[Path], None]


Export: TypeAlias = ProgramExport | OnnxExport
