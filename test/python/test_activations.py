"""The memory that the tensors of a call use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from tracing.activations import measured

if TYPE_CHECKING:
    from collections.abc import Callable

ROW = 1000 * 4
"""Bytes of a row of 1000 numbers."""


def two_at_a_time(x: torch.Tensor) -> torch.Tensor:
    for _ in range(5):
        x = x + 1
    return x


def all_at_once(x: torch.Tensor) -> torch.Tensor:
    return torch.stack([x + n for n in range(5)]).sum(0)


@pytest.mark.parametrize(
    ("call", "rows"),
    [
        (lambda x: x, 0),
        (lambda x: x[:, 1:].reshape(-1), 0.999),  # A view, and the copy of it.
        (lambda x: x.view(-1).add_(1), 0),  # In the memory of the input.
        (lambda x: x + 1, 1),
        (two_at_a_time, 2),
        (all_at_once, 10),  # Five, and the same in one tensor.
        (torch.jit.script(all_at_once), 10),  # type: ignore[no-untyped-call]
    ],
)
def test_counts_tensors_that_live_at_the_same_time(call: Callable[..., torch.Tensor], rows: float) -> None:
    outputs, peak = measured(lambda case: (call(*case),), [(torch.zeros(2, 1000),)])
    assert outputs[0][0].numel() > 0
    assert peak == 2 * rows * ROW


def test_takes_the_largest_call_and_forgets_the_outputs_before_it() -> None:
    outputs, peak = measured(lambda case: (case[0] + 1,), [(torch.zeros(rows, 1000),) for rows in (3, 8, 5)])
    assert [output.shape[0] for (output,) in outputs] == [3, 8, 5]
    assert peak == 8 * ROW


def test_a_tensor_without_storage_does_not_count() -> None:
    assert measured(lambda case: (case[0].to_sparse(),), [(torch.zeros(2, 2),)])[1] < ROW
