"""What Triton's own libtorch (pt) and ONNX Runtime (ort) backends refuse and answer, and the stand-ins here alike."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Optional

import pytest
import torch
from onnx import TensorProto, helper, save
from torch import Tensor, nn

from fake_triton import FakeRequest, LoadBackend, arguments, tensor


class One(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if bool((x < 0).any()):
            raise ValueError("a negative value")
        return x * 2


class Two(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x - y


class WithBool(nn.Module):
    def forward(self, x: Tensor, flag: bool = True) -> Tensor:
        return x if flag else -x


class WithInt(nn.Module):
    def forward(self, x: Tensor, count: int) -> Tensor:
        return x * count


class WithOptional(nn.Module):
    def forward(self, x: Tensor, y: Optional[Tensor] = None) -> Tensor:  # noqa: UP045
        return x if y is None else x - y


class OfDict(nn.Module):
    def forward(self, tensors: dict[str, Tensor]) -> Tensor:
        return tensors["a"] - tensors["b"]


class OfTwoDicts(nn.Module):
    def forward(self, first: dict[str, Tensor], second: dict[str, Tensor]) -> Tensor:
        return first["a"] - second["a"]


class Negative(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.imag(torch.complex(x, x).conj())


class ToList(nn.Module):
    def forward(self, x: Tensor) -> list[Tensor]:
        return [x, x]


class ToDict(nn.Module):
    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"y": x}


class ToFloat(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, float]:
        return x, 2.0


class Pair(NamedTuple):
    doubled: Tensor
    negative: Tensor


class ToNamedTuple(nn.Module):
    def forward(self, x: Tensor) -> Pair:
        return Pair(x * 2, -x)


class ToDouble(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.double()


class ToScalar(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.sum()


class Training(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x if self.training else -x


X, Y = tensor("input__0"), tensor("input__1")
OUT = tensor("output__0")


def parameters(**values: str) -> dict[str, Any]:
    return {"parameters": {name: {"string_value": value} for name, value in values.items()}}


def controls(*names: str) -> dict[str, Any]:
    return {"sequence_batching": {"control_input": [{"name": name} for name in names]}}


ONLY = "Only a single input of type Dict(str, Tensor) or input(s) of type Tensor are supported."

LIBTORCH_REFUSES = [
    (
        "pt optional",
        One,
        {"input": [tensor("input__0", optional=True)]},
        "'optional' is set to true for input 'input__0' while the backend model doesn't support optional input",
    ),
    ("pt argument count", Two, {"input": [X]}, "configuration expects 1 inputs, model provides 2"),
    ("pt argument count", One, {"input": [X, Y]}, "configuration expects 2 inputs, model provides 1"),
    ("pt argument count", One, controls("START__1"), "configuration expects 2 inputs, model provides 1"),
    ("pt argument types", WithBool, {}, f"An input of type 'bool' was detected in the model. {ONLY}"),
    ("pt argument types", WithInt, {"input": [X, Y]}, f"An input of type 'int' was detected in the model. {ONLY}"),
    (
        "pt argument types",
        WithOptional,
        {"input": [X, Y]},
        f"An input of type 'Tensor?' was detected in the model. {ONLY}",
    ),
    (
        "pt dictionary",
        OfTwoDicts,
        {"input": [X, Y]},
        "Multiple inputs of kind DictType were detected. Only a single input of type Dict(str, Tensor) is supported.",
    ),
    ("pt controls", Two, controls("START"), "input 'START' does not follow <name>__<index> naming convention."),
    (
        "pt parameters",
        One,
        parameters(ENABLE_JIT_EXECUTOR="yes"),
        "parameter ENABLE_JIT_EXECUTOR: failed to convert 'yes' to boolean",
    ),
    (
        "pt parameters",
        One,
        parameters(INTER_OP_THREAD_COUNT="two"),
        "parameter INTER_OP_THREAD_COUNT: failed to convert 'two' to integral number",
    ),
]

# Inputs with their values in the order of the configuration -> what output__0 is.
LIBTORCH_ANSWERS = [
    ("pt names", Two, {"input": [tensor("y"), tensor("x")]}, [[1.0], [5.0]], [4.0]),
    ("pt names", Two, {"input": [tensor("b__1"), tensor("a__0")]}, [[1.0], [5.0]], [4.0]),
    ("pt names", Two, {"input": [tensor("b__1"), tensor("x")]}, [[1.0], [5.0]], [-4.0]),
    # The index follows the first "__", not the last.
    ("pt names", Two, {"input": [tensor("b__x__1"), tensor("a__x__0")]}, [[1.0], [5.0]], [-4.0]),
    ("pt dictionary", OfDict, {"input": [tensor("b"), tensor("a")]}, [[1.0], [5.0]], [4.0]),
    ("pt controls", Two, {"input": [X], **controls("START__1")}, [[5.0], [1.0]], [4.0]),
    ("pt controls", Two, {"input": [Y], **controls("START__0")}, [[1.0], [5.0]], [4.0]),
    ("pt tuples", ToNamedTuple, {}, [[2.0]], [4.0]),
    ("pt training mode", Training, {}, [[1.0]], [1.0]),
    ("pt parameters", One, parameters(INFERENCE_MODE="off", DISABLE_OPTIMIZED_EXECUTION="ON"), [[1.0]], [2.0]),
    ("pt parameters", One, parameters(INTRA_OP_THREAD_COUNT="-1"), [[1.0]], [2.0]),
    ("pt empty tensors", One, {}, [[]], []),
]

KINDS = (
    "PyTorch execute failure: output must be of type Tensor, List[str] or Tuple containing one of these two types."
    " It should not be a List / Dictionary of Tensors or a Scalar"
)

LIBTORCH_FAILS = [
    ("pt execute failure", One, {}, "PyTorch execute failure: The following operation failed in the TorchScript"),
    ("pt return kinds", ToList, {}, KINDS),
    ("pt return kinds", ToDict, {}, KINDS),
    ("pt return kinds", ToFloat, {}, KINDS),
    (
        "pt output index",
        ToNamedTuple,
        {"output": [tensor("output__2")]},
        "The output output__2 in the model configuration refers to an output index which doesn't exist."
        " This model has 2 outputs",
    ),
    (
        "pt output type",
        ToDouble,
        {},
        "configuration expects datatype TYPE_FP32 for output 'output__0', model provides TYPE_FP64",
    ),
    ("pt scalar output", ToScalar, {}, "output 'output__0' is a scalar which is not supported."),
]


def ids(cases: list[Any]) -> list[str]:
    return [f"{name} {number}" for number, (name, *_) in enumerate(cases)]


def values(cases: list[Any]) -> list[Any]:
    return [case[1:] for case in cases]


class TestLibtorch:
    @pytest.fixture
    def load(self, load_backend: LoadBackend, tmp_path: Path) -> Callable[..., Any]:
        def load(module: nn.Module, **config: Any) -> Any:
            (tmp_path / "1").mkdir()
            torch.jit.script(module).save(str(tmp_path / "1" / "model.pt"))
            model = load_backend("torchscript").TorchScriptBackend()
            model.initialize(arguments(tmp_path, **{"input": [X], "output": [OUT], "max_batch_size": 0, **config}))
            return model

        return load

    @pytest.mark.parametrize(("module", "config", "refusal"), values(LIBTORCH_REFUSES), ids=ids(LIBTORCH_REFUSES))
    def test_refuses(
        self, load: Callable[..., Any], module: type[nn.Module], config: dict[str, Any], refusal: str
    ) -> None:
        with pytest.raises(Exception, match=rf"^model 'm' version 1: cannot load \S+: {re.escape(refusal)}$"):
            load(module(), **config)

    @pytest.mark.parametrize(
        ("module", "config", "sent", "answer"), values(LIBTORCH_ANSWERS), ids=ids(LIBTORCH_ANSWERS)
    )
    def test_answers(
        self,
        load: Callable[..., Any],
        module: type[nn.Module],
        config: dict[str, Any],
        sent: list[list[float]],
        answer: list[float],
    ) -> None:
        model = load(module(), **config)
        batching = config.get("sequence_batching", {}).get("control_input", [])
        names = [entry["name"] for entry in (*config.get("input", [X]), *batching)]
        inputs = {name: torch.tensor(value) for name, value in zip(names, sent, strict=True)}
        (response,) = model.execute([FakeRequest(inputs, {"output__0"})])
        assert response.error is None
        assert response.outputs["output__0"].tolist() == answer

    @pytest.mark.parametrize(("module", "config", "error"), values(LIBTORCH_FAILS), ids=ids(LIBTORCH_FAILS))
    def test_fails(self, load: Callable[..., Any], module: type[nn.Module], config: dict[str, Any], error: str) -> None:
        model = load(module(), **config)
        (response,) = model.execute([FakeRequest({"input__0": torch.tensor([-1.0])}, {"output__0"})])
        assert response.outputs == {}
        assert response.error.startswith(error)

    def test_the_whole_trace_is_in_the_error(self, load: Callable[..., Any]) -> None:
        (response,) = load(One()).execute([FakeRequest({"input__0": torch.tensor([-1.0])}, {"output__0"})])
        assert "Traceback of TorchScript" in response.error
        assert response.error.rstrip().endswith("builtins.ValueError: a negative value")

    def test_a_negative_bit(self, load: Callable[..., Any]) -> None:
        (response,) = load(Negative()).execute([FakeRequest({"input__0": torch.tensor([1.0])}, {"output__0"})])
        assert "an output has PyTorch's negative bit" in response.error

    def test_one_bad_request_fails_its_batch(self, load: Callable[..., Any]) -> None:
        model = load(One(), max_batch_size=8)
        requests = [FakeRequest({"input__0": torch.full((1, 2), value)}, {"output__0"}) for value in (1.0, -1.0, 3.0)]
        errors = [response.error for response in model.execute(requests)]
        assert errors[0].startswith("PyTorch execute failure: ")
        assert errors == [errors[0]] * 3
        first, last = model.execute([requests[0], requests[2]])
        assert first.outputs["output__0"].tolist() == [[2.0, 2.0]]
        assert last.outputs["output__0"].tolist() == [[6.0, 6.0]]

    @pytest.mark.parametrize(
        ("config", "field"),
        [
            ({"input": [tensor("input__0", allow_ragged_batch=True)]}, "allow_ragged_batch"),
            ({"batch_input": [{"kind": "BATCH_ELEMENT_COUNT"}]}, "batch_input"),
            ({"batch_output": [{"target_name": ["output__0"]}]}, "batch_output"),
            ({"sequence_batching": {"state": [{"input_name": "s__1"}]}}, "sequence_batching.state"),
        ],
    )
    def test_fields_that_need_a_backend_in_c(
        self, load: Callable[..., Any], config: dict[str, Any], field: str
    ) -> None:
        with pytest.raises(
            Exception, match=rf": the local backends do not support {field}, because Triton passes it only to C\+\+"
        ):
            load(One(), **config)

    def test_a_position_that_is_left_out(self, load: Callable[..., Any]) -> None:
        with pytest.raises(Exception, match="the numbers in the input names must be 0 to 1, each used once"):
            load(Two(), input=[X, tensor("input__2")])


def onnx_file(folder: Path) -> None:
    """x [batch, 2] and count [] and bias [2], which has a default -> y [batch, 2] = x + bias, n [] = count."""
    info, floats = helper.make_tensor_value_info, TensorProto.FLOAT
    graph = helper.make_graph(
        [
            helper.make_node("Add", ["x", "bias"], ["y"]),
            helper.make_node("Identity", ["count"], ["n"]),
        ],
        "graph",
        [info("x", floats, ["batch", 2]), info("count", floats, []), info("bias", floats, [2])],
        [info("y", floats, ["batch", 2]), info("n", floats, [])],
        initializer=[helper.make_tensor("bias", floats, [2], [10.0, 20.0])],
    )
    save_onnx(folder, graph)


def batched_file(folder: Path) -> None:
    """x [batch, n] and flag [batch, 1] -> y [batch, 2, 2], which fails unless n is 4."""
    info, floats = helper.make_tensor_value_info, TensorProto.FLOAT
    graph = helper.make_graph(
        [
            helper.make_node("Reshape", ["x", "shape"], ["reshaped"]),
            helper.make_node("Unsqueeze", ["flag", "axis"], ["flag3"]),
            helper.make_node("Add", ["reshaped", "flag3"], ["y"]),
        ],
        "graph",
        [info("x", floats, ["batch", "n"]), info("flag", floats, ["batch", 1])],
        [info("y", floats, ["batch", 2, 2])],
        initializer=[
            helper.make_tensor("shape", TensorProto.INT64, [3], [-1, 2, 2]),
            helper.make_tensor("axis", TensorProto.INT64, [1], [2]),
        ],
    )
    save_onnx(folder, graph)


def single_file(folder: Path) -> None:
    """x [1, 2] -> y [1, 2]."""
    info, floats = helper.make_tensor_value_info, TensorProto.FLOAT
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])],
        "graph",
        [info("x", floats, [1, 2])],
        [info("y", floats, [1, 2])],
    )
    save_onnx(folder, graph)


def save_onnx(folder: Path, graph: Any) -> None:
    (folder / "1").mkdir()
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    save(model, str(folder / "1" / "model.onnx"))


def sound_file(folder: Path) -> None:
    """input__0 [batch, 3] -> output__0 [batch, 4]."""
    info, floats = helper.make_tensor_value_info, TensorProto.FLOAT
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["input__0", "weight"], ["output__0"])],
        "graph",
        [info("input__0", floats, ["batch", 3])],
        [info("output__0", floats, ["batch", 4])],
        initializer=[helper.make_tensor("weight", floats, [3, 4], [0.0] * 12)],
    )
    save_onnx(folder, graph)


# test/data/onnx has these files for the tests of `npm run validate`.
ONNX_FILES = {"scalars": onnx_file, "batched": batched_file, "single": single_file, "sound": sound_file}


@pytest.mark.parametrize("name", ONNX_FILES)
def test_files_of_validate_are_these(tmp_path: Path, name: str) -> None:
    ONNX_FILES[name](tmp_path)
    stored = Path(__file__).parents[1] / "data" / "onnx" / f"{name}.onnx"
    assert (tmp_path / "1" / "model.onnx").read_bytes() == stored.read_bytes()


SCALARS: dict[str, Any] = {
    "max_batch_size": 0,
    "input": [tensor("x", dims=[-1, 2]), tensor("count", dims=[1])],
    "output": [tensor("y", dims=[-1, 2]), tensor("n", dims=[1])],
}
BATCHED: dict[str, Any] = {
    "max_batch_size": 8,
    "input": [tensor("x"), tensor("flag", dims=[1])],
    "output": [tensor("y", dims=[2, 2])],
}
ONLY_X = {"input": [tensor("x")]}

ONNX_REFUSES = [
    ("ort input count", batched_file, {**BATCHED, **ONLY_X}, "configuration expects 1 inputs, model provides 2"),
    (
        "ort optional",
        batched_file,
        {**BATCHED, "input": [*BATCHED["input"], tensor("extra", optional=True)]},
        "optional input 'extra' is not supported for models that support batching",
    ),
    (
        "ort optional",
        onnx_file,
        {**SCALARS, "input": [tensor("x", dims=[-1, 2]), tensor("count", dims=[1], optional=True)]},
        "configuration expects 1 inputs, model provides 2",
    ),
    (
        "ort names",
        batched_file,
        {**BATCHED, "input": [tensor("z"), tensor("flag", dims=[1])]},
        "unexpected inference input 'z', allowed inputs are: flag, x",
    ),
    (
        "ort names",
        batched_file,
        {**BATCHED, "output": [tensor("z", dims=[2, 2])]},
        "unexpected inference output 'z', allowed outputs are: y",
    ),
    (
        "ort types",
        batched_file,
        {**BATCHED, "input": [tensor("x", "TYPE_FP64"), tensor("flag", dims=[1])]},
        "configuration expects datatype TYPE_FP64 for input 'x', model provides TYPE_FP32",
    ),
    (
        "ort types",
        batched_file,
        {**BATCHED, "output": [tensor("y", "TYPE_INT64", [2, 2])]},
        "configuration expects datatype TYPE_INT64 for output 'y', model provides TYPE_FP32",
    ),
    # The configuration must fix every size that the file fixes.
    (
        "ort dims",
        batched_file,
        {**BATCHED, "input": [tensor("x"), tensor("flag", dims=[-1])]},
        "tensor 'flag': the model expects 2 dimensions (shape [-1, 1]) but the model configuration specifies 2",
    ),
    # For outputs, the configuration must leave variable every size that the file leaves variable.
    (
        "ort dims",
        onnx_file,
        {**SCALARS, "output": [tensor("y", dims=[3, 2])]},
        "tensor 'y': the model expects 2 dimensions (shape [-1, 2]) but the model configuration specifies 2 dimensions"
        " (shape [3, 2]",
    ),
    ("ort dims", batched_file, {**BATCHED, "output": [tensor("y", dims=[4])]}, "tensor 'y': the model expects 3"),
    (
        "ort batch axis",
        single_file,
        {"max_batch_size": 1, "input": [tensor("x", dims=[2])], "output": [tensor("y", dims=[2])]},
        "tensor 'x': for the model to support batching the shape should have at least 1 dimension and the first"
        " dimension must be -1; but shape expected by the model is [1, 2]",
    ),
    (
        "ort scalars",
        onnx_file,
        {**SCALARS, "input": [tensor("x", dims=[-1, 2]), tensor("count", dims=[2])]},
        "scalar tensor 'count', should only provide 1 in the model configuration",
    ),
    (
        "ort controls",
        batched_file,
        {**BATCHED, **ONLY_X, **controls("START")},
        "configuration specified sequence control 'START', but model does not provide that input",
    ),
    (
        "ort controls",
        batched_file,
        {**BATCHED, "input": [tensor("flag", dims=[1])], **controls("x")},
        "sequence control 'x' in model has dims [-1] but dims [1] is expected",
    ),
    (
        "ort parameters",
        batched_file,
        {**BATCHED, **parameters(execution_mode="2")},
        "Expected values for execution_mode are 0 or 1 but got 2 .",
    ),
    (
        "ort parameters",
        batched_file,
        {**BATCHED, **parameters(inter_op_thread_count="two")},
        "parameter inter_op_thread_count: failed to convert 'two' to integral number",
    ),
]


class TestOnnxRuntime:
    @pytest.fixture
    def load(self, load_backend: LoadBackend, tmp_path: Path) -> Callable[..., Any]:
        def load(make: Callable[[Path], None], config: dict[str, Any]) -> Any:
            make(tmp_path)
            model = load_backend("onnx_session").OnnxBackend()
            model.initialize(arguments(tmp_path, **config))
            return model

        return load

    @pytest.mark.parametrize(("make", "config", "refusal"), values(ONNX_REFUSES), ids=ids(ONNX_REFUSES))
    def test_refuses(
        self,
        load: Callable[..., Any],
        make: Callable[[Path], None],
        config: dict[str, Any],
        refusal: str,
    ) -> None:
        with pytest.raises(Exception, match=rf"^model 'm' version 1: cannot load \S+: {re.escape(refusal)}"):
            load(make, config)

    @pytest.mark.parametrize(("bias", "answer"), [(None, [[11.0, 22.0]]), ([1.0, 1.0], [[2.0, 3.0]])])
    def test_optional_inputs_are_initializers(
        self, load: Callable[..., Any], bias: list[float] | None, answer: list[list[float]]
    ) -> None:
        config = {**SCALARS, "input": [*SCALARS["input"], tensor("bias", dims=[2], optional=True)]}
        inputs = {"x": torch.tensor([[1.0, 2.0]]), "count": torch.tensor([3.0])}
        if bias is not None:
            inputs["bias"] = torch.tensor(bias)
        (response,) = load(onnx_file, config).execute([FakeRequest(inputs, {"y", "n"})])
        assert response.outputs["y"].tolist() == answer
        assert response.outputs["n"].tolist() == [3.0]

    @pytest.mark.parametrize(
        "more",
        [
            {},
            parameters(intra_op_thread_count="0", inter_op_thread_count="2", execution_mode="1"),
            *({"optimization": {"graph": {"level": level}}} for level in (-1, 1, 2, 3)),
        ],
    )
    def test_parameters(self, load: Callable[..., Any], more: dict[str, Any]) -> None:
        config = {**BATCHED, "input": [tensor("x")], **controls("flag"), **more}
        inputs = {"x": torch.ones(1, 4), "flag": torch.ones(1, 1)}
        (response,) = load(batched_file, config).execute([FakeRequest(inputs, {"y"})])
        assert response.outputs["y"].tolist() == [[[2.0, 2.0], [2.0, 2.0]]]

    def test_one_bad_batch_fails_all_its_requests(self, load: Callable[..., Any]) -> None:
        model = load(batched_file, BATCHED)
        requests = [FakeRequest({"x": torch.ones(1, 3), "flag": torch.ones(1, 1)}, {"y"})] * 2
        errors = [response.error for response in model.execute(requests)]
        assert errors[0].startswith("onnx runtime error 1: Non-zero status code returned while running Reshape node.")
        assert errors == [errors[0]] * 2
