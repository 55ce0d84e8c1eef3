"""The changes after which a model is traced again."""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from conftest import AddModel, Run
from trace_sources import ONNX, SCALE
from tracing.files import sha256_of
from tracing.record import read_record
from tracing.repository import Model
from tracing.sources import is_current, mark_verified

# Reads a file of its folder and imports one from elsewhere and a package.
READS = SCALE.replace("import torch\n", "import sys\n    import torch\n    import yaml\n", 1).replace(
    "    def export(context):",
    """    sys.path.insert(0, str(__import__("pathlib").Path(__file__).parents[2] / "elsewhere"))
    import shared_by_models

    def export(context):
        (context.folder / "assets" / "factor.txt").read_text()""",
)


@pytest.fixture
def model(tmp_path: Path, add_model: AddModel, run: Run) -> Path:
    """The folder of a model that is up to date."""
    folder = add_model("scale", READS)
    (folder / "assets").mkdir()
    (folder / "assets" / "factor.txt").write_text("1")
    (folder / "notes.md").write_text("about")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "shared_by_models.py").write_text("SHARED = 1\n")
    status, events = run()
    assert (status, events[-1]["event"]) == (0, "done")
    return folder


def current(folder: Path, seed: int = 0) -> bool:
    """Whether the model need not be made again."""
    model = Model(folder)
    record = read_record(model.artifact())
    return record is not None and is_current(model, record, seed)


def append(path: str) -> Callable[[Path], object]:
    def change(folder: Path) -> None:
        (folder / path).write_bytes((folder / path).read_bytes() + b"\n")

    return change


def write(path: str) -> Callable[[Path], object]:
    def change(folder: Path) -> None:
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text("x")

    return change


def change_a_byte(folder: Path) -> None:
    artifact = folder / "1" / "model.pt"
    before = artifact.stat()
    content = bytearray(artifact.read_bytes())
    content[-200] ^= 1
    artifact.write_bytes(content)
    os.utime(artifact, ns=(before.st_atime_ns, before.st_mtime_ns))


def link(folder: Path) -> None:
    """Adds a file in a linked folder."""
    (folder.parents[1] / "data").mkdir()
    (folder.parents[1] / "data" / "weights.pt").write_text("1")
    (folder / "linked").symlink_to(folder.parents[1] / "data")


def other_package(folder: Path) -> None:
    path = folder / "1" / "model.pt.trace.json"
    record = json.loads(path.read_text())
    record["packages"]["PyYAML"] = "1.0"
    path.write_text(json.dumps(record))


def test_changes_that_count(model: Path) -> None:
    changes: list[Callable[[Path], object]] = [
        *map(
            append,
            ("assets/factor.txt", "trace.py", "model.yaml", "labels.txt", "1/model.pt", "golden/1/traced-0.json"),
        ),
        append("../../elsewhere/shared_by_models.py"),
        write("vocab.json"),
        link,
        change_a_byte,
        other_package,
        lambda folder: (folder / "notes.md").unlink(),
        lambda folder: (folder / "labels.txt").unlink(),
        lambda folder: (folder / "golden/1/traced-0.output__0.npy").unlink(),
        lambda folder: (folder / "1" / "model.pt.trace.json").write_text('{"model": "scale"}'),
    ]
    shared = model.parents[1] / "elsewhere" / "shared_by_models.py"
    before = shared.read_bytes()
    for number, change in enumerate(changes):
        copy = model.with_name(f"copy-{number}")
        shutil.copytree(model, copy)
        assert current(copy)
        change(copy)
        assert not current(copy), number
        shared.write_bytes(before)
    assert not current(model, seed=3)


def test_a_change_within_a_second_that_leaves_the_size_is_traced(tmp_path: Path, model: Path, run: Run) -> None:
    """Python itself takes the bytecode of such a file for current."""
    for path, before, after in (
        (model / "trace.py", "x * self", "x + self"),
        (tmp_path / "elsewhere" / "shared_by_models.py", "SHARED = 1", "nonsense()"),
    ):
        seconds = path.stat().st_mtime_ns
        path.write_text(path.read_text().replace(before, after))
        os.utime(path, ns=(seconds, seconds))
        sys.modules.pop("shared_by_models", None)
        status, events = run()
        if path.name == "trace.py":
            assert status == 0
            module = torch.jit.load(model / "1" / "model.pt")  # type: ignore[no-untyped-call]
            assert torch.equal(module(torch.zeros(1, 4))[0], module.factor)
        else:
            assert (status, events[-1]["error"].partition(": ")[2]) == (1, "NameError: name 'nonsense' is not defined")


def test_files_that_do_not_count(model: Path) -> None:
    for path in (".gitignore", ".cache/x", "__pycache__/trace.pyc", "2/model.pt", "golden/mine.json"):
        write(path)(model)
    assert current(model)


def test_a_file_is_read_again_only_after_a_change(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = read_record(Model(model).artifact())
    assert record is not None
    # Dates the record again, because a file may have been written in the same tick of the clock.
    mark_verified(Model(model), record)
    read: list[str] = []

    def count(path: Path) -> str:
        read.append(path.name)
        return sha256_of(path)

    monkeypatch.setattr("tracing.sources.sha256_of", count)
    for touched in (False, True, False):
        if touched:
            (model / "1" / "model.pt").touch()
        read.clear()
        assert current(model)
        assert ("model.pt" in read) == touched
        mark_verified(Model(model), record)


WITH_DATA = (
    textwrap.dedent(ONNX)
    .replace(
        "    graph = helper",
        """    data = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[1])
    data.data_location = TensorProto.EXTERNAL
    for key, value in {"location": "model.onnx.data", "offset": "0", "length": "4"}.items():
        data.external_data.add(key=key, value=value)
    path.with_name("model.onnx.data").write_bytes(b"\\0\\0\\0\\0")
    nodes = [helper.make_node("Add", ["x", "x"], ["twice"]), helper.make_node("Add", ["twice", "w"], ["y"])]
    graph = helper""",
    )
    .replace(
        '[helper.make_node("Add", ["x", "x"], ["y"])], "twice", tensors[:1], tensors[1:]',
        'nodes, "twice", tensors[:1], tensors[1:], [data]',
    )
)


def test_every_file_that_an_export_writes_is_kept(add_model: AddModel, run: Run) -> None:
    folder = add_model("twice", WITH_DATA, "onnxruntime_onnx", "")
    status, events = run()
    assert (status, events[-1].get("error")) == (0, None)
    names = ["model.onnx", "model.onnx.data", "model.onnx.trace.json"]
    assert sorted(path.name for path in (folder / "1").iterdir()) == names
    assert current(folder)
    (folder / "1" / "model.onnx.data").unlink()
    assert not current(folder)
    run()
    assert current(folder)
    # A file that the next trace does not write is deleted.
    (folder / "trace.py").write_text(textwrap.dedent(ONNX))
    run()
    assert sorted(path.name for path in (folder / "1").iterdir()) == ["model.onnx", "model.onnx.trace.json"]


def test_the_file_has_the_name_that_model_yaml_gives(add_model: AddModel, run: Run) -> None:
    folder = add_model("twice", ONNX, "onnxruntime_onnx", "default_model_filename: network.bin")
    status, events = run()
    assert (status, events[-1]["artifact"]) == (0, str(folder / "1" / "network.bin"))
    assert sorted(path.name for path in (folder / "1").iterdir()) == ["network.bin", "network.bin.trace.json"]
    assert current(folder)
