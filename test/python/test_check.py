"""The trace check counts values that numpy.allclose would reject and fails on any beyond the tolerance."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tracing.check import Tensors, answers, as_tuple, require_content, require_repeatable
from tracing.check import compare as compare_answers
from tracing.contract import TraceError
from tracing.record import Check

INFINITY, NAN = float("inf"), float("nan")
EAGER = nn.Identity()
INPUTS = [(torch.tensor([0.0, 1.0, 100.0]),), (torch.tensor([[2.0]]),)]


def compare(eager: nn.Module, artifact: Callable[..., object], inputs: Sequence[Tensors], tolerance: float) -> Check:
    received = [as_tuple(artifact(*case)) for case in inputs]  # type: ignore[arg-type]
    return compare_answers(inputs, answers(eager, inputs), received, tolerance)


def test_equal_answers_pass_with_tolerance_zero() -> None:
    shapes = [[[3]], [[1, 1]]]
    assert compare(EAGER, lambda x: x.clone(), INPUTS, 0) == Check(0, 1e-5, 1e-5, 0.0, 0, 4, 0, [], shapes)


def test_counts_and_largest_difference() -> None:
    # Allowed by rtol = atol = 1e-5: 1e-5, 2e-5, 1.01e-3 and 3e-5.
    differences = {3: torch.tensor([0.9e-5, 2.5e-5, 0.9e-3]), 1: torch.tensor([[4e-5]])}
    artifact: Callable[[Tensor], Tensor] = lambda x: x.double() + differences[x.numel()].double()  # noqa: E731
    inputs = [(x.double(),) for (x,) in INPUTS]
    check = compare(EAGER, artifact, inputs, 1e-3)
    assert check.exceeding == 2
    assert check.elements == 4
    assert check.max_abs_diff == pytest.approx(0.9e-3)
    close = [np.isclose(artifact(x).numpy(), x.numpy(), rtol=1e-5, atol=1e-5) for (x,) in inputs]
    assert sum(int((~array).sum()) for array in close) == check.exceeding


def test_several_outputs_are_all_compared() -> None:
    class Two(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            return x, x.long()

    check = compare(Two(), lambda x: (x, x.long() + 1), INPUTS, 1)
    assert (check.elements, check.max_abs_diff, check.exceeding) == (8, 1.0, 4)


@pytest.mark.parametrize(
    ("artifact", "message"),
    [
        (
            lambda x: x + 0.5,
            "output 0 on inputs of shape [3] differs by 0.5 from the eager module; the model's tolerance is 0.1",
        ),
        (lambda x: x.double(), "output 0 on inputs of shape [3] has dtype torch.float64, not torch.float32"),
        (lambda x: x[:2], "output 0 on inputs of shape [3] has shape [2], not [3]"),
        (
            lambda x: x / 0 * 0,
            "output 0 on inputs of shape [3]: 3 of 3 elements are NaN or infinite in the artifact or in the eager "
            "module, and not the same in both",
        ),
        (lambda x: (x, x), "on inputs of shape [3] 2 outputs were returned, expected 1"),
        *(
            (
                lambda x, returned=returned: returned(x),
                f"forward() returns a {name}, which Triton's PyTorch backend cannot serve: return a tensor or a flat "
                "tuple of tensors",
            )
            for name, returned in (
                ("list", lambda x: [x]),
                ("dict", lambda x: {"y": x}),
                ("NoneType", lambda _: None),
                ("tuple of Tensor, float", lambda x: (x, 2.0)),
                ("tuple of Tensor, tuple", lambda x: (x, (x, x))),
            )
        ),
    ],
)
def test_failures(artifact: Callable[[Tensor], Tensor], message: str) -> None:
    with pytest.raises(TraceError) as raised:
        compare(EAGER, artifact, INPUTS, 0.1)
    assert raised.value.message == message


LARGE = 2**53
LOW, HIGH = -(2**63), 2**63 - 1


@pytest.mark.parametrize(
    ("dtype", "expected", "received", "difference"),
    [
        (torch.int64, LARGE, LARGE + 1, 1),
        (torch.int64, -LARGE - 1, -LARGE, 1),
        (torch.int64, HIGH, HIGH - 1, 1),
        (torch.int64, LOW, HIGH, 2**64 - 1),
        (torch.uint64, LARGE, LARGE + 1, 1),
        (torch.uint64, 2**64 - 1, 2**64 - 2, 1),
        (torch.uint32, 2**32 - 1, 0, 2**32 - 1),
        (torch.int32, -(2**31), 2**31 - 1, 2**32 - 1),
        (torch.uint8, 0, 255, 255),
    ],
)
def test_integers_are_compared_exactly(dtype: torch.dtype, expected: int, received: int, difference: int) -> None:
    inputs = [(torch.tensor([expected, 7], dtype=dtype),)]
    artifact: Callable[[Tensor], Tensor] = lambda _: torch.tensor([received, 7], dtype=dtype)  # noqa: E731
    with pytest.raises(TraceError, match=re.escape(f"[2] differs by {difference:.3g} from the eager module")):
        compare(EAGER, artifact, inputs, difference * 0.9)
    check = compare(EAGER, artifact, inputs, float(difference))
    assert (check.max_abs_diff, check.exceeding) == (float(difference), 1)
    assert compare(EAGER, lambda x: x, inputs, 0).exceeding == 0


def test_no_tolerance_applies_to_booleans() -> None:
    inputs = [(torch.tensor([True, False, True]),)]
    with pytest.raises(TraceError, match=re.escape("output 0 on inputs of shape [3]: 3 of 3 booleans differ from the")):
        compare(EAGER, lambda x: ~x, inputs, 5)


class Found(nn.Module):
    """Returns the positive numbers, and nothing."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x[x > 0], x[:0]


@pytest.mark.parametrize(("inputs", "empty"), [([[-1.0], [1.0]], [1]), ([[-1.0], [-2.0]], [0, 1])])
def test_outputs_without_elements(inputs: list[list[float]], empty: list[int]) -> None:
    module, cases = Found(), [(torch.tensor(case),) for case in inputs]
    assert compare(module, module, cases, 0).empty_outputs == empty


def of(*outputs: list[list[float]]) -> list[Tensors]:
    """Answers to each set of inputs: the n-th numbers of each output."""
    return [tuple(torch.tensor(values) for values in case) for case in zip(*outputs, strict=True)]


VARIES: list[list[float]] = [[1.0, -2.0], [3.0, 4.0]]


@pytest.mark.parametrize(
    ("answered", "tolerance", "warnings"),
    [
        (of(VARIES), 3.9, []),
        (of(VARIES, [[], []]), 0, ["output 1 has no elements for any of the fresh_inputs"]),
        (of(VARIES, [[0, 0], [0, NAN]]), 0.1, ["output 1 has only 0, NaN or infinity for all of the fresh_inputs"]),
        ([(torch.tensor([True, False]),)], 2, []),  # no tolerance applies to booleans
    ],
)
def test_outputs_that_say_little(answered: list[Tensors], tolerance: float, warnings: list[str]) -> None:
    assert [text.split(", so a wrong answer")[0] for text in require_content(answered, tolerance)] == warnings


@pytest.mark.parametrize(
    ("answered", "tolerance", "message"),
    [
        (of(VARIES, [[1e-4], [-2e-4]]), 2e-4, "0.0002 allows every answer in output 1, whose largest number .* 0.0002"),
        (of([[INFINITY, 0.5], [NAN, 0.1]]), 0.5, "the tolerance 0.5 allows every answer in output 0"),
        ([(torch.tensor([1, 0]),)], 1, "the tolerance 1 allows every answer in output 0"),
        (of([[0, 0], [0, 0]]), 0, "nothing was compared: output 0 has only 0, NaN or infinity"),
        (of([[], []], [[NAN], [NAN]]), 0, "nothing was compared: output 0 has no elements .*; output 1 has only 0"),
    ],
)
def test_a_comparison_that_compares_nothing(answered: list[Tensors], tolerance: float, message: str) -> None:
    with pytest.raises(TraceError, match=message) as raised:
        require_content(answered, tolerance)
    assert "fresh_inputs" in (raised.value.hint or "")


def test_infinite_numbers_and_nan_may_stand_in_the_same_places() -> None:
    inputs = [(torch.tensor([1.0, -INFINITY, INFINITY, NAN]),)]
    check = compare(EAGER, lambda x: x + 0.5, inputs, 0.5)
    assert (check.max_abs_diff, check.elements, check.not_finite) == (0.5, 4, 3)


@pytest.mark.parametrize("got", [[INFINITY, 1], [0.0, 1], [NAN, 1], [-INFINITY, NAN], [-INFINITY, INFINITY]])
def test_not_in_other_places(got: list[float]) -> None:
    with pytest.raises(TraceError, match="of 2 elements are NaN or infinite in the artifact or in the eager module"):
        compare(EAGER, lambda _: torch.tensor(got), [(torch.tensor([-INFINITY, 1.0]),)], 1)


class Grows(nn.Module):
    """Returns a longer tensor, or more tensors, at each call."""

    def __init__(self, *, outputs: bool) -> None:
        super().__init__()
        self.calls, self.outputs = 0, outputs

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        self.calls += 1
        return (x,) * self.calls if self.outputs else (x.new_zeros(self.calls),)


@pytest.mark.parametrize("outputs", [True, False])
def test_another_shape_or_number_of_outputs_is_not_repeatable(outputs: bool) -> None:
    module, inputs = Grows(outputs=outputs), [(torch.ones(2),)]
    with pytest.raises(TraceError, match="called again with the same inputs: its outputs differ in number, shape"):
        require_repeatable(module, inputs, answers(module, inputs), 1)


class Counts(nn.Module):
    """Adds the number of calls, modulo `period`, to its input."""

    def __init__(self, period: int) -> None:
        super().__init__()
        self.calls, self.period = 0, period

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x + self.calls % self.period


@pytest.mark.parametrize("inputs", [1, 2, 3, 4])
@pytest.mark.parametrize("period", [2, 3, 100])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_a_counter_is_not_repeatable(inputs: int, period: int, dtype: torch.dtype) -> None:
    module, cases = Counts(period), [(torch.ones(2, dtype=dtype) * number,) for number in range(inputs)]
    tolerance = 0.5 if dtype.is_floating_point else 50  # integers must be equal
    with pytest.raises(TraceError, match="called again with the same inputs: output 0 differs by") as raised:
        require_repeatable(module, cases, answers(module, cases), tolerance)
    assert "counters" in (raised.value.hint or "")


def test_equal_answers_are_repeatable() -> None:
    module, cases = nn.LayerNorm(4), [(torch.rand(batch, 4),) for batch in (1, 3)]
    require_repeatable(module, cases, answers(module, cases), 0)
