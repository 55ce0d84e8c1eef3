"""Golden requests that `python -m tracing` stores, and its comparison with model.yaml."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from conftest import AddModel, Event, Run
from trace_sources import FROZEN, ONNX, SCALE
from tracing.contract import TraceError
from tracing.interface import Signature, compare_with_config

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
        shapes = [(4, 3_000_000), (4, 7), (1, 3), (2, 5), (1, 3), (1, 6), (3, 9), (8, 9)]
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


LARGE = SUM_TENSORS.replace("max_batch_size: 8", "max_batch_size: 2").replace("dims: [-1]", "dims: [2_500_000]")


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


def test_a_large_request_is_kept_where_there_is_no_other(add_model: AddModel, run: Run) -> None:
    large = SUM.replace("[inputs(*shape) for shape in shapes]", "[inputs(1, 2_500_000), inputs(2, 2_500_000)]")
    folder = add_model("sum", large.replace("inputs(2, 4)", "inputs(2, 2_500_000)"), config=LARGE)
    assert run()[0] == 0
    assert [path.name for path in (folder / "golden" / "1").glob("*.json")] == ["traced-0.json"]


def test_names_of_onnx_are_those_of_the_file(add_model: AddModel, run: Run) -> None:
    folder = add_model("twice", ONNX, "onnxruntime_onnx", "max_batch_size: 0")
    assert run()[0] == 0
    tensors = read(folder / "golden" / "1", "traced-0.json")
    assert np.array_equal(tensors["y"]["array"], tensors["x"]["array"] * 2)
    assert tensors["y"]["tolerance"] == {"absolute": 0, "relative": 0}


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


def test_answers_with_elements_are_preferred(add_model: AddModel, run: Run) -> None:
    folder = add_model("found", FOUND, config=FOUND_TENSORS)
    status, events = run()
    assert status == 0
    assert [event["text"] for event in events if event["event"] == "warning"] == [
        "output 2 has no elements for any of the fresh_inputs, so a wrong answer may not be noticed. Add inputs to "
        "fresh_inputs in trace.py for which the module finds something, such as boxes in a real picture."
    ]
    assert events[-1]["check"]["empty_outputs"] == [2]
    tensors = read(folder / "golden" / "1", "traced-0.json")
    assert tensors["output__0"]["array"].tolist() == [2, 3]
    assert tensors["output__0"]["tolerance"] == {"absolute": 1.5, "relative": 0}
    assert tensors["output__1"]["tolerance"] == {"absolute": 0, "relative": 0}


@pytest.mark.parametrize("change", ["missing", "changed", "request"])
def test_missing_or_changed_requests_are_made_again(add_model: AddModel, run: Run, change: str) -> None:
    folder = add_model("scale", SCALE)
    run()
    assert run()[1][-1]["event"] == "up-to-date"
    golden = folder / "golden" / "1"
    before = {path.name: path.read_bytes() for path in golden.iterdir()}
    file = golden / ("traced-0.json" if change == "request" else "traced-0.output__0.npy")
    if change == "missing":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[:-1] + b"x")
    assert run()[1][-1]["event"] == "done"
    assert {path.name: path.read_bytes() for path in golden.iterdir()} == before
    assert run()[1][-1]["event"] == "up-to-date"


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


def test_a_failed_check_leaves_them_as_they_are(add_model: AddModel, run: Run) -> None:
    folder = add_model("frozen", FROZEN)
    assert run()[0] == 1
    assert not (folder / "golden").exists()


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


ONE = "max_batch_size: 0\ninput: [{{ name: input__0, data_type: TYPE_FP32, dims: [-1, 4] }}]\noutput: [{output}]"


@pytest.mark.parametrize(
    ("config", "error", "hint"),
    [
        (
            ONE.format(output="{ name: output__0, data_type: TYPE_FP32, dims: [2] }"),
            "model.yaml: output 'output__0' has dims [2], but the network gives shape [1, 4] on inputs of shape [1, 4]",
            "Set dims of 'output__0' to [1, 4]; -1 is any size.",
        ),
        (
            ONE.format(output="{ name: output__0, data_type: TYPE_FP32, dims: [4, 4] }"),
            "model.yaml: output 'output__0' has dims [4, 4], but the network gives shape [1, 4] on inputs of shape "
            "[1, 4]",
            "Set dims of 'output__0' to [1, 4]; -1 is any size.",
        ),
        (
            ONE.format(output="{ name: output__0, data_type: TYPE_FP16, dims: [-1, 4] }"),
            "model.yaml: output 'output__0' has data_type TYPE_FP16, but the network gives TYPE_FP32",
            "Set data_type of 'output__0' to TYPE_FP32, or change the type in trace.py.",
        ),
        (
            ONE.format(output="{ name: output__1, data_type: TYPE_FP32, dims: [-1, 4] }"),
            "model.yaml: output names 1 (output__1), but the network has 1",
            "Name each output of the network once, in its order; the N of output__N counts from 0.",
        ),
        (
            ONE.format(output="{ name: a__0, data_type: TYPE_FP32, dims: [-1, 4] }, { name: b__0, dims: [1] }"),
            "model.yaml: output names 2 (a__0, b__0), but the network has 1",
            "Name each output of the network once, in its order; the N of output__N counts from 0.",
        ),
        (
            ONE.format(output="{ name: a__b__0, data_type: TYPE_FP32, dims: [-1, 4] }"),
            "model.yaml: output 'a__b__0' does not end in a position",
            "TorchScript files contain no names, so name the tensors by position: output__0, output__1, ...",
        ),
        (
            "max_batch_size: 0\noutput: [{ name: a, data_type: TYPE_FP32, dims: [-1, 4] }]",
            "model.yaml: input is missing, and the network has 1",
            "Add input.",
        ),
        (
            ONE.format(output="").replace("TYPE_FP32", "TYPE_INT64"),
            "model.yaml: input 'input__0' has data_type TYPE_INT64, but the network takes TYPE_FP32",
            "Set data_type of 'input__0' to TYPE_FP32, or change the type in trace.py.",
        ),
        (
            ONE.format(output="").replace("[-1, 4]", "[4]"),
            "model.yaml: input 'input__0' has dims [4], but the network takes shape [1, 4]",
            "Set dims of 'input__0' to [1, 4]; -1 is any size.",
        ),
        (
            SEQUENCE.replace("sequence_batching: {}", "").replace("dims: [4]", "dims: [5]").replace("8", "4"),
            "model.yaml: input 'input__0' has dims [5], after a batch axis (max_batch_size is 4), but the network "
            "takes shape [1, 4]",
            "Set dims of 'input__0' to the shape after the batch axis, [4]; -1 is any size.",
        ),
        (
            SEQUENCE.replace("sequence_batching: {}", "").replace("8", "2"),
            "model.yaml: max_batch_size is 2, so the first axis of each tensor is a batch of 1 to 2; 'input__0' has "
            "shape [4, 4] with inputs of shape [4, 4]",
            "Give inputs a batch axis in trace.py, or set max_batch_size to fit.",
        ),
    ],
)
def test_a_network_that_differs_from_model_yaml(
    add_model: AddModel, run: Run, config: str, error: str, hint: str
) -> None:
    # With the batches of every max_batch_size above, because missing ones are reported first.
    batches = SCALE.replace("(torch.rand(1, 4),)]", "(torch.rand(1, 4),), (torch.rand(2, 4),)]")
    folder = add_model("scale", batches, config=config)
    status, events = run()
    assert status == 1
    failed = [(event["error"], event["hint"]) for event in events if event["event"] == "failed"]
    assert (error, hint) in failed
    assert "trace" not in [event.get("step") for event in events]
    assert not list(folder.glob("1/*"))
    assert not (folder / "golden").exists()


def failures(events: list[Event]) -> list[str]:
    return [event["error"].removeprefix("model.yaml: ") for event in events if event["event"] == "failed"]


def test_all_differences_are_reported_before_the_trace(add_model: AddModel, run: Run) -> None:
    config = """
        max_batch_size: 0
        input: [{ name: input__0, data_type: TYPE_INT32, dims: [-1, 5] }]
        output: [{ name: scores, data_type: TYPE_BF16, dims: [-1, 4] }]
    """
    add_model("scale", SCALE.replace("return x * self.factor", "return x, (x, x)"), config=config)
    status, events = run()
    assert (status, events[-1]["event"]) == (1, "failed")
    assert "trace" not in [event.get("step") for event in events]
    errors = failures(events)
    assert errors[0].startswith(
        "forward() returns a tuple of Tensor, tuple, which Triton's PyTorch backend cannot serve"
    )
    assert errors[1:] == [
        "input 'input__0' has data_type TYPE_INT32, but the network takes TYPE_FP32",
        "input 'input__0' has dims [-1, 5], but the network takes shape [1, 4]",
    ]


def test_an_output_that_model_yaml_leaves_out_is_a_warning(add_model: AddModel, run: Run) -> None:
    config = ONE.format(output="{ name: output__1, data_type: TYPE_FP32, dims: [-1, 4] }")
    add_model("scale", SCALE.replace("return x * self.factor", "return x, x * self.factor"), config=config)
    status, events = run("--quick")
    assert (status, [event["text"] for event in events if event["event"] == "warning"]) == (
        0,
        ["output 0 of forward() is not in model.yaml, so clients do not get it"],
    )


def test_bfloat16_is_refused_before_the_trace(add_model: AddModel, run: Run) -> None:
    config = ONE.format(output="{ name: scores, data_type: TYPE_BF16, dims: [-1, 4] }")
    add_model("scale", SCALE.replace("x * self.factor", "x.bfloat16()"), config=config)
    assert failures(run()[1]) == ["output 'scores' does not end in a position"]
    (add_model("other", SCALE.replace("x * self.factor", "x.bfloat16()"), config=config.replace("scores", "y__0")))
    assert failures(run("--models", "other")[1]) == [
        "output 'y__0': the network gives torch.bfloat16, which Triton's libtorch backend does not support"
    ]


def test_onnx_is_compared_before_the_export(add_model: AddModel, run: Run) -> None:
    two = ONNX.replace("def forward(self, x):", "def forward(self, x, n):").replace(
        "rand(5),", "rand(5), torch.ones(2, 2)"
    )
    config = """
        max_batch_size: 0
        input: [{ name: n, data_type: TYPE_FP32, dims: [2, -1] }, { name: x, data_type: TYPE_INT64, dims: [-1] }]
        output: [{ name: y, data_type: TYPE_FP32, dims: [4] }]
    """
    add_model("two", two, "onnxruntime_onnx", config)
    status, events = run()
    # n is the second input of the network. The names are in the file, which is not yet written.
    assert (status, failures(events)) == (
        1,
        [
            "input 'x' has data_type TYPE_INT64, but the network takes TYPE_FP32",
            "output 'y' has dims [4], but the network gives shape [5] on inputs of shape [5], [2, 2]",
        ],
    )
    assert "trace" not in [event.get("step") for event in events]


@pytest.mark.parametrize(
    ("kind", "names", "positions", "error"),
    [
        ("output", ["y__1", "y__0"], [1, 0], None),
        ("output", ["y__1"], [1], None),
        ("output", ["y__2"], None, "output names 1 (y__2), but the network has 2"),
        ("output", ["a__0", "b__0"], None, "output names 2 (a__0, b__0), but the network has 2"),
        ("output", ["a__b__0", "y__1"], None, "output 'a__b__0' does not end in a position"),
        ("output", ["a", "b"], None, "output 'a' does not end in a position"),
        ("input", ["y__1", "x__0"], [1, 0], None),
        ("input", ["second", "first"], [1, 0], None),
        ("input", ["a", "b"], [0, 1], None),
        ("input", ["x__1", "y__2"], None, "input names 2 (x__1, y__2), but the network has 2"),
        ("input", ["x__0", "y__0"], None, "input names 2 (x__0, y__0), but the network has 2"),
        ("input", ["x__0"], None, "input names 1 (x__0), but the network has 2"),
        ("input", ["x__0", "y"], None, "input 'y' does not end in a position"),
    ],
)
def test_names_of_torchscript_are_positions(
    kind: str, names: list[str], positions: list[int] | None, error: str | None
) -> None:
    tensors = {"input": ["first", "second"], "output": ["y__0", "y__1"], kind: names}
    config = {side: [{"name": name, "dims": [-1]} for name in given] for side, given in tensors.items()}
    signature = Signature(["first", "second"], None)
    cases = [(torch.zeros(2), torch.zeros(3))]
    if positions is None:
        with pytest.raises(TraceError, match=re.escape(f"model.yaml: {error}")):
            compare_with_config(config, signature, "model.pt", cases, cases)
        return
    interface = compare_with_config(config, signature, "model.pt", cases, cases)
    slots = interface.inputs if kind == "input" else interface.outputs
    assert [slot.position for slot in slots] == positions


def test_a_scalar_output_of_torchscript_is_refused() -> None:
    config = {side: [{"name": "t__0", "dims": [1]}] for side in ("input", "output")}
    inputs, outputs = [(torch.zeros(1),)], [(torch.zeros(()),)]
    with pytest.raises(TraceError, match="output 't__0' is a scalar, which Triton's PyTorch backend"):
        compare_with_config(config, Signature(["x"], None), "model.pt", inputs, outputs)


def test_a_name_that_is_not_in_the_onnx_file(add_model: AddModel, run: Run) -> None:
    add_model("twice", ONNX, "onnxruntime_onnx", "input: [{ name: z, data_type: TYPE_FP32, dims: [-1] }]")
    status, events = run()
    assert status == 1
    assert events[-1]["error"] == "model.yaml: input 'z' is not in model.onnx, which has x"


LINEAR = """
    import torch
    from torch import nn
    from tracing import TorchScriptExport, Weights

    def export(context):
        return TorchScriptExport(
            eager=nn.Linear(3, 2),
            example_inputs=(torch.rand(2, 3),),
            fresh_inputs=[(torch.rand(1, 3),), (torch.rand(4, 3),)],
            weights=Weights.random(context.seed),
            {options}
        )
"""
LINEAR_CONFIG = """
    max_batch_size: 4
    input: [{ name: input__0, data_type: TYPE_FP32, dims: [3] }]
    output: [{ name: output__0, data_type: TYPE_FP32, dims: [2] }]
"""


@pytest.mark.parametrize(("serving", "served"), [("1e-9", 1e-6), ("0.1", 0.1)])
def test_a_frozen_module_has_no_parameters_and_a_server_may_differ_more(
    add_model: AddModel, run: Run, serving: str, served: float
) -> None:
    options = f"freeze=True, tolerance=1e-6, serving_tolerance={serving}"
    folder = add_model("m", LINEAR.replace("{options}", options), config=LINEAR_CONFIG)
    status, events = run()
    assert status == 0, events
    module = torch.jit.load(folder / "1" / "model.pt")  # type: ignore[no-untyped-call]
    assert list(module.parameters()) == []
    request = json.loads((folder / "golden/1/traced-0.json").read_text(encoding="utf-8"))
    assert request["outputs"][0]["tolerance"]["absolute"] == served


@pytest.mark.parametrize("options", ['tolerance=float("nan")', 'tolerance=0, serving_tolerance=float("inf")'])
def test_a_tolerance_is_finite(add_model: AddModel, run: Run, options: str) -> None:
    add_model("m", LINEAR.replace("{options}", options), config=LINEAR_CONFIG)
    status, events = run()
    assert status == 1
    assert "; allowed: finite numbers from 0" in events[-1]["error"]


def test_a_quick_check_of_a_detector_uses_inputs_in_which_it_finds_something(add_model: AddModel, run: Run) -> None:
    finds = """
        import torch
        from torch import nn
        from tracing import TorchScriptExport, Weights

        class Find(nn.Module):
            def forward(self, x):
                return torch.nonzero(x > 0).to(torch.float32)

        def export(context):
            inputs = [(torch.zeros(2),), (torch.zeros(3),), (torch.ones(9),)]
            return TorchScriptExport(
                eager=Find(), example_inputs=(torch.ones(4),), fresh_inputs=inputs, tolerance=0, weights=Weights.none()
            )
    """
    tensors = """
        input: [{ name: input__0, data_type: TYPE_FP32, dims: [-1] }]
        output: [{ name: output__0, data_type: TYPE_FP32, dims: [-1, 1] }]
    """
    folder = add_model("m", finds, config=tensors)
    golden = []
    for arguments in (["--quick"], []):
        status, events = run(*arguments)
        assert (status, events[-1]["event"], events[-1]["check"]["elements"]) == (0, "done", 9), events
        golden.append({path.name: path.read_bytes() for path in (folder / "golden" / "1").iterdir()})
    assert golden[0] == golden[1]
