"""The Python-based backends without Triton, with a fake of Triton's model process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from backend_common.batching import Batcher
from backend_common.dlpack import TYPE_CODES, DLPackExport, _in_use
from backend_common.spec import ModelError, ModelSpec, TensorSpec
from onnx import TensorProto, helper, save
from torch.utils.dlpack import from_dlpack

from fake_triton import FakeRequest, LoadBackend, arguments, tensor
from tracing.interface import DATA_TYPES


class Doubler:
    """A runner that doubles `x` into `y`, counts its calls, and fails for a negative element."""

    def __init__(self) -> None:
        self.batches: list[tuple[int, ...]] = []

    def forward(self, inputs: dict[str, np.ndarray[Any, Any]]) -> dict[str, np.ndarray[Any, Any]]:
        self.batches.append(inputs["x"].shape)
        if (inputs["x"] < 0).any():
            raise ValueError("negative")
        return {"y": inputs["x"] * 2}

    def concatenate(self, arrays: Sequence[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
        return np.concatenate(arrays)

    def data_type(self, array: np.ndarray[Any, Any]) -> str:
        return "FP32" if array.dtype == np.float32 else str(array.dtype)


def batcher(
    max_batch_size: int, data_type: str = "FP32", dims: tuple[int, ...] = (-1,)
) -> tuple[Batcher[Any], Doubler]:
    x, y = TensorSpec("x", "FP32", (-1,)), TensorSpec("y", data_type, dims)
    runner = Doubler()
    spec = ModelSpec("m", "1", Path("model"), max_batch_size, (x,), (y,), {}, "CPU", 0)
    return Batcher(spec, runner), runner


def rows(count: int, width: int, value: float) -> dict[str, np.ndarray[Any, Any]]:
    return {"x": np.full((count, width), value, dtype=np.float32)}


class TestBatcher:
    def test_requests_of_one_shape_share_a_forward(self) -> None:
        batch, runner = batcher(8)
        results: list[Any] = batch.run([rows(1, 4, 1), rows(2, 4, 2), rows(1, 4, 3)])
        assert runner.batches == [(4, 4)]
        assert [(r["y"].shape, r["y"][0, 0]) for r in results] == [((1, 4), 2), ((2, 4), 4), ((1, 4), 6)]

    def test_without_a_batch_axis_every_request_runs_alone(self) -> None:
        batch, runner = batcher(0, dims=(-1, -1))
        batch.run([rows(1, 4, 1), rows(1, 4, 2)])
        assert runner.batches == [(1, 4), (1, 4)]

    def test_a_request_that_fails_fails_all_that_share_its_forward(self) -> None:
        batch, runner = batcher(8)
        results = batch.run([rows(1, 4, 1), rows(1, 4, -1), rows(1, 4, 3)])
        assert runner.batches == [(3, 4)]
        assert [str(result) for result in results] == ["negative"] * 3

    def test_without_a_batch_axis_a_request_fails_alone(self) -> None:
        batch, _ = batcher(0, dims=(-1, -1))
        good, bad = batch.run([rows(1, 4, 1), rows(1, 4, -1)])
        assert not isinstance(good, Exception)
        assert isinstance(bad, ValueError)

    @pytest.mark.parametrize(
        ("data_type", "dims", "message"),
        [
            (
                "FP64",
                (-1,),
                "configuration expects datatype TYPE_FP64 for output 'y', model provides TYPE_FP32",
            ),
            (
                "FP32",
                (3,),
                "output 'y' has shape [2, 4], expected [2, 3] (batch of 2 and dims [3] in the configuration)",
            ),
            (
                "FP32",
                (4, 1),
                "output 'y' has shape [2, 4], expected [2, 4, 1] (batch of 2 and dims [4, 1] in the configuration)",
            ),
        ],
    )
    def test_outputs_must_match_the_configuration(self, data_type: str, dims: tuple[int, ...], message: str) -> None:
        (result,) = batcher(8, data_type, dims)[0].run([rows(2, 4, 1)])
        assert isinstance(result, ModelError)
        assert str(result) == message


TORCH_TYPES = {name.removeprefix("TYPE_"): torch_type for torch_type, name in DATA_TYPES.items()}


class TestDLPackExport:
    @pytest.fixture(autouse=True)
    def _nothing_is_left_in_use(self) -> Iterator[None]:
        yield
        assert _in_use == {}

    def test_every_type_is_tried(self) -> None:
        assert set(TYPE_CODES) == set(TORCH_TYPES)

    @pytest.mark.parametrize("data_type", sorted(TORCH_TYPES))
    @pytest.mark.parametrize("shape", [(2, 3), (), (2, 0), (0, 4), (1, 1)])
    def test_shape_type_and_values_survive(self, data_type: str, shape: tuple[int, ...]) -> None:
        value = torch.randint(0, 2, shape).to(TORCH_TYPES[data_type])
        back = from_dlpack(DLPackExport(value, value.data_ptr(), value.shape, data_type))
        assert back.dtype == value.dtype
        assert back.shape == value.shape
        assert back.tolist() == value.tolist()
        del back

    def test_the_memory_lives_as_long_as_the_consumer(self) -> None:
        value = torch.arange(3)
        back = from_dlpack(DLPackExport(value, value.data_ptr(), value.shape, "INT64"))
        assert len(_in_use) == 1
        del value
        assert back.tolist() == [0, 1, 2]
        del back


class TestModelSpec:
    def test_reads_the_arguments_of_triton(self, tmp_path: Path) -> None:
        config = {
            "max_batch_size": 8,
            "input": [tensor("input__0", dims=[3], reshape={"shape": [1, 3]})],
            "output": [tensor("output__0", "TYPE_INT64", [2])],
            "default_model_filename": "",
            "parameters": {"INTRA_OP_THREAD_COUNT": {"string_value": "2"}},
        }
        spec = ModelSpec.from_args(arguments(tmp_path, **config), "model.pt")
        assert spec.artifact == tmp_path / "1" / "model.pt"
        assert spec.batched
        assert spec.inputs == (TensorSpec("input__0", "FP32", (1, 3)),)
        assert spec.outputs == (TensorSpec("output__0", "INT64", (2,)),)
        assert spec.integer("INTRA_OP_THREAD_COUNT") == 2
        assert spec.integer("OTHER") == 0
        assert (spec.controls, spec.graph_level, spec.missing) == ((), 0, ())
        assert str(spec) == "model 'm' version 1"

    @pytest.mark.parametrize(("text", "value"), [("0", 0), ("-1", -1), (" +2x", 2)])
    def test_integers(self, tmp_path: Path, text: str, value: int) -> None:
        spec = ModelSpec.from_args(arguments(tmp_path, parameters={"N": {"string_value": text}}), "model.pt")
        assert spec.integer("N") == value

    @pytest.mark.parametrize("text", ["two", "", "x2"])
    def test_an_integer_begins_with_digits(self, tmp_path: Path, text: str) -> None:
        spec = ModelSpec.from_args(arguments(tmp_path, parameters={"N": {"string_value": text}}), "model.pt")
        with pytest.raises(ModelError, match=f"^parameter N: failed to convert '{text}' to integral number$"):
            spec.integer("N")

    @pytest.mark.parametrize(
        ("text", "value"), [("true", True), ("ON", True), ("1", True), ("False", False), ("off", False), ("0", False)]
    )
    def test_flags(self, tmp_path: Path, text: str, value: bool) -> None:
        spec = ModelSpec.from_args(arguments(tmp_path, parameters={"F": {"string_value": text}}), "model.pt")
        assert spec.flag("F", not value) is value
        assert spec.flag("OTHER") is False
        assert spec.flag("OTHER", True) is True

    def test_a_flag_is_true_or_false(self, tmp_path: Path) -> None:
        spec = ModelSpec.from_args(arguments(tmp_path, parameters={"F": {"string_value": "yes"}}), "model.pt")
        with pytest.raises(ModelError, match=r"^parameter F: failed to convert 'yes' to boolean$"):
            spec.flag("F")


class Subtract(torch.nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return a - b, b.transpose(0, 1)


class TestPyTorch:
    @pytest.fixture
    def backend(self, load_backend: LoadBackend) -> ModuleType:
        return load_backend("torchscript")

    def test_outputs_are_named_by_number_or_position(self, backend: ModuleType) -> None:
        zero, one = torch.zeros(1), torch.ones(1)
        numbered = [TensorSpec("output__1", "FP32", (1,)), TensorSpec("output__0", "FP32", (1,))]
        assert backend.named_outputs(numbered, (zero, one)) == {"output__1": one, "output__0": zero}
        assert backend.named_outputs([TensorSpec("y", "FP32", (1,))], (one,)) == {"y": one}

    def test_serves_a_torchscript_file(self, backend: ModuleType, tmp_path: Path) -> None:
        (tmp_path / "1").mkdir()
        torch.jit.save(torch.jit.script(Subtract()), tmp_path / "1" / "model.pt")
        model = backend.TorchScriptBackend()
        inputs = [tensor("input__0", dims=[-1, -1]), tensor("input__1", dims=[-1, -1])]
        outputs = [tensor("output__0", dims=[-1, -1]), tensor("output__1", dims=[-1, -1])]
        model.initialize(arguments(tmp_path, max_batch_size=0, input=inputs, output=outputs))
        values = {"input__0": torch.rand(2, 3), "input__1": torch.rand(2, 3)}
        both = FakeRequest(values, {"output__0", "output__1"})
        one = FakeRequest(values, {"output__1"})
        bad = FakeRequest({**values, "input__1": torch.rand(2, 4)}, {"output__0"})
        first, second, third = model.execute([both, one, bad])
        assert torch.equal(first.outputs["output__0"], values["input__0"] - values["input__1"])
        assert torch.equal(first.outputs["output__1"], values["input__1"].T)
        assert list(second.outputs) == ["output__1"]
        assert third.outputs == {}
        assert "The size of tensor a (3) must match the size of tensor b (4)" in third.error

    def test_a_missing_file_is_named(self, backend: ModuleType, tmp_path: Path) -> None:
        (tmp_path / "1").mkdir()
        (tmp_path / "1" / "other.pt").touch()
        with pytest.raises(
            Exception,
            match=r"^model 'm' version 1: cannot load .*/1/model\.pt: the file does not exist; .* contains other\.pt$",
        ):
            backend.TorchScriptBackend().initialize(arguments(tmp_path))

    def test_a_damaged_file_is_named(self, backend: ModuleType, tmp_path: Path) -> None:
        (tmp_path / "1").mkdir()
        (tmp_path / "1" / "model.pt").write_bytes(b"junk")
        with pytest.raises(
            Exception, match=r"^model 'm' version 1: cannot load .*/1/model\.pt: the file is not TorchScript; .*$"
        ):
            backend.TorchScriptBackend().initialize(arguments(tmp_path))

    def test_text_is_refused(self, backend: ModuleType, tmp_path: Path) -> None:
        with pytest.raises(
            Exception,
            match=r": this backend does not support TYPE_STRING of tensor 'x'; allowed: TYPE_BF16, TYPE_BOOL, ",
        ):
            backend.TorchScriptBackend().initialize(arguments(tmp_path, input=[tensor("x", "TYPE_STRING")]))


class TestOnnxRuntime:
    @pytest.fixture
    def model(self, load_backend: LoadBackend, tmp_path: Path) -> Any:
        """Transposes `x` [batch, 2, n] into `y` [batch, n, 2]."""
        graph = helper.make_graph(
            [helper.make_node("Transpose", ["x"], ["y"], perm=[0, 2, 1])],
            "transpose",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 2, "n"])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", "n", 2])],
        )
        (tmp_path / "1").mkdir()
        save(
            helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
            str(tmp_path / "1" / "model.onnx"),
        )
        return load_backend("onnx_session").OnnxBackend()

    def test_serves_an_onnx_file(self, model: Any, tmp_path: Path) -> None:
        config = {"max_batch_size": 8, "input": [tensor("x", dims=[2, -1])], "output": [tensor("y", dims=[-1, 2])]}
        model.initialize(arguments(tmp_path, **config))
        values = [torch.rand(count, 2, 3) for count in (1, 2)]
        responses = model.execute([FakeRequest({"x": value}, {"y"}) for value in values])
        for value, response in zip(values, responses, strict=True):
            assert torch.equal(response.outputs["y"], value.transpose(1, 2))

    def test_a_type_that_the_stand_in_cannot_hand_over(self, model: Any, tmp_path: Path) -> None:
        with pytest.raises(
            Exception, match=r"this backend does not support TYPE_BF16 of tensor 'x'; allowed: TYPE_BOOL, "
        ):
            model.initialize(arguments(tmp_path, input=[tensor("x", "TYPE_BF16", [2, -1])]))
