"""The trace check: does an artifact compute what the eager module computes?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    """A module's outputs as a tuple. Raises TraceError for anything but tensors: Triton's outputs are tensors."""
    outputs = (outputs,) if isinstance(outputs, Tensor) else tuple(outputs)
    for output in outputs:
        if not isinstance(output, Tensor):
            raise TraceError(
                f"an output is a {type(output).__name__}; a model returns a tensor or a flat tuple of tensors"
            )
    return outputs


def compare(
    eager: nn.Module, artifact: Callable[..., Tensor | Sequence[Tensor]], inputs: Sequence[Tensors], tolerance: float
) -> Check:
    """Runs both on each set of inputs.

    Raises TraceError when an output differs in number, dtype or shape, is not finite, or is further than `tolerance`
    from the eager one.
    """
    if not inputs:
        raise TraceError("trace.py gives no fresh_inputs, so nothing would be checked")
    max_abs_diff = 0.0
    exceeding = 0
    elements = 0
    for case in inputs:
        shapes = ", ".join(str(list(tensor.shape)) for tensor in case)
        expected = as_tuple(eager(*case))
        received = as_tuple(artifact(*case))
        if len(expected) != len(received):
            raise TraceError(f"on inputs of shape {shapes} {len(received)} outputs came back, not {len(expected)}")
        for index, (want, got) in enumerate(zip(expected, received, strict=True)):
            where = f"output {index} on inputs of shape {shapes}"
            difference = _difference(want, got, where)
            largest = float(difference.max()) if difference.numel() else 0.0
            if largest > tolerance:
                raise TraceError(
                    f"{where} is {largest:.3g} away from the eager module's; the model's tolerance is {tolerance:g}",
                    "Something was frozen while tracing, or the tolerance in trace.py is too strict.",
                )
            max_abs_diff = max(max_abs_diff, largest)
            exceeding += int((difference > ATOL + RTOL * want.double().abs()).sum())
            elements += want.numel()
    return Check(
        tolerance=tolerance,
        rtol=RTOL,
        atol=ATOL,
        max_abs_diff=max_abs_diff,
        exceeding=exceeding,
        elements=elements,
        shapes=[[list(tensor.shape) for tensor in case] for case in inputs],
    )


def _difference(want: Tensor, got: Tensor, where: str) -> Tensor:
    """|got - want| in float64."""
    if got.dtype != want.dtype:
        raise TraceError(f"{where} has dtype {got.dtype}, not {want.dtype}")
    if got.shape != want.shape:
        raise TraceError(
            f"{where} has shape {list(got.shape)}, not {list(want.shape)}",
            "A size was frozen while tracing: use the tensor's own sizes, or script that part.",
        )
    for name, tensor in (("the artifact", got), ("the eager module", want)):
        if not bool(torch.isfinite(tensor).all()):
            raise TraceError(f"{where}: {name} gives values that are not finite (NaN or infinity)")
    return (got.double() - want.double()).abs()
