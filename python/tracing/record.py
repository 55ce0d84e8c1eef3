"""What is known about an artifact: `<artifact>.trace.json` beside it, published with it.

It holds no time, machine or path, so that the same input gives the same bytes.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tracing.contract import Weights


@dataclass(frozen=True)
class Check:
    """The artifact compared with the eager module on fresh inputs, over all inputs and outputs.

    tolerance: the largest absolute difference that the model allows.
    exceeding: how many of `elements` have |artifact - eager| > atol + rtol * |eager|, numpy.allclose's rule.
    not_finite: how many of them are NaN or infinite in both.
    shapes: for each set of inputs the shape of each input.
    """

    tolerance: float
    rtol: float
    atol: float
    max_abs_diff: float
    exceeding: int
    elements: int
    not_finite: int
    shapes: list[list[list[int]]]


@dataclass(frozen=True)
class File:
    """A file of the model. path: relative to the model's folder; bytes: its size; sha256: in hex."""

    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class GivenWeights:
    """What `--weights` named: the file's, folder's or hub's name, and the SHA-256 of the content in hex (hub: None)."""

    name: str
    sha256: str | None


@dataclass(frozen=True)
class Record:
    """One made version.

    data_files: what an ONNX export wrote beside the artifact; golden: golden requests and their tensors' files;
    given_weights: None where the model chose its own; activation_bytes: the most that the tensors of one call of the
    check took at the same time, without the weights; sources: path -> SHA-256 of what it was made from;
    packages: name -> version.
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
    check: Check
    activation_bytes: int
    packages: dict[str, str]
    sources: dict[str, str]

    def files(self) -> list[File]:
        """All files that the trace wrote, but for the record."""
        return [self.artifact, *self.data_files, *self.extra_files, *self.golden]

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Record:
        """Raises ValueError, TypeError or KeyError when `text` is not a record of this version of the code."""
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
    """Where the record of `artifact` is kept."""
    return artifact.with_name(f"{artifact.name}.trace.json")


def read_record(artifact: Path) -> Record | None:
    """The record of an artifact; None when there is none that can be used, and the artifact has to be made."""
    try:
        return Record.from_json(record_path(artifact).read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError, KeyError):
        return None
