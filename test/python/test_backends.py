"""The Python-based backends without Triton, with a fake of Triton's model process."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from backend_common.dlpack import DLPackExport, _in_use
from torch import Tensor, nn
from torch.utils.dlpack import from_dlpack

from conftest import forward
from fake_triton import FakeRequest, LoadBackend, arguments, tensor
from tracing.interface import DATA_TYPES

TORCH_TYPES = {name.removeprefix("TYPE_"): torch_type for torch_type, name in DATA_TYPES.items()}
ONNX_FILES = Path(__file__).parents[1] / "data" / "onnx"


class TestDLPackExport:
    @pytest.fixture(autouse=True)
    def _nothing_is_left_in_use(self) -> Iterator[None]:
        yield
        assert _in_use == {}

    @pytest.mark.parametrize("data_type", sorted(TORCH_TYPES.keys() - {"BF16"}))
    def test_shape_type_and_values_survive(self, data_type: str) -> None:
        for shape in [(2, 3), (), (2, 0), (0, 4), (1, 1)]:
            value = torch.randint(0, 2, shape).to(TORCH_TYPES[data_type])
            back = from_dlpack(DLPackExport(value.numpy()))
            assert (back.dtype, back.shape, back.tolist()) == (value.dtype, value.shape, value.tolist())
            del back

    def test_the_memory_lives_as_long_as_the_consumer(self) -> None:
        value = torch.arange(6).reshape(2, 3)
        back = from_dlpack(DLPackExport(value.t().numpy()))
        assert len(_in_use) == 1
        del value
        assert back.tolist() == [[0, 3], [1, 4], [2, 5]]
        del back


class One(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if bool((x < 0).any()):
            raise ValueError("a negative value")
        return x * 2


class Pair(NamedTuple):
    doubled: Tensor
    negative: Tensor


class ToNamedTuple(nn.Module):
    def forward(self, x: Tensor) -> Pair:
        return Pair(x * 2, -x)


class Training(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x if self.training else -x


TWO = forward("x - y", "x, y")
WITH_BOOL = forward("x if flag else -x", "x, flag: bool")
TRANSPOSED = forward("x.reshape(-1, 2).t()")
NEGATIVE = forward("torch.imag(torch.complex(x, x).conj())")
TO_LIST, TO_FLOAT = forward("[x, x]"), forward("(x, 2.0)")
TO_DOUBLE, TO_SCALAR = forward("x.double()"), forward("x.sum()")
ONE, PAIR, TRAINING = One(), ToNamedTuple(), Training()

X, Y, OUT = tensor("input__0"), tensor("input__1"), tensor("output__0")


def controls(*names: str) -> dict[str, Any]:
    return {"sequence_batching": {"control_input": [{"name": name} for name in names]}}


class TestTorchScript:
    @pytest.fixture
    def load(self, load_backend: LoadBackend, tmp_path: Path) -> Callable[..., Any]:
        def load(module: Any, **config: Any) -> Any:
            (tmp_path / "1").mkdir()
            torch.jit.script(module).save(str(tmp_path / "1" / "model.pt"))
            model = load_backend("torchscript").TorchScriptBackend()
            model.initialize(arguments(tmp_path, **{"input": [X], "output": [OUT], "max_batch_size": 0, **config}))
            return model

        return load

    @pytest.mark.parametrize(
        ("module", "config", "refusal"),
        [
            (TWO, {}, "forward() takes x: Tensor, y: Tensor, but the configuration has 1 inputs, all of them tensors"),
            (ONE, {"input": [X, Y]}, "forward() takes x: Tensor, but the configuration has 2 inputs"),
            (ONE, controls("START__1"), "forward() takes x: Tensor, but the configuration has 2 inputs"),
            (WITH_BOOL, {"input": [X, Y]}, "forward() takes x: Tensor, flag: bool, but the configuration has 2 inputs"),
            (TWO, {"input": [X, tensor("input__2")]}, "the numbers in the input names must be 0 to 1, each used once"),
            (TWO, controls("START"), "the numbers in the input names must be 0 to 1, each used once"),
            (ONE, {"input": [tensor("x", "TYPE_STRING")]}, "this backend does not support TYPE_STRING of 'x'; allowed"),
            (ONE, {"default_model_filename": "x.pt"}, "the file does not exist; the version folder contains model.pt"),
        ],
    )
    def test_refuses(self, load: Callable[..., Any], module: Any, config: dict[str, Any], refusal: str) -> None:
        with pytest.raises(Exception, match=rf"^model 'm' version 1: cannot load \S+: {re.escape(refusal)}"):
            load(module, **config)

    def test_a_damaged_file_is_refused(self, load_backend: LoadBackend, tmp_path: Path) -> None:
        (tmp_path / "1").mkdir()
        (tmp_path / "1" / "model.pt").write_bytes(b"junk")
        with pytest.raises(Exception, match=r"cannot load .*/1/model\.pt: the file is not TorchScript; .*$"):
            load_backend("torchscript").TorchScriptBackend().initialize(arguments(tmp_path))

    # Inputs with their values in the order of the configuration -> what output__0 is.
    @pytest.mark.parametrize(
        ("module", "config", "sent", "answer"),
        [
            (TWO, {"input": [tensor("y"), tensor("x")]}, [[1.0], [5.0]], [4.0]),
            (TWO, {"input": [tensor("b__1"), tensor("a__0")]}, [[1.0], [5.0]], [4.0]),
            (TWO, {"input": [tensor("b__1"), tensor("x")]}, [[1.0], [5.0]], [-4.0]),
            # The index follows the first "__", not the last.
            (TWO, {"input": [tensor("b__x__1"), tensor("a__x__0")]}, [[1.0], [5.0]], [-4.0]),
            (TWO, {"input": [X], **controls("START__1")}, [[5.0], [1.0]], [4.0]),
            (TWO, {"input": [Y], **controls("START__0")}, [[1.0], [5.0]], [4.0]),
            (PAIR, {}, [[2.0]], [4.0]),
            (PAIR, {"output": [tensor("output__1"), OUT]}, [[2.0]], [4.0]),
            (PAIR, {"output": [OUT, tensor("y")]}, [[2.0]], [4.0]),
            (PAIR, {"output": [tensor("y"), OUT]}, [[2.0]], [-2.0]),
            (TRAINING, {}, [[1.0]], [1.0]),
            (ONE, {"parameters": {"DISABLE_OPTIMIZED_EXECUTION": {"string_value": "ON"}}}, [[1.0]], [2.0]),
            (ONE, {}, [[]], []),
            (ONE, {"input": [tensor("input__0", dims=[1], reshape={"shape": [-1]})]}, [[1.0]], [2.0]),
            # Triton gets memory in C order.
            (
                TRANSPOSED,
                {"output": [tensor("output__0", dims=[2, 2])]},
                [[1.0, 2.0, 3.0, 4.0]],
                [[1.0, 3.0], [2.0, 4.0]],
            ),
        ],
    )
    def test_answers(
        self,
        load: Callable[..., Any],
        module: Any,
        config: dict[str, Any],
        sent: list[list[float]],
        answer: list[float],
    ) -> None:
        model = load(module, **config)
        batching = config.get("sequence_batching", {}).get("control_input", [])
        names = [entry["name"] for entry in (*config.get("input", [X]), *batching)]
        inputs = {name: torch.tensor(value) for name, value in zip(names, sent, strict=True)}
        (response,) = model.execute([FakeRequest(inputs, {"output__0"})])
        assert response.error is None
        assert {name: value.tolist() for name, value in response.outputs.items()} == {"output__0": answer}

    @pytest.mark.parametrize(
        ("module", "config", "error"),
        [
            (ONE, {}, "PyTorch execute failure: The following operation failed in the TorchScript"),
            (TO_LIST, {}, "PyTorch execute failure: output must be of type Tensor or a tuple of tensors, but forward"),
            (TO_FLOAT, {}, "PyTorch execute failure: output must be of type Tensor or a tuple of tensors, but forward"),
            (NEGATIVE, {}, "RuntimeError: Can't call numpy() on Tensor that has negative bit set."),
            (TO_SCALAR, {}, "PyTorch execute failure: an output is a scalar, which the libtorch backend does not"),
            (PAIR, {"output": [tensor("y__2")]}, "output 'y__2' is element 2, but forward returned 2 tensors"),
            (
                TO_DOUBLE,
                {},
                "configuration expects datatype TYPE_FP32 for output 'output__0', model provides TYPE_FP64",
            ),
            (
                TRAINING,
                {"output": [tensor("output__0", dims=[3])]},
                "output 'output__0' has shape [1], expected [3] (dims [3] in the configuration)",
            ),
        ],
    )
    def test_fails(self, load: Callable[..., Any], module: Any, config: dict[str, Any], error: str) -> None:
        model = load(module, **config)
        (response,) = model.execute([FakeRequest({"input__0": torch.tensor([-1.0])}, {OUT["name"]})])
        assert response.outputs == {}
        assert response.error.startswith(error)

    def test_requests_of_a_batch_share_a_call_and_its_error(self, load: Callable[..., Any]) -> None:
        model = load(ONE, max_batch_size=8)
        calls: list[torch.Size] = []
        module, model._module = model._module, lambda x: calls.append(x.shape) or module(x)
        requests = [
            FakeRequest({"input__0": torch.full((rows, 2), value)}, {"output__0"})
            for rows, value in ((1, 1.0), (2, -1.0), (2, 3.0))
        ]
        errors = [response.error for response in model.execute(requests)]
        assert "Traceback of TorchScript" in errors[0]
        assert errors[0].rstrip().endswith("builtins.ValueError: a negative value")
        assert errors == [errors[0]] * 3
        first, last = model.execute([requests[0], requests[2]])
        assert first.outputs["output__0"].tolist() == [[2.0, 2.0]]
        assert last.outputs["output__0"].tolist() == [[6.0, 6.0]] * 2
        assert calls == [(5, 2), (3, 2)]

    def test_without_a_batch_axis_every_request_runs_alone(self, load: Callable[..., Any]) -> None:
        requests = [FakeRequest({"input__0": torch.tensor([value])}, {"output__0"}) for value in (-1.0, 1.0)]
        bad, good = load(ONE).execute(requests)
        assert bad.error is not None
        assert good.outputs["output__0"].tolist() == [2.0]

    def test_fewer_rows_than_the_batch_are_refused(self, load: Callable[..., Any]) -> None:
        model = load(TRANSPOSED, max_batch_size=8, output=[tensor("output__0", dims=[3])])
        (response,) = model.execute([FakeRequest({"input__0": torch.ones(3, 2)}, {"output__0"})])
        assert response.error == (
            "output 'output__0' has shape [2, 3], expected [3, 3] (batch of 3 and dims [3] in the configuration)"
        )


# In test/data/onnx: scalars: x [batch, 2], count [] and bias [2], which has a default -> y [batch, 2] = x + bias,
# n [] = count; batched: x [batch, n] and flag [batch, 1] -> y [batch, 2, 2], which fails unless n is 4.
SCALARS: dict[str, Any] = {
    "max_batch_size": 0,
    "input": [tensor("x", dims=[-1, 2]), tensor("count", dims=[1])],
    "output": [tensor("y", dims=[-1, 2]), tensor("n", dims=[1])],
}
FLAG = tensor("flag", dims=[1])
BATCHED: dict[str, Any] = {
    "max_batch_size": 8,
    "input": [tensor("x"), FLAG],
    "output": [tensor("y", dims=[2, 2])],
}


class TestOnnxRuntime:
    @pytest.fixture
    def load(self, load_backend: LoadBackend, tmp_path: Path) -> Callable[..., Any]:
        def load(file: str, config: dict[str, Any]) -> Any:
            (tmp_path / "1").mkdir()
            shutil.copy(ONNX_FILES / f"{file}.onnx", tmp_path / "1" / "model.onnx")
            model = load_backend("onnx_session").OnnxBackend()
            model.initialize(arguments(tmp_path, **config))
            return model

        return load

    @pytest.mark.parametrize(
        ("changes", "refusal"),
        [
            ({"input": [tensor("z"), FLAG]}, "the file has no input 'z'; it has flag, x"),
            ({"output": [tensor("z")]}, "the file has no output 'z'; it has y"),
            ({"input": [tensor("x", "TYPE_FP64"), FLAG]}, "input 'x' is FP32, but TYPE_FP64 in the configuration"),
            ({"output": [tensor("y", "TYPE_INT64")]}, "output 'y' is FP32, but TYPE_INT64 in the configuration"),
            ({"input": [tensor("x", "TYPE_BF16")]}, "this backend does not support TYPE_BF16 of 'x'; allowed: "),
        ],
    )
    def test_refuses(self, load: Callable[..., Any], changes: dict[str, Any], refusal: str) -> None:
        with pytest.raises(Exception, match=rf"^model 'm' version 1: cannot load \S+: {re.escape(refusal)}"):
            load("batched", {**BATCHED, **changes})

    @pytest.mark.parametrize(("bias", "answer"), [(None, [[11.0, 22.0]]), ([1.0, 1.0], [[2.0, 3.0]])])
    def test_optional_inputs_are_initializers_and_scalars_have_one_axis(
        self, load: Callable[..., Any], bias: list[float] | None, answer: list[list[float]]
    ) -> None:
        config = {**SCALARS, "input": [*SCALARS["input"], tensor("bias", dims=[2], optional=True)]}
        inputs = {"x": torch.tensor([[1.0, 2.0]]), "count": torch.tensor([3.0])}
        if bias is not None:
            inputs["bias"] = torch.tensor(bias)
        (response,) = load("scalars", config).execute([FakeRequest(inputs, {"y", "n"})])
        assert response.outputs["y"].tolist() == answer
        assert response.outputs["n"].tolist() == [3.0]

    def test_a_batch_of_requests_and_a_sequence_control(self, load: Callable[..., Any]) -> None:
        model = load("batched", {**BATCHED, "input": [tensor("x")], **controls("flag")})
        requests = [
            FakeRequest({"x": torch.full((1, 4), value), "flag": torch.ones(1, 1)}, {"y"}) for value in (1.0, 2.0)
        ]
        answers = [response.outputs["y"].tolist() for response in model.execute(requests)]
        assert answers == [[[[2.0, 2.0], [2.0, 2.0]]], [[[3.0, 3.0], [3.0, 3.0]]]]

    def test_one_bad_batch_fails_all_its_requests(self, load: Callable[..., Any]) -> None:
        requests = [FakeRequest({"x": torch.ones(1, 3), "flag": torch.ones(1, 1)}, {"y"})] * 2
        errors = [response.error for response in load("batched", BATCHED).execute(requests)]
        assert "Non-zero status code returned while running Reshape node." in errors[0]
        assert errors == [errors[0]] * 2
