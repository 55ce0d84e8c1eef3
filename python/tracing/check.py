"""The trace check: verifies that an artifact computes the same as the eager module."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import torch
from torch import Tensor

from tracing.contract import TraceError
from tracing.record import Check

if TYPE_CHECKING:
    from torch import nn

RTOL = 1e-5
ATOL = 1e-5

Tensors: TypeAlias = tuple[Tensor, ...]


def as_tuple(outputs: Tensor | Sequence[Tensor]) -> Tensors:
    """Return a module's outputs as a tuple. Raises TraceError if one is not a tensor: Triton's outputs are tensors."""
    outputs = (outputs,) if isinstance(outputs, Tensor) else tuple(outputs)
    for output in outputs:
        if not isinstance(output, Tensor):
            raise TraceError(
                f"an output is a {type(output).__name__}; a model returns a tensor or a flat tuple of tensors"
            )
    return outputs


def answers(module: nn.Module, inputs: Sequence[Tensors]) -> list[Tensors]:
    """Return a module's outputs for each set of inputs. The module gets copies, because `forward` may change them."""
    return [
        tuple(output.clone() for output in as_tuple(module(*(tensor.clone() for tensor in case)))) for case in inputs
    ]


def require_repeatable(
    module: nn.Module, inputs: Sequence[Tensors], expected: Sequence[Tensors], tolerance: float
) -> None:
    """Raise TraceError if the module's answer to its smallest set of inputs differs from the first one (`expected`)."""
    number = min(range(len(inputs)), key=lambda case: sum(tensor.numel() for tensor in inputs[case]))
    again = answers(module, [inputs[number]])[0]
    try:
        differences = [_difference(*pair, "it") for pair in zip(expected[number], again, strict=True)]
        largest = max(map(_largest, differences), default=0.0)
        fault = f"the largest difference is {largest:.3g}, and the model's tolerance {tolerance:g}"
    except (TraceError, ValueError):
        largest, fault = math.inf, "its outputs differ in number, shape, data type or in places of NaN"
    if largest > tolerance:
        raise TraceError(
            f"forward() answers otherwise when it is called again with the same inputs: {fault}",
            "Random sampling (torch.rand, dropout that eval() does not switch off), a counter or other state in "
            "forward() causes that. Keep noise in a buffer, and let the answer depend on the inputs alone.",
        )


def compare(
    inputs: Sequence[Tensors], expected: Sequence[Tensors], received: Sequence[Tensors], tolerance: float
) -> Check:
    """Compare the outputs of the artifact (`received`) with those of the eager module (`expected`) for all inputs.

    Raises TraceError if outputs differ in number, dtype or shape, in the places of NaN or infinity, or by more than
    `tolerance`.
    """
    max_abs_diff = 0.0
    exceeding = 0
    elements = 0
    not_finite = 0
    for case, wanted, gotten in zip(inputs, expected, received, strict=True):
        shapes = ", ".join(str(list(tensor.shape)) for tensor in case)
        if len(wanted) != len(gotten):
            raise TraceError(f"on inputs of shape {shapes} {len(gotten)} outputs came back, not {len(wanted)}")
        for index, (want, got) in enumerate(zip(wanted, gotten, strict=True)):
            where = f"output {index} on inputs of shape {shapes}"
            difference = _difference(want, got, where)
            largest = _largest(difference)
            if largest > tolerance:
                raise TraceError(
                    f"{where} is {largest:.3g} away from the eager module's; the model's tolerance is {tolerance:g}",
                    "Something was frozen while tracing, or the tolerance in trace.py is too strict.",
                )
            max_abs_diff = max(max_abs_diff, largest)
            exceeding += int((difference > ATOL + RTOL * want.double().abs()).sum())
            elements += want.numel()
            not_finite += int((~torch.isfinite(want)).sum())
    if 0 < elements == not_finite:
        raise TraceError("every number of every output is NaN or infinite, so nothing was compared")
    return Check(
        tolerance=tolerance,
        rtol=RTOL,
        atol=ATOL,
        max_abs_diff=max_abs_diff,
        exceeding=exceeding,
        elements=elements,
        not_finite=not_finite,
        shapes=[[list(tensor.shape) for tensor in case] for case in inputs],
    )


def require_separate_rows(
    eager: nn.Module, inputs: Sequence[Tensors], outputs: Sequence[Tensors], tolerance: float
) -> None:
    """Raise TraceError if a row of a batch gets another answer than the same row alone.

    Checks the smallest of `inputs` with several rows. outputs: the answers of the eager module to `inputs`. The order
    of sums may depend on the batch size, so a difference of 1e-4 of the largest number is always allowed.
    """
    several = [case for case in zip(inputs, outputs, strict=True) if case[0][0].shape[0] > 1]
    if not several:
        return
    together, answered = min(several, key=lambda case: sum(tensor.numel() for tensor in case[0]))
    rows = together[0].shape[0]
    for row in range(rows):
        (alone,) = answers(eager, [tuple(tensor[row : row + 1] for tensor in together)])
        for index, (one, all_rows) in enumerate(zip(alone, answered, strict=True)):
            want = all_rows[row : row + 1]
            finite = want[torch.isfinite(want)].double().abs()
            allowed = max(tolerance, ATOL + 1e-4 * float(finite.max() if finite.numel() else 0))
            how = _how_other(want, one, allowed)
            if how is not None:
                raise TraceError(
                    f"output {index}: row {row} of a batch of {rows} {how} the same row alone: the module mixes rows",
                    "Triton puts requests of different clients into one batch, so answers would depend on others. "
                    "Compute each row by itself (no softmax, mean or sort over dim 0; batch norm with running "
                    "statistics), or set max_batch_size to 0.",
                )


def _how_other(want: Tensor, got: Tensor, allowed: float) -> str | None:
    """Describe how `want` differs from `got`; None if it does not."""
    if want.shape != got.shape:
        return f"has shape {list(want.shape[1:])} and not {list(got.shape[1:])} as"
    try:
        difference = _difference(want, got, "")
    except TraceError:
        return "has NaN or infinity in other places than"
    largest = _largest(difference)
    return f"is {largest:.3g} away from" if largest > allowed else None


def _largest(difference: Tensor) -> float:
    return float(difference.max()) if difference.numel() else 0.0


def _difference(want: Tensor, got: Tensor, where: str) -> Tensor:
    """Return |got - want| in float64, with 0 where both are NaN or the same infinity."""
    if got.dtype != want.dtype:
        raise TraceError(f"{where} has dtype {got.dtype}, not {want.dtype}")
    if got.shape != want.shape:
        raise TraceError(
            f"{where} has shape {list(got.shape)}, not {list(want.shape)}",
            "A size was frozen while tracing: use the tensor's own sizes, or script that part.",
        )
    finite = torch.isfinite(want) & torch.isfinite(got)
    other = ~(finite | (want == got) | (want.isnan() & got.isnan()))
    if bool(other.any()):
        raise TraceError(
            f"{where}: {int(other.sum())} of {want.numel()} elements are NaN or infinite in the artifact or in the "
            "eager module, and not the same in both"
        )
    return torch.where(finite, (got.double() - want.double()).abs(), 0.0)
