"""Fixtures that several test files use."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from fake_triton import LoadBackend, backend_loader
from tracing import served
from tracing.__main__ import main

# A model folder: name, trace.py, platform, the rest of model.yaml.
AddModel = Callable[..., Path]
# The events of the command, one object per line.
Event = dict[str, Any]
Run = Callable[..., tuple[int, list[Event]]]


# One FP32 tensor with four numbers per row as input, and the same as output.
TENSORS = """
    max_batch_size: 0
    input: [{ name: input__0, data_type: TYPE_FP32, dims: [-1, 4] }]
    output: [{ name: output__0, data_type: TYPE_FP32, dims: [-1, 4] }]
"""


PYTHON = Path(__file__).parents[2] / "python"


def command(repository: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "tracing", "--repo", str(repository), *arguments]


def in_process(repository: Path, *arguments: str, python_path: str = "") -> tuple[int, list[Event]]:
    """Runs the command like a user, in a separate process."""
    environment = {**os.environ, "PYTHONPATH": python_path}
    result = subprocess.run(
        command(repository, *arguments), cwd=PYTHON, env=environment, capture_output=True, text=True, check=False
    )
    return result.returncode, [json.loads(line) for line in result.stdout.splitlines()]


def forward(code: str, arguments: str = "x") -> Any:
    """Return TorchScript that gives the value of an expression; arguments without a type are tensors."""
    return torch.jit.CompilationUnit(f"def forward({arguments}):\n    return {code}\n").forward


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture
def load_backend(monkeypatch: pytest.MonkeyPatch) -> LoadBackend:
    """Imports python/backends/lib/backend_common/<name>.py as Triton's process would."""
    return backend_loader(monkeypatch)


@pytest.fixture
def add_model(tmp_path: Path) -> AddModel:
    """Adds a model to the repository tmp_path/repo and returns its folder."""

    def add(name: str, trace: str, platform: str = "pytorch_libtorch", config: str = TENSORS) -> Path:
        folder = tmp_path / "repo" / name
        folder.mkdir(parents=True)
        (folder / "trace.py").write_text(textwrap.dedent(trace), encoding="utf-8")
        (folder / "model.yaml").write_text(f"platform: {platform}\n{textwrap.dedent(config)}", encoding="utf-8")
        return folder

    return add


@pytest.fixture
def served_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs the code of `python -m tracing.served` in this process, because another one imports torch for seconds."""

    def serve(command: Sequence[str], **_: object) -> subprocess.CompletedProcess[str]:
        kind, *paths = command[3:]
        with torch.no_grad():
            served._main(kind, *map(Path, paths))
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(served, "subprocess", SimpleNamespace(run=serve))


@pytest.fixture
def run(tmp_path: Path, capfd: pytest.CaptureFixture[str], served_here: None) -> Run:  # noqa: ARG001
    """Runs `python -m tracing` on tmp_path/repo in this process: exit status and events."""

    def run(*arguments: str) -> tuple[int, list[Event]]:
        capfd.readouterr()
        status = main(["--repo", str(tmp_path / "repo"), *arguments])
        return status, [json.loads(line) for line in capfd.readouterr().out.splitlines()]

    return run
