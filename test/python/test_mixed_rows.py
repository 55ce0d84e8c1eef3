"""Rejects a model whose answer to one row depends on other rows of the batch."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from conftest import AddModel, Run
from trace_sources import SCALE
from tracing.check import Tensors
from tracing.contract import TraceError
from tracing.interface import Interface, Slot
from tracing.rows import make_probes, require_separate_rows

Network: TypeAlias = Callable[..., Tensor]
Shapes: TypeAlias = Sequence[Sequence[int]]

# Two sets of sizes: with fixed dims, rows of one batch size are checked in the others; with one length for each batch
# size, only among themselves and alone.
FIXED: Shapes = [(1, 4), (3, 4), (8, 4)]
LENGTHS: Shapes = [(1, 5), (2, 4), (8, 7)]


def check(network: Network, inputs: Sequence[Tensors], tolerance: float = 1e-5) -> list[str]:
    """Checks the rows of a network that has one output."""

    def call(case: Tensors) -> Tensors | str:
        try:
            return (network(*(tensor.clone() for tensor in case)),)
        except ValueError as error:
            return f"ValueError: {error}"

    outputs = [call(case) for case in inputs]
    assert not any(isinstance(output, str) for output in outputs)
    probes = make_probes(inputs)
    interface = Interface([], [Slot(0, "scores")], 1)
    answered = [call(probe.inputs) for probe in probes]
    return require_separate_rows(probes, answered, outputs, interface, tolerance)  # type: ignore[arg-type]


def floats(shapes: Shapes) -> list[Tensors]:
    return [(torch.randn(*shape),) for shape in shapes]


def whole(shapes: Shapes) -> list[Tensors]:
    return [(torch.randint(0, 1000, shape),) for shape in shapes]


def extends(x: Tensor) -> Tensor:
    return torch.arange(len(x), device=x.device).reshape(-1, *[1] * (x.ndim - 1))


def row_of(x: Tensor, row: int) -> Tensor:
    return x[row : row + 1].expand_as(x) if row >= 0 else x[len(x) + row :][:1].expand_as(x)


MIXED: dict[str, Network] = {
    "softmax over rows": lambda x: x.softmax(0),
    "mean of rows": lambda x: x - x.mean(0),
    "running sum, which the first row does not show": lambda x: x.cumsum(0),
    "largest of rows": lambda x: x.masked_fill((x == x.amax(0, keepdim=True)) & (len(x) > 1), -torch.inf),
    "reversed rows": lambda x: x.flip(0),
    "rolled rows": lambda x: x.roll(1, 0),
    "sorted rows": lambda x: x.sort(0).values,
    "first row": lambda x: row_of(x, 0),
    "last row": lambda x: row_of(x, -1),
    "last row only gets the first": lambda x: torch.cat([x[:-1], x[-1:] + x[:1]]) if len(x) > 1 else x,
    "first row only gets the last": lambda x: torch.cat([x[:1] + x[-1:], x[1:]]) if len(x) > 1 else x,
    "pairs of rows": lambda x: x + x[torch.arange(len(x)) // 2 * 2] if len(x) > 1 else x,
    "number of the row": lambda x: x + extends(x),
    "size of the batch": lambda x: x / len(x),
    "statistics of the batch": lambda x: functional.batch_norm(x[:, None], None, None, training=True)[:, 0],
    "reversed rows in batches from 4": lambda x: x.flip(0) if len(x) >= 4 else x,
    "mean of rows in batches from 8": lambda x: x - x.mean(0) if len(x) >= 8 else x,
    "all rows finite": lambda x: x / x.isfinite().all(),
    "largest number of all": lambda x: x * (0.5 if x.abs().max() > 1e4 else 1),
    "largest number of all, for a scale": lambda x: x / x.abs().max(),
    "lowest number of all, if it is far below zero": lambda x: x - x.amin().clamp(max=-1e4),
    "longest row, for the length of the answer": lambda x: x[:, : int((x > 0).sum(-1).max())],
}
MIXED_INTEGERS: dict[str, Network] = {
    "number of the row": lambda x: x + extends(x),
    "reversed rows": lambda x: x.flip(0),
    "reversed booleans": lambda x: (x % 2 == 0).flip(0),
    "one more if another row has a large number": lambda x: x + (x.max(0).values > 900).long(),
    "number of the row, beside large numbers": lambda x: x * 10**9 + extends(x),
    "all numbers below 10,000": lambda x: x * (x.amax() < 10_000),
}


@pytest.mark.parametrize("shapes", [FIXED, LENGTHS], ids=["fixed", "lengths"])
@pytest.mark.parametrize("name", MIXED)
def test_mixed_rows(name: str, shapes: Shapes) -> None:
    with pytest.raises(TraceError, match=r"^output 'scores': row \d of a batch of \d .*: the model mixes rows$"):
        check(MIXED[name], floats(shapes))


@pytest.mark.parametrize("shapes", [FIXED, LENGTHS], ids=["fixed", "lengths"])
@pytest.mark.parametrize("name", MIXED_INTEGERS)
def test_mixed_integers_with_any_tolerance_of_floats(name: str, shapes: Shapes) -> None:
    with pytest.raises(TraceError, match=r"differs in \d of \d integers|the model mixes rows"):
        check(MIXED_INTEGERS[name], whole(shapes))


def attention(x: Tensor) -> Tensor:
    """Attends to the positive numbers of the same row."""
    queries = x[:, :, None]
    bias = torch.zeros_like(x).masked_fill(x <= 0, -1e9)[:, None, :]
    return functional.scaled_dot_product_attention(queries, queries, queries, attn_mask=bias)[:, :, 0]


NORM = nn.BatchNorm1d(1).eval()
SEPARATE: dict[str, Network] = {
    "softmax in a row": lambda x: x.softmax(-1),
    "layer norm": lambda x: functional.layer_norm(x, x.shape[1:]),
    "attention with a mask": attention,
    "batch norm with running statistics": lambda x: NORM(x[:, None])[:, 0].detach(),
    "sort in a row": lambda x: x.sort(-1).values,
    "argmax": lambda x: x.argmax(-1),
    "order of a row": lambda x: x.argsort(-1),
    "signs": lambda x: x > 0,
    "rows of NaN": lambda x: x.masked_fill(x.sum(-1, keepdim=True) > 0, torch.nan),
    "rows of infinity": lambda x: x / (x.sum(-1, keepdim=True) > 0),
    "no numbers": lambda x: x[:, :0],
    "a number a row": lambda x: x.sum(-1),
    "matrix product": lambda x: x @ torch.linspace(-1, 1, x.shape[1] * 256).reshape(-1, 256),
    "quantised": lambda x: (x.clamp(-1, 1) * 127).round().to(torch.int8),
}


@pytest.mark.parametrize("shapes", [FIXED, LENGTHS, [(1, 4), (2, 4)], [(3, 4)]], ids=str)
@pytest.mark.parametrize("name", SEPARATE)
def test_separate_rows(name: str, shapes: Shapes) -> None:
    assert check(SEPARATE[name], floats(shapes)) == []


def test_argmax_of_a_network_whose_sums_depend_on_the_batch_size() -> None:
    network = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 21, 3, padding=1)).eval()
    inputs = [(torch.rand(batch, 3, 64, 64),) for batch in (1, 2, 8)]
    assert check(lambda x: network(x).detach().argmax(1), inputs) == []


def test_a_few_integers_on_the_edge_of_rounding() -> None:
    def network(wrong: int) -> Network:
        return lambda x: x + torch.cat([torch.ones(wrong), torch.zeros(20_000 - wrong)]).long() * (len(x) > 1)

    inputs = whole([(1, 20_000), (3, 20_000)])
    assert check(network(2), inputs) == []
    with pytest.raises(TraceError, match=r"differs in 3 of 20000 integers \(by up to 1\)"):
        check(network(3), inputs)


def test_only_one_of_several_inputs_is_mixed() -> None:
    inputs = [(torch.randn(batch, 4), torch.randint(0, 9, (batch, 2))) for batch in (1, 4)]
    assert check(lambda x, y: x + y.sum(-1, keepdim=True), inputs) == []
    with pytest.raises(TraceError, match="the model mixes rows"):
        check(lambda x, y: x + y.flip(0).sum(-1, keepdim=True), inputs)


@pytest.mark.parametrize("equal", [torch.ones(8, 4), torch.rand(1, 4).expand(8, 4)], ids=["ones", "expand"])
def test_equal_rows_are_mixed_with_rows_of_another_batch(equal: Tensor) -> None:
    inputs = [(torch.zeros(1, 4),), (equal,)]
    assert check(lambda x: x * 2, inputs) == []
    with pytest.raises(TraceError, match=r"row \d of a batch of 8 .* the model mixes rows"):
        check(lambda x: x.flip(0), inputs)


@pytest.mark.parametrize(
    ("inputs", "batch"),
    [
        ([(torch.ones(1, 4),), (torch.ones(8, 4),)], 8),
        ([(torch.zeros(1, 5),), (torch.ones(8, 4),)], 8),
        ([(torch.rand(1, 4),), (torch.rand(2, 4),), (torch.ones(8, 5),)], 8),
        ([(torch.rand(1, 4),), (torch.rand(8, 4),), (torch.ones(8, 5),)], None),
        ([(torch.rand(1, 0),), (torch.rand(8, 0),)], None),
        ([(torch.ones(1, 4),)], None),
    ],
    ids=["equal", "another width", "only a wide batch", "one wide batch", "no elements", "one row"],
)
def test_equal_rows_that_cannot_show_mixing(inputs: Sequence[Tensors], batch: int | None) -> None:
    if batch is None:
        make_probes(inputs)
        return
    with pytest.raises(TraceError) as raised:
        make_probes(inputs)
    message = f"all 8 rows of fresh_inputs[{len(inputs) - 1}] are equal, so the check cannot show whether the model "
    assert raised.value.message == f"{message}mixes the rows of a batch of 8"
    assert "torch.rand(batch, ...), not torch.ones" in (raised.value.hint or "")


@pytest.mark.parametrize(
    "case",
    [(), (torch.tensor(1.0),), (torch.rand(0, 4),), (torch.rand(2, 4), torch.rand(3, 4))],
    ids=["no inputs", "no axis", "no rows", "other batch sizes"],
)
def test_inputs_without_rows_are_left_to_the_comparison_with_model_yaml(case: Tensors) -> None:
    assert make_probes([case]) == []


DTYPES = (torch.bool, torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.int8, torch.int64)


@pytest.mark.parametrize("dtype", [*DTYPES, torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_every_type_of_input_and_a_row_without_axes(dtype: torch.dtype) -> None:
    for shape in ((), (4,), (2, 3)):
        inputs = [(torch.stack([torch.full(shape, row % 2) for row in range(batch)]).to(dtype),) for batch in (1, 3)]
        assert check(lambda x: x.clone(), inputs, 0.0) == []
        with pytest.raises(TraceError, match="the model mixes rows"):
            check(lambda x: torch.stack([x[0]] * len(x)), inputs)


def test_message() -> None:
    with pytest.raises(TraceError) as raised:
        check(lambda x: x + extends(x) * 0.5, [(torch.zeros(1, 4),), (torch.ones(2, 4),)])
    assert raised.value.message == (
        "output 'scores': row 1 of a batch of 2 differs by 0.5 (allowed: 0.00011) from the answer to the same row in "
        "fresh_inputs[1] (row 0 of 2): the model mixes rows"
    )
    assert "Triton puts requests of different clients into one batch" in (raised.value.hint or "")
    for network, values in (("all rows finite", "NaN"), ("largest number of all", "very large")):
        with pytest.raises(TraceError, match=f"when another row has {values} values: the model mixes rows"):
            check(MIXED[network], floats(FIXED))


def test_a_row_that_makes_the_batch_fail_is_a_warning() -> None:
    def guarded(x: Tensor) -> Tensor:
        if x.isnan().any():
            raise ValueError("NaN")
        return x

    def vocabulary(x: Tensor) -> Tensor:
        if x.amax() >= 1000:
            raise ValueError("index out of range")
        return x

    assert check(vocabulary, whole(FIXED)) == []
    assert check(guarded, floats(FIXED)) == [
        "a row of NaN values makes the whole batch of 3 fail, with the requests of other clients: ValueError: NaN"
    ]


def test_a_batch_that_fails_with_other_rows() -> None:
    def in_order(x: Tensor) -> Tensor:
        if not torch.equal(x, x.sort(0).values):
            raise ValueError("rows are not in order")
        return x

    with pytest.raises(TraceError, match="fails on a batch of 8 of other rows of fresh_inputs: ValueError: rows are"):
        check(in_order, [(torch.arange(8.0).reshape(8, 1),)])


CONFIG = """
    max_batch_size: 4
    input: [{ name: input__0, data_type: TYPE_FP32, dims: [4] }]
    output: [{ name: output__0, data_type: TYPE_FP32, dims: [4] }]
"""


def test_only_a_thorough_check_finds_mixed_rows(add_model: AddModel, run: Run) -> None:
    folder = add_model("rows", SCALE.replace("x * self.factor", "x.softmax(0)"), config=CONFIG)
    assert run("--quick")[1][-1]["checked"] == "quick"
    assert run("--quick")[1][-1]["event"] == "up-to-date"
    status, events = run()
    assert status == 1
    assert re.fullmatch("output 'output__0': row . of a batch of . differs by .* mixes rows", events[-1]["error"])
    assert json.loads((folder / "1" / "model.pt.trace.json").read_text())["checked"] == "quick"
