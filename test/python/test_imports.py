"""Imports of a trace.py: modules beside it, and packages of its requirements.txt."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import sys
from pathlib import Path

import pytest
import torch

from conftest import AddModel, Run
from model_packages.cache import cache_root
from model_packages.install import Uv, tracing_packages
from trace_sources import SCALE


def importing(imports: str, factor: object) -> str:
    """A trace.py with these imports, whose model multiplies by an expression."""
    return SCALE.replace("import torch\n", f"import torch\n    {imports}\n", 1).replace("self.factor\n", f"{factor}\n")


@pytest.fixture(autouse=True)
def _uv(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment that src/local/trace/trace.ts passes."""
    cached = sorted(cache_root().glob("uv-*/bin/uv"))
    monkeypatch.setenv("TRITON_SERVING_UV", shutil.which("uv") or str(cached[-1]))


def factor_of(folder: Path) -> float:
    module = torch.jit.load(str(folder / "1" / "model.pt"))  # type: ignore[no-untyped-call]
    return float(module(torch.ones(1, 4))[0, 0])


def test_modules_beside_it_whose_names_clash(add_model: AddModel, run: Run) -> None:
    for name, factor in (("two", 2), ("three", 3)):
        folder = add_model(name, importing("from mymodel import FACTOR", "FACTOR"))
        (folder / "mymodel.py").write_text(f"FACTOR = {factor}\n", encoding="utf-8")
        before = sys.path.copy()
        status, events = run("--models", name)
        assert (status, events[-1]["event"]) == (0, "done"), events
        assert "mymodel" not in sys.modules
        assert sys.path == before
        assert factor_of(folder) == factor


def test_packages_of_its_requirements(add_model: AddModel, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    # Another test of this process may have imported it.
    for name in [name for name in sys.modules if name.split(".")[0] == "idna"]:
        monkeypatch.delitem(sys.modules, name)
    installed = importlib.metadata.version("idna")
    assert installed != "3.10"
    factor = 'int(idna.__version__.split(".")[1])'
    folder = add_model("packaged", importing("import idna", factor))
    (folder / "requirements.txt").write_text("idna==3.10\nnumpy\n", encoding="utf-8")
    status, events = run()
    assert (status, events[-1]["event"]) == (0, "done"), events
    assert factor_of(folder) == 10
    assert run()[1][-1]["event"] == "up-to-date"
    # NumPy is not installed again, because the environment has it.
    installed_to = tracing_packages(folder / "requirements.txt", sys.executable, Uv(os.environ["TRITON_SERVING_UV"]))
    assert sorted(path.name for path in installed_to.glob("[a-z]*")) == ["idna", "idna-3.10.dist-info"]


@pytest.mark.parametrize(
    ("imports", "requirements", "error"),
    [
        ("import nonesuch.part", None, "ModuleNotFoundError: No module named 'nonesuch'"),
        ("", "idna==3.10\nidna==3.9\n", "cannot install the packages of wrong/requirements.txt: "),
        # Resolved, and not downloaded: PyTorch 2.2 is too old to trace.
        ("", "facenet-pytorch==2.6.0\n", "depends on torch"),
    ],
)
def test_missing_modules_are_reported_with_the_file(
    add_model: AddModel, run: Run, imports: str, requirements: str | None, error: str
) -> None:
    folder = add_model("wrong", importing(imports, 1))
    if requirements is not None:
        (folder / "requirements.txt").write_text(requirements, encoding="utf-8")
    status, events = run()
    assert status == 1
    assert events[-1]["event"] == "failed"
    assert error in events[-1]["error"]
    assert str(folder / "requirements.txt") in events[-1]["hint"]
