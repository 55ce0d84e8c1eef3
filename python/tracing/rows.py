"""Rejects a model whose answer to a row depends on the other rows of the batch.

Probes are batches made of rows of the fresh inputs, so their rows are legal and the answers to them are known. A probe
has its rows at other positions, beside other rows and, if fresh inputs of other batch sizes have rows of the same
shape, from these. A model that computes each row by itself gives each row the known answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tracing.check import ATOL, Tensors, absolute_difference, maximum
from tracing.contract import TraceError
from tracing.interface import Interface

# Sums of floats depend on the batch size, by up to this part of the largest number of a row. So may the result of an
# argmax or of rounding: for this part of the integers.
ROUNDING = 1e-4

# A kind of extreme values. Not larger, because a model may use an integer as a length, for which it needs memory.
INTEGER = "large integer"
LARGE_INTEGER = 2**15 - 1

MIXES = (
    "Triton puts requests of different clients into one batch, so the answer to a client would depend on the others. "
    "Compute each row by itself (no softmax, mean, sort, flip or arange over dim 0; batch norm with running "
    "statistics), or set max_batch_size to 0."
)


@dataclass(frozen=True)
class RowOrigin:
    """The row `row` of the set of fresh inputs `case`."""

    case: int
    row: int


@dataclass(frozen=True)
class Probe:
    """A batch for the model. rows: the origin of each row; None for a row of `extreme` values, whose answer is free."""

    inputs: Tensors
    rows: Sequence[RowOrigin | None]
    extreme: str | None = None


def make_probes(inputs: Sequence[Tensors]) -> list[Probe]:
    """Return batches of every size of the fresh inputs and of 1, and some with a row of extreme numbers.

    Raises TraceError if all rows of a size are equal, because a model that mixes them would give the same answers.
    """
    if not all(case and all(tensor.ndim > 0 and 0 < len(tensor) == len(case[0]) for tensor in case) for case in inputs):
        return []  # `compare_with_config` reports it
    batches: list[list[RowOrigin]] = []
    equal: dict[int, int] = {}
    by_shape: dict[tuple[object, ...], list[int]] = {}
    for number, case in enumerate(inputs):
        by_shape.setdefault(tuple((tensor.shape[1:], tensor.dtype) for tensor in case), []).append(number)
    for group in by_shape.values():
        distinct = _distinct_rows(inputs, group)
        sizes = {len(inputs[number][0]): number for number in group}
        for size, number in sizes.items():
            own = [origin for origin in distinct if origin.case == number]
            others = [origin for origin in distinct if origin.case != number]
            if size == 1:
                batches += [others[-1:]] if others else []
            elif len(distinct) > 1:
                batches.append(_arranged(size, own, others))
            elif any(tensor[0].numel() for tensor in inputs[number]):
                equal[size] = number
        if 1 not in sizes and len(distinct) > 1:
            batches.append(distinct[-1:])
    for size, number in equal.items():
        if size not in map(len, batches):
            raise TraceError(
                f"all {size} rows of fresh_inputs[{number}] are equal, so the check cannot show whether the model "
                f"mixes the rows of a batch of {size}",
                "Give each row values of its own in trace.py: torch.rand(batch, ...), not torch.ones, zeros or expand.",
            )
    # The largest first: its message says most about a model that mixes rows in large batches only.
    batches.sort(key=len, reverse=True)
    return [Probe(_batch(inputs, rows), rows) for rows in batches] + _extreme(inputs)


def require_separate_rows(
    probes: Sequence[Probe],
    answered: Sequence[Tensors | str],
    outputs: Sequence[Tensors],
    interface: Interface,
    tolerance: float,
) -> list[str]:
    """Raise TraceError if a row of a probe has another answer than among `outputs`, those to the fresh inputs.

    answered: the answers to the probes, or the error of the call. Returns warnings. `tolerance` is doubled, because
    either answer may be that far from the eager module's.
    """
    warnings = []
    for probe, received in zip(probes, answered, strict=True):
        batch = len(probe.rows)
        if isinstance(received, str):
            if probe.extreme == INTEGER:
                continue  # It may be no valid input, such as a number beyond the vocabulary.
            if probe.extreme is None:
                raise TraceError(
                    f"the model fails on a batch of {batch} of other rows of fresh_inputs: {received}", MIXES
                )
            warnings.append(
                f"a row of {probe.extreme} values makes the whole batch of {batch} fail, with the requests of other "
                f"clients: {received}"
            )
            continue
        for slot in interface.outputs:
            got = received[slot.position]
            for row, origin in enumerate(probe.rows):
                if origin is None:
                    continue
                known = outputs[origin.case][slot.position]
                how = (
                    _describe_difference(known[origin.row], got[row], tolerance)
                    if len(got) == batch
                    else "has no row of its own, unlike"
                )
                if how is not None:
                    beside = "" if probe.extreme is None else f" when another row has {probe.extreme} values"
                    raise TraceError(
                        f"output '{slot.name}': row {row} of a batch of {batch} {how} the answer to the same row in "
                        f"fresh_inputs[{origin.case}] (row {origin.row} of {len(known)}){beside}: the model mixes rows",
                        MIXES,
                    )
    return warnings


def _distinct_rows(inputs: Sequence[Tensors], group: Sequence[int]) -> list[RowOrigin]:
    """Return the rows of the cases in `group` without repetitions."""
    found: dict[bytes, RowOrigin] = {}
    for number in group:
        for row in range(len(inputs[number][0])):
            content = b"".join(
                tensor[row].contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() for tensor in inputs[number]
            )
            found.setdefault(content, RowOrigin(number, row))
    return list(found.values())


def _arranged(size: int, own: Sequence[RowOrigin], others: Sequence[RowOrigin]) -> list[RowOrigin]:
    """Return `size` rows, at other positions than in their case: every second one of `others`, or half of `own`."""
    if not others:
        half = own[: (len(own) + 1) // 2]
        return [half[(row + 1) % len(half)] for row in range(size)]
    mine = own or others
    return [others[row // 2 % len(others)] if row % 2 == 0 else mine[(row + 1) % len(mine)] for row in range(size)]


def _batch(inputs: Sequence[Tensors], rows: Sequence[RowOrigin]) -> Tensors:
    count = len(inputs[rows[0].case])
    return tuple(torch.stack([inputs[origin.case][index][origin.row] for origin in rows]) for index in range(count))


def _extreme(inputs: Sequence[Tensors]) -> list[Probe]:
    """Return the smallest batch of several rows with large and low numbers, and with NaN, in its first row."""
    several = [number for number, case in enumerate(inputs) if len(case[0]) > 1]
    if not several:
        return []
    number = min(several, key=lambda case: sum(tensor.numel() for tensor in inputs[case]))
    rows = [None, *(RowOrigin(number, row) for row in range(1, len(inputs[number][0])))]

    def replaced(tensor: Tensor, kind: str) -> Tensor:
        tensor = tensor.clone(memory_format=torch.contiguous_format)
        row = tensor[0].view(-1)
        if kind == INTEGER and not tensor.is_floating_point() and tensor.dtype != torch.bool:
            row[:] = min(LARGE_INTEGER, torch.iinfo(tensor.dtype).max)
        elif kind != INTEGER and tensor.is_floating_point():
            row[:] = torch.nan if kind == "NaN" else torch.finfo(tensor.dtype).max
            if kind != "NaN":
                row[1::2] = torch.finfo(tensor.dtype).min
        return tensor

    are_floats = {tensor.is_floating_point() for tensor in inputs[number] if tensor.dtype != torch.bool}
    kinds = [*(["very large", "NaN"] if True in are_floats else []), *([INTEGER] if False in are_floats else [])]
    return [Probe(tuple(replaced(tensor, kind) for tensor in inputs[number]), rows, kind) for kind in kinds]


def _describe_difference(want: Tensor, got: Tensor, tolerance: float) -> str | None:
    """Describe how the answer `got` differs from `want`; None if it does not."""
    if want.shape != got.shape:
        return f"has shape {list(got.shape)} and not {list(want.shape)} as"
    try:
        differences = absolute_difference(want, got, "")
    except TraceError:
        return "has NaN or infinity in other positions than"
    if want.is_floating_point():
        finite = want[torch.isfinite(want)].double().abs()
        allowed = max(2 * tolerance, ATOL + ROUNDING * maximum(finite))
        most = maximum(differences)
        return f"differs by {most:.3g} (allowed: {allowed:.3g}) from" if most > allowed else None
    other = int((differences > tolerance).sum())
    if other <= ROUNDING * want.numel():
        return None
    return f"differs in {other} of {want.numel()} integers (by up to {maximum(differences):.0f}) from"
