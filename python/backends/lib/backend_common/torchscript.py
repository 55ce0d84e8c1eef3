"""Serve TorchScript models (`platform: "pytorch_libtorch"`) from Triton's python backend.

Replaces Triton's libtorch backend where that is not installed, and follows its rules, so that a repository that works
with this backend also works with libtorch. Names and error texts are from src/pt/model_instance_state.cc of the
libtorch backend.
"""

from __future__ import annotations

import importlib
import re
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch.utils.dlpack import from_dlpack

from .backend import Backend, TritonTensor
from .dlpack import DLPackExport
from .spec import ModelError, ModelSpec, TensorSpec, index_of

TORCH_TYPES = {
    "BOOL": torch.bool,
    "UINT8": torch.uint8,
    "UINT16": torch.uint16,
    "UINT32": torch.uint32,
    "UINT64": torch.uint64,
    "INT8": torch.int8,
    "INT16": torch.int16,
    "INT32": torch.int32,
    "INT64": torch.int64,
    "FP16": torch.float16,
    "FP32": torch.float32,
    "FP64": torch.float64,
    "BF16": torch.bfloat16,
}
TRITON_TYPES = {torch_type: name for name, torch_type in TORCH_TYPES.items()}
"""torch's element type -> Triton's. torch has no type for TYPE_STRING."""

ONLY_HERE = frozenset({"UINT16", "UINT32", "UINT64", "BF16"})
"""Types that torch supports and the libtorch backend rejects."""


PARAMETERS = {
    "DISABLE_OPTIMIZED_EXECUTION": False,
    "ENABLE_CACHE_CLEANING": False,
    "INFERENCE_MODE": True,
    "DISABLE_CUDNN": False,
    "ENABLE_TENSOR_FUSER": False,
    "ENABLE_WEIGHT_SHARING": False,
    "ENABLE_JIT_PROFILING": False,
    "ENABLE_JIT_EXECUTOR": False,
}
"""Flags of the libtorch backend, with their defaults. Flags that this backend does not use are only validated."""


class TorchScriptRunner:
    """A TorchScript module on one device."""

    def __init__(self, spec: ModelSpec) -> None:
        self.spec = spec
        self.device = _device(spec)
        flags = {name: spec.flag(name, default) for name, default in PARAMETERS.items()}
        self.mode = torch.inference_mode if flags["INFERENCE_MODE"] else torch.no_grad
        self.optimized = not flags["DISABLE_OPTIMIZED_EXECUTION"]
        # In the libtorch backend these apply to the whole server, and the first model that sets them wins.
        if (threads := spec.integer("INTRA_OP_THREAD_COUNT")) > 0:
            torch.set_num_threads(threads)
        if (threads := spec.integer("INTER_OP_THREAD_COUNT")) > 0:
            torch.set_num_interop_threads(threads)
        self.module = _load(spec.artifact, self.device, self.mode)
        self.is_dict, arguments = checked_arguments(spec, self.module)
        self.inputs = ordered_inputs(spec, arguments)

    def forward(self, inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Run the module on the device, without autograd."""
        tensors = {name: inputs[name].to(self.device) for name in self.inputs}
        arguments = [tensors] if self.is_dict else list(tensors.values())
        try:
            with self.mode(), nullcontext() if self.optimized else torch.jit.optimized_execution(False):  # type: ignore[attr-defined]
                values = returned_tensors(self.module(*arguments))
        except Exception as error:
            raise ModelError(f"PyTorch execute failure: {error}") from error
        return named_outputs(self.spec.outputs, values)

    def concatenate(self, arrays: Sequence[torch.Tensor]) -> torch.Tensor:
        """Join along axis 0."""
        return torch.cat(list(arrays))

    def data_type(self, array: torch.Tensor) -> str:
        """Return Triton's name of the element type, or torch's name if Triton has none."""
        return TRITON_TYPES.get(array.dtype, str(array.dtype))


class TorchScriptBackend(Backend[torch.Tensor]):
    """Serves TorchScript with torch.jit."""

    default_filename = "model.pt"
    data_types = frozenset(TORCH_TYPES)

    def load(self, spec: ModelSpec) -> TorchScriptRunner:
        """Load a TorchScript archive (not a state dict, not a pickled module)."""
        for tensor in (*spec.inputs, *spec.outputs):
            if tensor.data_type in ONLY_HERE:
                print(
                    f"{spec}: Triton's libtorch backend rejects TYPE_{tensor.data_type} of '{tensor.name}'",
                    file=sys.stderr,
                )
        return TorchScriptRunner(spec)

    def from_dlpack(self, tensor: TritonTensor) -> torch.Tensor:
        """Return a view of Triton's shared memory."""
        return from_dlpack(tensor)

    def export(self, array: torch.Tensor, data_type: str) -> DLPackExport:
        """Export a tensor from any device and in any order, copied to main memory and C order if needed."""
        array = array.cpu().contiguous()
        return DLPackExport(array, array.data_ptr(), array.shape, data_type)


def checked_arguments(spec: ModelSpec, module: torch.jit.ScriptModule) -> tuple[bool, list[str]]:
    """Return whether forward takes one dictionary, and the names of its arguments if not.

    Raises ModelError for inputs with which the libtorch backend rejects a model.
    """
    for tensor in spec.inputs:
        if tensor.optional:
            raise ModelError(
                f"'optional' is set to true for input '{tensor.name}' while the backend model doesn't support optional"
                " input"
            )
    _self, *arguments = module.forward.schema.arguments  # type: ignore[attr-defined]
    kinds = [argument.type.kind() for argument in arguments]
    if kinds == ["DictType"]:
        return True, []
    if "DictType" in kinds[1:]:
        raise ModelError(
            "Multiple inputs of kind DictType were detected. Only a single input of type Dict(str, Tensor) is"
            " supported."
        )
    for argument, kind in zip(arguments, kinds, strict=True):
        if kind not in ("TensorType", "ListType"):
            raise ModelError(
                f"An input of type '{argument.type.str()}' was detected in the model. Only a single input of type"
                " Dict(str, Tensor) or input(s) of type Tensor are supported."
            )
    expected = len(spec.inputs) + len(spec.controls)
    if arguments and len(arguments) != expected:
        raise ModelError(f"configuration expects {expected} inputs, model provides {len(arguments)}")
    return False, [argument.name for argument in arguments]


def ordered_inputs(spec: ModelSpec, arguments: Sequence[str]) -> list[str]:
    """Return the names of the inputs in the order of forward's arguments, by the rules of the libtorch backend.

    If all names are names of forward's arguments, they are matched by name. Otherwise, if all names are numbered
    (`input__0`), the number is the position. Otherwise the order is that of the configuration. Sequence controls are
    always matched by number.
    """
    names = [tensor.name for tensor in spec.inputs]
    positions: dict[str, int | None] = {}
    for name in spec.controls:
        positions[name] = index_of(name)
        if positions[name] is None:
            raise ModelError(f"input '{name}' does not follow <name>__<index> naming convention.")
    if arguments and set(names) <= set(arguments):
        positions |= {name: list(arguments).index(name) for name in names}
    elif all(index_of(name) is not None for name in names):
        positions |= {name: index_of(name) for name in names}
    else:
        positions |= {name: position for position, name in enumerate(names)}
    by_position = {position: name for name, position in positions.items()}
    if set(by_position) != set(range(len(positions))):
        # The libtorch backend would write such an argument beyond the end of its list.
        raise ModelError(
            f"the numbers in the input names must be 0 to {len(positions) - 1}, each used once; got {positions}"
        )
    return [by_position[position] for position in range(len(positions))]


def returned_tensors(returned: object) -> tuple[torch.Tensor, ...]:
    """Return the output of the module, one tensor or a tuple of tensors, as a tuple."""
    values = returned if isinstance(returned, tuple) else (returned,)
    if not all(isinstance(value, torch.Tensor) for value in values):
        kinds = ", ".join(type(value).__name__ for value in values)
        raise TypeError(
            "output must be of type Tensor, List[str] or Tuple containing one of these two types. It should not be a"
            f" List / Dictionary of Tensors or a Scalar; forward returned {kinds}"
        )
    if any(value.is_neg() for value in values):
        raise TypeError(
            "an output has PyTorch's negative bit, so its memory has the numbers with the opposite sign; the libtorch"
            " backend would serve these. Let forward return x.resolve_neg()"
        )
    return values


def named_outputs(outputs: Sequence[TensorSpec], values: Sequence[torch.Tensor]) -> dict[str, torch.Tensor]:
    """Map names of the configuration to tensors: `output__1` is element 1; names without numbers go by position."""
    numbered = all(tensor.index is not None for tensor in outputs)
    named: dict[str, torch.Tensor] = {}
    for position, tensor in enumerate(outputs):
        index = tensor.index if numbered and tensor.index is not None else position
        if index >= len(values):
            raise ModelError(
                f"The output {tensor.name} in the model configuration refers to an output index which doesn't exist."
                f" This model has {len(values)} outputs"
            )
        named[tensor.name] = values[index]
    return named


def _load(
    artifact: Path, device: torch.device, mode: Callable[[], AbstractContextManager[Any]]
) -> torch.jit.ScriptModule:
    """Load like the libtorch backend: in inference mode, without `eval()`, which tracing should have called."""
    # Hides torch's recommendation of torch.export: this backend serves TorchScript.
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"torch\.jit\..*")
    try:
        with mode():
            return _jit_load(str(artifact), map_location=device)
    except RuntimeError as error:
        reason = re.split(r"\.\s", str(error).strip())[0]
        raise ModelError(f"the file is not TorchScript; write it with torch.jit.save: {reason}") from error


def _jit_load(artifact: str, map_location: torch.device) -> torch.jit.ScriptModule:
    try:
        module: torch.jit.ScriptModule = torch.jit.load(artifact, map_location)  # type: ignore[no-untyped-call]
    except RuntimeError as error:
        if "torchvision::" not in str(error):
            raise
        # The libtorch backend is linked with torchvision's operators; in Python, the import registers them.
        importlib.import_module("torchvision")
        module = torch.jit.load(artifact, map_location)  # type: ignore[no-untyped-call]
    return module


def _device(spec: ModelSpec) -> torch.device:
    if spec.kind == "GPU" and torch.cuda.is_available():
        return torch.device("cuda", spec.device_id)
    return torch.device("cpu")
