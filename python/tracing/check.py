"""The trace check: verifies that an artifact computes the same as the eager module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import torch
from torch import Tensor

from tracing.contract import TraceError
from tracing.record import Check

if TYPE_CHECKING:
    from torch import nn

RTOL = 1e-5
ATOL = 1e-5
RESULTS = (
    "Add inputs to fresh_inputs in trace.py for which the module finds something, such as boxes in a real picture."
)

Tensors: TypeAlias = tuple[Tensor, ...]


def as_tuple(outputs: object) -> Tensors:
    """Return a module's outputs as a tuple. Raises TraceError for outputs that Triton's PyTorch backend refuses."""
    if isinstance(outputs, Tensor):
        outputs = (outputs,)
    if isinstance(outputs, tuple) and all(isinstance(output, Tensor) for output in outputs):
        for index, output in enumerate(outputs):
            if output.is_neg():
                raise TraceError(
                    f"output {index} of forward() has PyTorch's negative bit: its memory has the numbers with the "
                    "opposite sign, which Triton's PyTorch backend would serve",
                    f"Return output {index} as x.resolve_neg().",
                )
        return outputs
    elements = f" of {', '.join(type(output).__name__ for output in outputs)}" if isinstance(outputs, tuple) else ""
    raise TraceError(
        f"forward() returns a {type(outputs).__name__}{elements}, which Triton's PyTorch backend cannot serve: return "
        "a tensor or a flat tuple of tensors",
        "Wrap the module in one whose forward() selects the tensors, in the order of output__0, output__1 and so on.",
    )


def answers(module: nn.Module, inputs: Sequence[Tensors]) -> list[Tensors]:
    """Return a module's outputs for each set of inputs. The module gets copies, because `forward` may change them."""
    return [
        tuple(output.clone() for output in as_tuple(module(*(tensor.clone() for tensor in case)))) for case in inputs
    ]


def require_repeatable(
    module: nn.Module, inputs: Sequence[Tensors], expected: Sequence[Tensors], tolerance: float
) -> None:
    """Raise TraceError if the module answers its smallest inputs otherwise than before, in two calls after the others.

    expected: the first answers. Two calls in a row, because two states may alternate.
    """
    number = min(range(len(inputs)), key=lambda case: sum(tensor.numel() for tensor in inputs[case]))
    for again in answers(module, [inputs[number]] * 2):
        how = describe_difference(expected[number], again, tolerance)
        if how is not None:
            raise TraceError(
                f"forward() returns another answer when it is called again with the same inputs: {how}", REPEATABLE
            )


REPEATABLE = (
    "An answer must depend on its inputs alone, because a server gets requests of many clients in any order. Remove "
    "random sampling (torch.rand, dropout that eval() does not switch off), counters, assignments to self and "
    "operators in place (add_, copy_, neg_) on buffers, globals and tensors in a dict or list from forward(). Keep "
    "noise in a buffer."
)


def describe_difference(first: Tensors, again: Tensors, tolerance: float) -> str | None:
    """Describe how a repeated answer differs from the first one; None if it does not. Integers must be equal."""
    try:
        for index, (want, got) in enumerate(zip(first, again, strict=True)):
            most = maximum(absolute_difference(want, got, ""))
            allowed = tolerance if want.is_floating_point() else 0
            if most > allowed:
                return f"output {index} differs by {most:.3g} from the first answer (allowed: {allowed:g})"
    except (TraceError, ValueError):
        return "its outputs differ in number, shape, data type or positions of NaN"
    return None


def compare(
    inputs: Sequence[Tensors], expected: Sequence[Tensors], received: Sequence[Tensors], tolerance: float
) -> Check:
    """Compare the outputs of the artifact (`received`) with those of the eager module (`expected`) for all inputs.

    Raises TraceError if outputs differ in number, dtype or shape, in the places of NaN or infinity, or by more than
    `tolerance`. Booleans must be equal. `require_content` verifies that the comparison meant something.
    """
    max_abs_diff = 0.0
    exceeding = 0
    elements = 0
    not_finite = 0
    with_elements: set[int] = set()
    for case, case_expected, case_received in zip(inputs, expected, received, strict=True):
        shapes = ", ".join(str(list(tensor.shape)) for tensor in case)
        if len(case_expected) != len(case_received):
            raise TraceError(
                f"on inputs of shape {shapes} {len(case_received)} outputs were returned, expected {len(case_expected)}"
            )
        for index, (want, got) in enumerate(zip(case_expected, case_received, strict=True)):
            where = f"output {index} on inputs of shape {shapes}"
            difference = absolute_difference(want, got, where)
            largest = maximum(difference)
            if largest > 0 and want.dtype == torch.bool:
                raise TraceError(
                    f"{where}: {int(difference.sum())} of {want.numel()} booleans differ from the eager module",
                    "Something was frozen while tracing. A tolerance does not apply to booleans.",
                )
            if largest > tolerance:
                raise TraceError(
                    f"{where} differs by {largest:.3g} from the eager module; the model's tolerance is {tolerance:g}",
                    "Something was frozen while tracing, or the tolerance in trace.py is too strict.",
                )
            max_abs_diff = max(max_abs_diff, largest)
            rounding = ATOL + RTOL * want.double().abs() if want.is_floating_point() else 0
            exceeding += int((difference > rounding).sum())
            elements += want.numel()
            if want.numel() > 0:
                with_elements.add(index)
            not_finite += int((~torch.isfinite(want)).sum())
    return Check(
        tolerance=tolerance,
        rtol=RTOL,
        atol=ATOL,
        max_abs_diff=max_abs_diff,
        exceeding=exceeding,
        elements=elements,
        not_finite=not_finite,
        empty_outputs=[index for index in range(len(expected[0])) if index not in with_elements],
        shapes=[[list(tensor.shape) for tensor in case] for case in inputs],
    )


def require_content(expected: Sequence[Tensors], tolerance: float) -> list[str]:
    """Raise TraceError if the answers of the eager module are too small or too few for a comparison to find anything.

    expected: for all fresh inputs. tolerance: the largest that any check of the model uses. Returns warnings.
    """
    warnings: list[str] = []
    for index, answered in enumerate(zip(*expected, strict=True)):
        numbers = [output.double().abs() for output in answered]
        largest = max(maximum(of_case[of_case.isfinite()]) for of_case in numbers)
        if not any(output.numel() for output in answered):
            warnings.append(f"output {index} has no elements for any of the fresh_inputs")
        elif largest == 0:
            warnings.append(f"output {index} has only 0, NaN or infinity for all of the fresh_inputs")
        elif tolerance >= largest and answered[0].dtype != torch.bool:
            raise TraceError(
                f"the tolerance {tolerance:g} allows every answer in output {index}, whose largest number for the "
                f"fresh_inputs is {largest:.3g}, so nothing was compared",
                f"Set tolerance and serving_tolerance in trace.py to about {largest * ATOL:.1g}, a hundred-"
                "thousandth of the largest number, or give fresh_inputs with larger answers.",
            )
    if len(warnings) == len(expected[0]):
        raise TraceError(f"nothing was compared: {'; '.join(warnings)}", RESULTS)
    return [f"{text}, so a wrong answer may not be noticed. {RESULTS}" for text in warnings]


def maximum(difference: Tensor) -> float:
    return float(difference.max()) if difference.numel() else 0.0


def absolute_difference(want: Tensor, got: Tensor, where: str) -> Tensor:
    """Return |got - want| in float64, with 0 where both are NaN or the same infinity, and only for equal integers."""
    if got.dtype != want.dtype:
        raise TraceError(f"{where} has dtype {got.dtype}, not {want.dtype}")
    if got.shape != want.shape:
        raise TraceError(
            f"{where} has shape {list(got.shape)}, not {list(want.shape)}",
            "A size was frozen while tracing: use the tensor's own sizes, or script that part.",
        )
    if not (want.is_floating_point() or want.is_complex()):
        # float64 does not hold all integers above 2**53, and 64 bits without a sign hold the difference of any two.
        a, b = want.numpy(), got.numpy()
        apart = np.maximum(a, b).astype(np.uint64) - np.minimum(a, b).astype(np.uint64)
        return torch.from_numpy(np.asarray(apart, np.float64))  # asarray, because NumPy gives a scalar without axes
    finite = torch.isfinite(want) & torch.isfinite(got)
    other = ~(finite | (want == got) | (want.isnan() & got.isnan()))
    if bool(other.any()):
        raise TraceError(
            f"{where}: {int(other.sum())} of {want.numel()} elements are NaN or infinite in the artifact or in the "
            "eager module, and not the same in both"
        )
    return torch.where(finite, (got.double() - want.double()).abs(), 0.0)
