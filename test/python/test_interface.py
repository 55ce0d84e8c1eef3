"""Compares the export of a trace.py with model.yaml, before the trace."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from torch import Tensor, nn

from tracing import TorchScriptExport, TraceContext, TraceError, Weights
from tracing.check import Tensors, answers
from tracing.interface import Signature, argument_names, compare_with_config
from tracing.make import _validate, match


class Net(nn.Module):
    """Returns what `answer` makes of its input."""

    def __init__(self, answer: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.answer = answer

    def forward(self, x: Tensor) -> Any:
        return self.answer(x)


class Two(nn.Module):
    def forward(self, x: Tensor, n: Tensor) -> Tensor:
        return x + n.sum()


def refusals(config: str, kind: str = "model.pt", weights: str | None = None, **fields: Any) -> list[tuple[str, str]]:
    """The messages and hints about a network that gives its input of four columns back, apart from `fields`."""
    defaults = {
        "eager": Net(lambda x: x),
        "example_inputs": (torch.rand(2, 4),),
        "fresh_inputs": [(torch.rand(1, 4),), (torch.rand(4, 4),)],
        "tolerance": 0,
        "weights": Weights.none(),
    }
    export: Any = TorchScriptExport(**{**defaults, **fields})
    context = TraceContext("m", 1, Path("repo/m"), yaml.safe_load(config), 0, weights)
    try:
        _validate(export, context, kind, Path("repo/m/1") / kind)
        signature = Signature(argument_names(export.eager), None)
        match(context, export, signature, export.fresh_inputs, answers(export.eager, export.fresh_inputs), kind=kind)
    except TraceError as error:
        return [(one.message.removeprefix("model.yaml: "), one.hint or "") for one in (error, *error.others)]
    return []


def configured(
    output: str = "name: output__0, data_type: TYPE_FP32, dims: [-1, 4]",
    source: str = "name: input__0, data_type: TYPE_FP32, dims: [-1, 4]",
    batch: int = 0,
) -> str:
    return f"max_batch_size: {batch}\ninput: [{{ {source} }}]\noutput: [{{ {output} }}]"


FOUR = "name: x__0, data_type: TYPE_FP32, dims: [4]"


@pytest.mark.parametrize(
    ("config", "message", "hint"),
    [
        (configured(), None, None),
        (configured(FOUR, FOUR, 4), None, None),
        (
            configured("name: output__0, data_type: TYPE_FP32, dims: [2]"),
            "output 'output__0' has dims [2], but the network gives shape [1, 4] on inputs of shape [1, 4]",
            "Set dims of 'output__0' to [1, 4]; -1 is any size.",
        ),
        (
            configured("name: output__0, data_type: TYPE_FP32, dims: [4, 4]"),
            "output 'output__0' has dims [4, 4], but the network gives shape [1, 4] on inputs of shape [1, 4]",
            "Set dims of 'output__0' to [1, 4]; -1 is any size.",
        ),
        (
            configured("name: output__0, data_type: TYPE_FP16, dims: [-1, 4]"),
            "output 'output__0' has data_type TYPE_FP16, but the network gives TYPE_FP32",
            "Set data_type of 'output__0' to TYPE_FP32, or change the type in trace.py.",
        ),
        (
            configured(source="name: input__0, data_type: TYPE_INT64, dims: [-1, 4]"),
            "input 'input__0' has data_type TYPE_INT64, but the network takes TYPE_FP32",
            "Set data_type of 'input__0' to TYPE_FP32, or change the type in trace.py.",
        ),
        (
            configured(source="name: input__0, data_type: TYPE_FP32, dims: [4]"),
            "input 'input__0' has dims [4], but the network takes shape [1, 4]",
            "Set dims of 'input__0' to [1, 4]; -1 is any size.",
        ),
        (
            configured(FOUR, FOUR.replace("4", "5"), 4),
            "input 'x__0' has dims [5], after a batch axis (max_batch_size is 4), but the network takes shape [1, 4]",
            "Set dims of 'x__0' to the shape after the batch axis, [4]; -1 is any size.",
        ),
    ],
)
def test_a_network_that_differs_from_model_yaml(config: str, message: str | None, hint: str | None) -> None:
    found = refusals(config)
    assert found == [] if message is None else (message, hint) in found


def test_a_batch_beyond_max_batch_size() -> None:
    fresh = [(torch.rand(rows, 4),) for rows in (1, 2, 4)]
    found = refusals(configured(FOUR, FOUR, 2), fresh_inputs=fresh)
    message = (
        "max_batch_size is 2, so the first axis of each tensor is a batch of 1 to 2; 'x__0' has shape [4, 4] with "
        "inputs of shape [4, 4]"
    )
    hint = "Give inputs a batch axis in trace.py, or set max_batch_size to fit."
    assert found == [(message, hint)] * 2  # the input and the output


def test_all_differences_are_reported_together() -> None:
    config = configured(
        "name: scores__1, data_type: TYPE_FP32, dims: [-1, 4]", "name: input__0, data_type: TYPE_INT32, dims: [-1, 5]"
    )
    assert [message for message, _ in refusals(config)] == [
        "input 'input__0' has data_type TYPE_INT32, but the network takes TYPE_FP32",
        "input 'input__0' has dims [-1, 5], but the network takes shape [1, 4]",
        "output names 1 (scores__1), but the network has 1",
    ]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kind": "model.onnx"}, "trace.py exports a model.pt, but platform in model.yaml requires a model.onnx"),
        ({"weights": "w.pth"}, "--weights m=w.pth was given, but m does not load weights"),
        *(
            (
                fields,
                "in trace.py, eager must be a torch.nn.Module, example_inputs a tuple of tensors, and fresh_inputs",
            )
            for fields in (
                {"fresh_inputs": []},
                {"fresh_inputs": torch.rand(1, 4)},
                {"fresh_inputs": [torch.rand(1, 4)]},
                {"fresh_inputs": [([1.0],)]},
                {"example_inputs": torch.rand(2, 4)},
                {"eager": torch.sigmoid},
                {"eager": Two},
            )
        ),
        ({"eager": Net(lambda x: [x])}, "forward() returns a list, which Triton's PyTorch backend cannot serve"),
        (
            {"eager": Net(lambda x: torch.complex(x, x).conj().imag)},
            "output 0 of forward() has PyTorch's negative bit: its memory has the numbers with the opposite sign",
        ),
        (
            {"eager": Net(lambda x: torch.complex(x, x))},
            "output 'output__0': the network gives torch.complex64, which Triton does not support",
        ),
        (
            {"eager": Net(lambda x: x.bfloat16())},
            "output 'output__0' has data_type TYPE_FP32, but the network gives TYPE_BF16",
        ),
        *(
            ({"extra_files": {"labels.txt": b"", path: b""}}, f"extra_files cannot have {path!r}: it must be inside")
            for path in (
                *("../labels.txt", "/labels.txt", "", "a/../trace.py", "./trace.py", "trace.py", "model.yaml"),
                *("golden/1/a.json", "2/vocab.txt", "1", "1/model.pt", "1/model.pt.trace.json", "./model.yaml"),
                *("1//model.pt", "1/./model.pt", "./labels.txt", "lib/a.py/"),
            )
        ),
        ({"extra_files": {"1/vocab.txt": b"", "labels.txt": b""}}, None),
    ],
)
def test_an_export_that_cannot_be_traced(fields: dict[str, Any], message: str | None) -> None:
    found = refusals(configured(), **fields)
    assert found == [] if message is None else message in found[0][0]


@pytest.mark.parametrize("tolerances", [{"tolerance": float("nan")}, {"serving_tolerance": float("inf")}])
def test_a_tolerance_is_finite(tolerances: dict[str, float]) -> None:
    with pytest.raises(TraceError, match="; allowed: finite numbers from 0"):
        refusals(configured(), **tolerances)


def ones(*rows: int, columns: int = 4) -> list[Tensors]:
    return [(torch.ones(count, columns),) for count in rows]


EXAMPLE = torch.rand(2, 4)
SIZES = "fresh_inputs have sizes {} where dims[0] of 'x__0' is -1 in model.yaml, and the example has 4"


@pytest.mark.parametrize(
    ("fresh", "batch", "length", "error"),
    [
        ([(EXAMPLE,), *ones(1)], 2, 4, "fresh_inputs[0] are the same as example_inputs, so they check nothing new"),
        (ones(2, 2, 1), 2, 4, "fresh_inputs[1] are the same as fresh_inputs[0], so they check nothing new"),
        (ones(2), 8, 4, "fresh_inputs have no batch of 1; max_batch_size in model.yaml allows 1 to 8"),
        (ones(1, 3), 8, 4, "fresh_inputs have no batch of 8; max_batch_size in model.yaml allows 1 to 8"),
        (ones(1, 2), 2, -1, SIZES.format("4")),
        ([*ones(1, columns=5), *ones(2, columns=6)], 2, -1, SIZES.format("5, 6")),
        ([*ones(1, columns=3), *ones(2, columns=6)], 2, -1, None),
        (ones(1, 2), 2, 4, None),
    ],
)
def test_fresh_inputs_reveal_frozen_values(fresh: list[Tensors], batch: int, length: int, error: str | None) -> None:
    tensor = f"name: x__0, data_type: TYPE_FP32, dims: [{length}]"
    found = refusals(configured(tensor, tensor, batch), example_inputs=(EXAMPLE,), fresh_inputs=fresh)
    assert [message for message, _ in found] == ([] if error is None else [error])


@pytest.mark.parametrize(
    ("kind", "names", "positions", "error"),
    [
        ("output", ["y__1", "y__0"], [1, 0], None),
        ("output", ["y__1"], [1], None),
        ("output", ["y__2"], None, "output names 1 (y__2), but the network has 2"),
        ("output", ["a__0", "b__0"], None, "output names 2 (a__0, b__0), but the network has 2"),
        ("input", ["y__1", "x__0"], [1, 0], None),
        ("input", ["second", "first"], [1, 0], None),
        ("input", ["a", "b"], [0, 1], None),
        ("input", ["x__1", "y__2"], None, "input names 2 (x__1, y__2), but the network has 2"),
        ("input", ["x__0", "y__0"], None, "input names 2 (x__0, y__0), but the network has 2"),
        ("input", ["x__0"], None, "input names 1 (x__0), but the network has 2"),
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


def test_names_of_onnx_are_those_of_the_file() -> None:
    cases = [(torch.zeros(2),)]
    config = {"input": [{"name": "z", "dims": [-1]}]}
    with pytest.raises(TraceError, match=r"input 'z' is not in model\.onnx, which has x"):
        compare_with_config(config, Signature(["x"], ["y"]), "model.onnx", cases, cases)
    interface = compare_with_config({}, Signature(["x"], ["y"]), "model.onnx", cases, cases)
    assert [slot.name for slot in (*interface.inputs, *interface.outputs)] == ["x", "y"]


@pytest.mark.parametrize("dims", [[1], []])
def test_a_scalar_output_is_refused(dims: list[int]) -> None:
    config = {"input": [{"name": "t__0", "dims": [1]}], "output": [{"name": "t__0", "dims": dims}]}
    inputs, outputs = [(torch.zeros(1),)], [(torch.zeros(()),)]
    with pytest.raises(TraceError, match="output 't__0' is a scalar"):
        compare_with_config(config, Signature(["x"], None), "model.pt", inputs, outputs)
