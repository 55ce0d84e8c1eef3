"""Converts networks to compute in BF16 or FP16 with inputs and outputs in FP32."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from tracing.contract import Precision

DTYPES: dict[Precision, torch.dtype] = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}

Module = TypeVar("Module", bound=nn.Module)


def in_precision(module: Module, precision: Precision, *, channels_last: bool = False) -> Module:
    """Return a copy that computes in `precision`: FP32 inputs are converted, and outputs are converted back to FP32.

    channels_last: convert images and weights of convolutions to NHWC. Conversions are hooks, so that `forward` keeps
    the names of its arguments, and traces and exports contain the conversions.
    """
    dtype = DTYPES[precision]
    if precision == "fp32" and not channels_last:
        return module
    module = copy.deepcopy(module).to(dtype)
    if channels_last:
        module = module.to(memory_format=torch.channels_last)

    def enter(_module: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(map(convert, inputs))

    def convert(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        value = value.to(dtype) if value.dtype == torch.float32 else value
        return value.contiguous(memory_format=torch.channels_last) if channels_last and value.dim() == 4 else value

    def leave(_module: nn.Module, _inputs: tuple[Any, ...], output: Any) -> Any:
        if isinstance(output, Tensor):
            # Clients read C order, and a server copies the memory as it is.
            output = output.contiguous() if channels_last else output
            return output.to(torch.float32) if output.dtype == dtype else output
        return type(output)(leave(_module, _inputs, one) for one in output)

    module.register_forward_pre_hook(enter)
    module.register_forward_hook(leave)
    return module
