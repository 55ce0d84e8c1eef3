from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from onnx import TensorProto, helper, save
from torch import nn

from conftest import forward
from tracing.describe import main


def described(capsys: pytest.CaptureFixture[str], *args: object) -> dict[str, Any]:
    main(*map(str, args))
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


def tensors(side: list[dict[str, Any]]) -> list[tuple[str, str, list[int]]]:
    return [(one["name"], one["data_type"], one["dims"]) for one in side]


def onnx_file(folder: Path, x: list[int | str], *, external: bool = False) -> Path:
    """Write a file that adds 1 to x."""
    value = helper.make_tensor_value_info
    one = helper.make_tensor("one", TensorProto.INT64, [1], b"\1" + b"\0" * 7, raw=True)
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "one"], ["y"])],
        "adds",
        [value("x", TensorProto.INT64, x)],
        [value("y", TensorProto.INT64, None)],
        [one],
    )
    path = folder / "adds.onnx"
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    save(model, path, save_as_external_data=external, location="adds.bin", size_threshold=0)
    return path


@pytest.mark.parametrize(
    ("x", "batch", "dims"),
    [
        (["batch", 3], 8, [3]),
        (["batch", 3, "width"], 8, [3, -1]),
        ([2, "width"], 0, [2, -1]),
        (["length"], 0, [-1]),
        ([1], 0, [1]),
    ],
)
def test_onnx_dims_come_from_the_file_and_a_free_first_axis_is_the_batch(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    x: list[int | str],
    batch: int,
    dims: list[int],
) -> None:
    found = described(capsys, onnx_file(tmp_path, x))
    assert tensors(found["input"]) == [("x", "TYPE_INT64", dims)]
    assert tensors(found["output"]) == [("y", "TYPE_INT64", dims)]
    assert found["max_batch_size"] == batch
    assert ("reason" in found) == (batch == 0)


def test_onnx_takes_no_input_and_names_missing_weights(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = onnx_file(tmp_path, ["n", 3], external=True)
    assert "--input FP32:3 has no use" in described(capsys, path, "FP32:3")["error"]
    (tmp_path / "adds.bin").unlink()
    assert "must lie beside it" in described(capsys, path)["hint"]


class Applied(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("function", "batch", "dims", "output"),
    [
        (lambda x: x * 2, 8, [3, -1], [3, -1]),
        (lambda x: x.softmax(0), 0, [-1, 3, -1], [-1, 3, -1]),
        (lambda x: x.sum(), 0, [-1, 3, -1], [1]),
    ],
)
def test_a_program_describes_its_free_axes(  # noqa: PLR0917 - a table
    capsys: pytest.CaptureFixture[str], tmp_path: Path, function: Any, batch: int, dims: list[int], output: list[int]
) -> None:
    path = tmp_path / "model.pt2"
    axes = {0: torch.export.Dim("batch"), 2: torch.export.Dim("width")}
    torch.export.save(torch.export.export(Applied(function), (torch.rand(2, 3, 4),), dynamic_shapes=(axes,)), path)
    found = described(capsys, path)
    assert found["platform"] == "torch_aoti"
    assert tensors(found["input"]) == [("INPUT__0", "TYPE_FP32", dims)]
    assert tensors(found["output"]) == [("OUTPUT__0", "TYPE_FP32", output)]
    assert found["max_batch_size"] == batch


class ByName(nn.Module):
    def forward(self, x: torch.Tensor, *, scale: torch.Tensor) -> torch.Tensor:
        return x * scale


def test_a_program_with_arguments_by_name_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "model.pt2"
    torch.export.save(torch.export.export(ByName(), (torch.rand(2, 3),), {"scale": torch.rand(2, 3)}), path)
    assert "takes 'scale' by name" in described(capsys, path)["error"]


TWO = forward("a.float() + b, a.sum(dim=-1)", "a, b")
MEAN = forward("x.mean()")


def torch_script(folder: Path, module: Any) -> Path:
    path = folder / "model.pt"
    torch.jit.script(module).save(str(path))
    return path


def test_torchscript_is_run_to_find_outputs_and_their_free_axes(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    found = described(capsys, torch_script(tmp_path, TWO), "INT64:2,-1", "2,1")
    assert tensors(found["input"]) == [("input__0", "TYPE_INT64", [2, -1]), ("input__1", "TYPE_FP32", [2, 1])]
    assert tensors(found["output"]) == [("output__0", "TYPE_FP32", [2, -1]), ("output__1", "TYPE_INT64", [2])]
    assert found["max_batch_size"] == 8


def test_a_mask_of_torchscript_masks_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    # Without an element there is no maximum.
    found = described(capsys, torch_script(tmp_path, forward("x + x[mask].max()", "x, mask")), "FP32:-1", "BOOL:-1")
    assert tensors(found["output"]) == [("output__0", "TYPE_FP32", [-1])]


@pytest.mark.parametrize(
    ("module", "given", "dims", "reason"),
    [
        (forward("x.softmax(0)"), "FP32:4", [-1, 4], "rows of one request change the answers of others"),
        (forward("x @ x.t()"), "FP32:4", [-1, -1], "rows of one request change the answers of others"),
        (forward("x.nonzero()"), "FP32:4", [-1, 1], "the outputs have no batch axis"),
    ],
)
def test_torchscript_whose_rows_are_not_independent_is_not_batched(  # noqa: PLR0917 - a table
    capsys: pytest.CaptureFixture[str], tmp_path: Path, module: Any, given: str, dims: list[int], reason: str
) -> None:
    found = described(capsys, torch_script(tmp_path, module), given)
    assert (found["max_batch_size"], found["reason"]) == (0, reason)
    assert [one["dims"] for one in found["output"]] == [dims]


def test_torchscript_with_one_number_per_row_is_reshaped(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    found = described(capsys, torch_script(tmp_path, nn.ReLU()), "INT64:")
    assert found["max_batch_size"] == 8
    for side in ("input", "output"):
        assert [(one["dims"], one["reshape"]) for one in found[side]] == [([1], [])]


@pytest.mark.parametrize(
    ("module", "given", "message"),
    [
        (TWO, [], "takes a: Tensor, b: Tensor: 2 --input needed, 0 given"),
        (MEAN, ["FP31:3"], "--input FP31:3: is not TYPE:DIMS"),
        (MEAN, ["FP32:3,0"], "--input FP32:3,0: is not TYPE:DIMS"),
        (nn.Linear(3, 1), ["4"], "refuses inputs of 4: RuntimeError: addmm: mat1 and mat2 shapes cannot be multiplied"),
        (forward("x * rate", "x, rate: int"), ["3", "1"], "takes x: Tensor, rate: int, but Triton passes only tensors"),
        (forward("{'x': x}"), ["3"], "forward() returns a dict"),
        (forward("[x, x]"), ["3"], "forward() returns a list"),
        (
            forward("torch.complex(x, x)"),
            ["3"],
            "output 0 of the model is torch.complex64, which Triton does not support",
        ),
        (MEAN, ["-1,3"], "has a tensor without axes"),
    ],
)
def test_torchscript_that_cannot_be_described_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, module: Any, given: list[str], message: str
) -> None:
    assert message in described(capsys, torch_script(tmp_path, module), *given)["error"]


def test_a_file_that_is_neither_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for name in ("model.pt", "model.onnx"):
        (tmp_path / name).write_text("weights")
        assert "cannot load" in described(capsys, tmp_path / name)["error"]
