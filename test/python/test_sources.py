"""The reasons for which a model is out of date, as `python -m tracing --explain` reports them."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import AddModel, Event, Run
from trace_sources import ONNX, SCALE

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


def reasons(run: Run, *arguments: str) -> list[str]:
    status, events = run("--explain", *arguments)
    assert (status, [event["event"] for event in events]) == (0, ["explain"])
    found: list[str] = events[0]["reasons"]
    return found


def _append(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\n")


def _edit_record(folder: Path, edit: Callable[[Event], object]) -> None:
    path = folder / "1" / "model.pt.trace.json"
    record = json.loads(path.read_text())
    edit(record)
    path.write_text(json.dumps(record))


def test_changed_files_are_named(model: Path, run: Run) -> None:
    changes: list[tuple[Callable[[], object], list[str]]] = [
        (lambda: None, []),
        (lambda: _append(model / "assets" / "factor.txt"), ["assets/factor.txt changed"]),
        ((model / "notes.md").unlink, ["notes.md was removed"]),
        (lambda: (model / "vocab.json").write_text("{}"), ["vocab.json is new"]),
        (lambda: _append(model / "trace.py"), ["trace.py changed"]),
        (
            lambda: _append(model.parents[1] / "elsewhere" / "shared_by_models.py"),
            ["../../elsewhere/shared_by_models.py changed"],
        ),
        (lambda: (model / "labels.txt").write_text("two\none\n"), ["labels.txt is missing or was changed"]),
        (
            lambda: _edit_record(model, lambda record: record["packages"].update(PyYAML="1.0")),
            [f"PyYAML changed from 1.0 to {__import__('yaml').__version__}"],
        ),
    ]
    known: list[str] = []
    for change, expected in changes:
        change()
        found = reasons(run)
        assert sorted(set(found) - set(known)) == expected
        known = found
    assert reasons(run, "--seed", "3")[-1] == "the seed changed from 0 to 3"
    assert reasons(run, "--force")[0] == "--force was given"
    # --explain does not trace.
    assert reasons(run) == known


def test_files_that_do_not_count(model: Path, run: Run) -> None:
    for path in (".gitignore", ".cache/x", "__pycache__/trace.pyc", "2/model.pt", "golden/mine.json"):
        (model / path).parent.mkdir(exist_ok=True)
        (model / path).write_text("x")
    assert reasons(run) == []


def test_weights_beside_trace_py_are_traced_again(add_model: AddModel, run: Run) -> None:
    folder = add_model(
        "scale", SCALE.replace("torch.rand(4)", "float((context.folder / 'w').read_text()) * torch.ones(4)", 1)
    )
    (folder / "w").write_text("1")
    assert run()[1][-1]["event"] == "done"
    first = (folder / "1" / "model.pt").read_bytes()
    (folder / "w").write_text("5")
    assert run()[1][-1]["event"] == "done"
    assert (folder / "1" / "model.pt").read_bytes() != first


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
    assert reasons(run) == []
    (folder / "1" / "model.onnx.data").unlink()
    assert reasons(run) == ["1/model.onnx.data is missing or was changed"]
    run()
    assert reasons(run) == []
    # A file that the next trace does not write is deleted.
    (folder / "trace.py").write_text(textwrap.dedent(ONNX))
    run()
    assert sorted(path.name for path in (folder / "1").iterdir()) == ["model.onnx", "model.onnx.trace.json"]


def test_the_file_has_the_name_that_model_yaml_gives(add_model: AddModel, run: Run) -> None:
    folder = add_model("twice", ONNX, "onnxruntime_onnx", "default_model_filename: network.bin")
    status, events = run()
    assert (status, events[-1]["artifact"]) == (0, str(folder / "1" / "network.bin"))
    assert sorted(path.name for path in (folder / "1").iterdir()) == ["network.bin", "network.bin.trace.json"]
    assert reasons(run) == []


def test_files_of_a_linked_folder_count(tmp_path: Path, model: Path, run: Run) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "weights.pt").write_text("1")
    (model / "linked").symlink_to(tmp_path / "data")
    assert reasons(run) == ["linked/weights.pt is new"]
