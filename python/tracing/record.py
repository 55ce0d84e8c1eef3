"""The record of an artifact: `<artifact>.trace.json` beside the artifact, published with it.

The record has no time, machine name or local path, so that the same input gives the same bytes.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from tracing.contract import Weights


@dataclass(frozen=True)
class Check:
    """Result of comparing the artifact with the eager module on all fresh inputs.

    tolerance: the largest absolute difference that the model allows.
    exceeding: number of `elements` with |artifact - eager| > atol + rtol * |eager|, the rule of numpy.allclose; for
        integers and booleans, number of those that differ.
    not_finite: number of `elements` that are NaN or infinite in both.
    empty_outputs: positions of the outputs without an element for all fresh inputs, of which only types and shapes were
        compared.
    shapes: for each set of inputs, the shape of each input.
    """

    tolerance: float
    rtol: float
    atol: float
    max_abs_diff: float
    exceeding: int
    elements: int
    not_finite: int
    empty_outputs: list[int]
    shapes: list[list[list[int]]]


@dataclass(frozen=True)
class File:
    """A file of the model. path: relative to the model's folder; bytes: the size; sha256: in hex."""

    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class GivenWeights:
    """The value of `--weights`: name of the file, folder or hub id, and SHA-256 of the content in hex (hub: None)."""

    name: str
    sha256: str | None


@dataclass(frozen=True)
class Record:
    """The record of one version.

    data_files: files that an ONNX export wrote beside the artifact; golden: golden requests and the files of their
    tensors; given_weights: None without --weights; checked: whether only golden requests were compared (quick), or
    also all fresh inputs, repeated calls and other rows of a batch (thorough); activation_bytes: peak memory of the
    tensors during one call of the check, without the weights; max_batch_size, input_dims: those of model.yaml when the
    artifact was checked, the latter as the network sees them (`reshape`); sources: path -> SHA-256 of the files from
    which the version was made; packages: name -> version.
    """

    model: str
    version: int
    artifact: File
    data_files: list[File]
    extra_files: list[File]
    golden: list[File]
    weights: Weights
    given_weights: GivenWeights | None
    seed: int
    checked: Literal["quick", "thorough"]
    check: Check
    activation_bytes: int
    max_batch_size: int
    input_dims: list[list[int]]
    packages: dict[str, str]
    sources: dict[str, str]

    def files(self) -> list[File]:
        """Return all files that the trace wrote, except the record."""
        return [self.artifact, *self.data_files, *self.extra_files, *self.golden]

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Record:
        """Raises ValueError, TypeError or KeyError if `text` is not a record of this version of the code."""
        data: dict[str, Any] = json.loads(text)
        given = data["given_weights"]
        return cls(
            **{
                **data,
                "artifact": File(**data["artifact"]),
                **{kind: [File(**file) for file in data[kind]] for kind in ("data_files", "extra_files", "golden")},
                "weights": Weights(**data["weights"]),
                "given_weights": None if given is None else GivenWeights(**given),
                "check": Check(**data["check"]),
            }
        )


def record_path(artifact: Path) -> Path:
    """Return the path of the record of `artifact`."""
    return artifact.with_name(f"{artifact.name}.trace.json")


def other_artifacts(artifact: Path) -> list[Path]:
    """Return the other artifacts of the version that a trace made, for example for another `platform`."""
    own = record_path(artifact)
    records = [path for path in artifact.parent.glob("*.trace.json") if path != own]
    return [path.with_name(path.name.removesuffix(".trace.json")) for path in records]


def read_record(artifact: Path) -> Record | None:
    """Read the record of an artifact; None if it is missing or unusable, so that the artifact has to be made."""
    try:
        return Record.from_json(record_path(artifact).read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError, KeyError):
        return None
