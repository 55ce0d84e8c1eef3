"""Golden requests that `python -m tracing` stores."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from conftest import AddModel, Run
from trace_sources import SCALE
from tracing.golden import choose

SUM = """
    import torch
    from torch import nn
    from tracing import TorchScriptExport, Weights

    class Sum(nn.Module):
        def forward(self, x, ids):
            total = x.sum(-1) + ids.sum(-1)
            x.zero_()  # its own copy
            return total, ids

    def inputs(batch, length):
        return torch.rand(batch, length), torch.randint(0, 9, (batch, 2))

    def export(context):
        shapes = [(4, 300_000), (4, 7), (1, 3), (2, 5), (1, 3), (1, 6), (3, 9), (8, 9)]
        return TorchScriptExport(
            eager=Sum(),
            example_inputs=inputs(2, 4),
            fresh_inputs=[inputs(*shape) for shape in shapes],
            tolerance=1e-4,
            serving_tolerance=1e-2,
            weights=Weights.none(),
        )
"""
SUM_TENSORS = """
    max_batch_size: 8
    input:
      - { name: ids, data_type: TYPE_INT64, dims: [2] }
      - { name: x, data_type: TYPE_FP32, dims: [-1] }
    output:
      - { name: output__1, data_type: TYPE_INT64, dims: [2] }
      - { name: output__0, data_type: TYPE_FP32, dims: [1], reshape: { shape: [] } }
"""


def read(folder: Path, name: str) -> dict[str, Any]:
    """A request with its tensors, by the names of these."""
    request = json.loads((folder / name).read_text())
    for tensor in (*request["inputs"], *request["outputs"]):
        array = np.load(folder / tensor["file"])
        assert list(array.shape) == tensor["shape"]
        assert array.flags.c_contiguous
        tensor["array"] = array
    return {tensor["name"]: tensor for tensor in (*request["inputs"], *request["outputs"])}


def test_stores_the_smallest_request_and_one_with_other_sizes(add_model: AddModel, run: Run) -> None:
    folder = add_model("sum", SUM, config=SUM_TENSORS)
    status, events = run()
    assert (status, events[-1]["event"]) == (0, "done")
    golden = folder / "golden" / "1"
    requests = sorted(path.name for path in golden.glob("*.json"))
    assert requests == ["traced-0.json", "traced-1.json"]
    assert [read(golden, name)["x"]["shape"] for name in requests] == [[1, 3], [2, 5]]
    tensors = read(golden, "traced-1.json")
    described = {
        name: (one["datatype"], one["array"].dtype, one["shape"], one["file"], one.get("tolerance"))
        for name, one in tensors.items()
    }
    tolerance = {"absolute": 1e-2, "relative": 0}
    assert described == {
        "ids": ("INT64", np.int64, [2, 2], "traced-1.ids.npy", None),
        "x": ("FP32", np.float32, [2, 5], "traced-1.x.npy", None),
        "output__1": ("INT64", np.int64, [2, 2], "traced-1.output__1.npy", tolerance),
        # The batch axis, and dims of the request where the network has others.
        "output__0": ("FP32", np.float32, [2, 1], "traced-1.output__0.npy", tolerance),
    }
    total = tensors["x"]["array"].sum(-1) + tensors["ids"]["array"].sum(-1)
    np.testing.assert_allclose(tensors["output__0"]["array"][:, 0], total, rtol=1e-6)
    assert np.array_equal(tensors["output__1"]["array"], tensors["ids"]["array"])
    record = json.loads((folder / "1" / "model.pt.trace.json").read_text())
    assert record["golden"] == [
        {"path": f"golden/1/{path.name}", "bytes": path.stat().st_size, "sha256": sha256(path)}
        for path in (golden / file["path"].removeprefix("golden/1/") for file in record["golden"])
    ]
    assert {file["path"].removeprefix("golden/1/") for file in record["golden"]} == {
        path.name for path in golden.iterdir()
    }


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_large_request_is_kept_where_there_is_no_other() -> None:
    cases = [(torch.zeros(rows, 2_500_000),) for rows in (1, 2)]
    assert choose(cases, cases) == [0]


FOUND = """
    import torch
    from torch import nn
    from tracing import TorchScriptExport, Weights

    class Found(nn.Module):
        def forward(self, x):
            return x[x > 0], x > 0, x[:0]

    def export(context):
        fresh = ([-1.0], [-1.0, 2.0, 3.0], [-2.0, -3.0])
        return TorchScriptExport(
            eager=Found(),
            example_inputs=(torch.tensor([1.0, -1.0]),),
            fresh_inputs=[(torch.tensor(x),) for x in fresh],
            tolerance=1.5,
            weights=Weights.none(),
        )
"""
FOUND_TENSORS = """
    max_batch_size: 0
    input: [{ name: input__0, data_type: TYPE_FP32, dims: [-1] }]
    output:
      - { name: output__0, data_type: TYPE_FP32, dims: [-1] }
      - { name: output__1, data_type: TYPE_BOOL, dims: [-1] }
      - { name: output__2, data_type: TYPE_FP32, dims: [-1] }
"""


def test_answers_with_elements_are_preferred_by_both_checks(add_model: AddModel, run: Run) -> None:
    folder = add_model("found", FOUND, config=FOUND_TENSORS)
    assert run("--quick")[0] == 0
    quick = {path.name: path.read_bytes() for path in (folder / "golden" / "1").iterdir()}
    status, events = run()
    assert status == 0
    assert {path.name: path.read_bytes() for path in (folder / "golden" / "1").iterdir()} == quick
    assert [event["text"] for event in events if event["event"] == "warning"] == [
        "output 2 has no elements for any of the fresh_inputs, so a wrong answer may not be noticed. Add inputs to "
        "fresh_inputs in trace.py for which the module finds something, such as boxes in a real picture."
    ]
    assert events[-1]["check"]["empty_outputs"] == [2]
    tensors = read(folder / "golden" / "1", "traced-0.json")
    assert tensors["output__0"]["array"].tolist() == [2, 3]
    assert tensors["output__0"]["tolerance"] == {"absolute": 1.5, "relative": 0}
    assert tensors["output__1"]["tolerance"] == {"absolute": 0, "relative": 0}


def test_a_trace_replaces_those_of_its_version_and_no_others(add_model: AddModel, run: Run) -> None:
    folder = add_model("scale", SCALE)
    run()
    golden = folder / "golden" / "1"
    (golden / "traced-7.json").write_text("{}")
    (golden / "mine.json").write_text("{}")
    run("--force", "--version", "2")
    assert sorted(path.name for path in golden.glob("*.json")) == [
        "mine.json",
        "traced-0.json",
        "traced-1.json",
        "traced-7.json",
    ]
    run("--force")
    assert sorted(path.name for path in golden.glob("*.json")) == ["mine.json", "traced-0.json", "traced-1.json"]
    assert len(list((folder / "golden" / "2").glob("*.json"))) == 2


SEQUENCE = """
    max_batch_size: 8
    sequence_batching: {}
    input: [{ name: input__0, data_type: TYPE_FP32, dims: [4] }]
    output: [{ name: output__0, data_type: TYPE_FP32, dims: [4] }]
"""


def test_sequences_have_none(add_model: AddModel, run: Run) -> None:
    folder = add_model("scale", SCALE, config=SEQUENCE)
    assert run()[0] == 0
    assert not list(folder.glob("golden/1/*"))


@pytest.mark.parametrize(("serving", "served"), [("1e-9", 1e-6), ("0.1", 0.1)])
def test_a_frozen_module_has_no_parameters_and_a_server_may_differ_more(
    add_model: AddModel, run: Run, serving: str, served: float
) -> None:
    tolerances = f"freeze=True, tolerance=1e-6, serving_tolerance={serving},"
    folder = add_model("m", SCALE.replace("tolerance=0,", tolerances))
    status, events = run()
    assert status == 0, events
    module = torch.jit.load(folder / "1" / "model.pt")  # type: ignore[no-untyped-call]
    assert list(module.parameters()) == []
    request = json.loads((folder / "golden/1/traced-0.json").read_text(encoding="utf-8"))
    assert request["outputs"][0]["tolerance"]["absolute"] == served
