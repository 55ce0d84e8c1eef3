"""What several test files need."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

# A model folder: name, trace.py, platform.
AddModel = Callable[..., Path]


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture
def add_model(tmp_path: Path) -> AddModel:
    """Adds a model to the repository tmp_path/repo and returns its folder."""

    def add(name: str, trace: str, platform: str = "pytorch_libtorch") -> Path:
        folder = tmp_path / "repo" / name
        folder.mkdir(parents=True)
        (folder / "trace.py").write_text(textwrap.dedent(trace), encoding="utf-8")
        (folder / "model.yaml").write_text(f"platform: {platform}\nmax_batch_size: 0\n", encoding="utf-8")
        return folder

    return add
