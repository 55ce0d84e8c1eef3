"""Serve TorchScript models (`platform: "pytorch_libtorch"`) from Triton's python backend.

Stands in for Triton's libtorch backend where that is not installed, and keeps to its rules, so that a repository that
works here works there: names of inputs and outputs, kinds of return value, `parameters`.
"""

from __future__ import annotations

import importlib
import re
import sys
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import torch
from torch.utils.dlpack import from_dlpack

from .backend import Backend, TritonTensor
from .dlpack import DLPackExport
from .spec import ModelError, ModelSpec, TensorSpec

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
"""Element types by torch's name. TYPE_STRING has no torch counterpart."""

ONLY_HERE = frozenset({"UINT16", "UINT32", "UINT64", "BF16"})
"""Types torch has but the libtorch backend refuses."""


class TorchScriptRunner:
    """A TorchScript module on one device."""

    def __init__(self, spec: ModelSpec) -> None:
        self.spec = spec
        self.device = _device(spec)
        threads = spec.positive_int("INTRA_OP_THREAD_COUNT")
        if threads is not None:
            torch.set_num_threads(threads)
        self.optimized = not spec.flag("DISABLE_OPTIMIZED_EXECUTION")
        self.module = _load(spec.artifact, self.device)
        self.inputs = ordered_inputs(spec.inputs, _argument_names(self.module))

    def forward(self, inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Run the module on the device, without autograd."""
        arguments = [inputs[name].to(self.device) if name in inputs else None for name in self.inputs]
        with torch.inference_mode(), nullcontext() if self.optimized else torch.jit.optimized_execution(False):  # type: ignore[attr-defined]
            returned = self.module(*arguments)
        return named_outputs(self.spec.outputs, returned)

    def concatenate(self, arrays: Sequence[torch.Tensor]) -> torch.Tensor:
        """Join along axis 0."""
        return torch.cat(list(arrays))

    def data_type(self, array: torch.Tensor) -> str:
        """Triton's name of the element type; torch's own where Triton has none."""
        return TRITON_TYPES.get(array.dtype, str(array.dtype))


class TorchScriptBackend(Backend[torch.Tensor]):
    """TorchScript through torch.jit."""

    default_filename = "model.pt"
    data_types = frozenset(TORCH_TYPES)

    def load(self, spec: ModelSpec) -> TorchScriptRunner:
        """Load a TorchScript archive (not a state dict, not a pickled module)."""
        for tensor in (*spec.inputs, *spec.outputs):
            if tensor.data_type in ONLY_HERE:
                print(
                    f"{spec}: TYPE_{tensor.data_type} of '{tensor.name}' is refused by Triton's libtorch backend",
                    file=sys.stderr,
                )
        return TorchScriptRunner(spec)

    def from_dlpack(self, tensor: TritonTensor) -> torch.Tensor:
        """A view of Triton's shared memory."""
        return from_dlpack(tensor)

    def export(self, array: torch.Tensor, data_type: str) -> DLPackExport:
        """Any device and order to main memory and C order."""
        array = array.cpu().contiguous()
        return DLPackExport(array, array.data_ptr(), array.shape, data_type)


def ordered_inputs(inputs: Sequence[TensorSpec], arguments: Sequence[str]) -> list[str]:
    """Names of the inputs in the order of forward's arguments, by the libtorch backend's three rules.

    Names that are forward's argument names go where those are; numbered names (`input__0`) go by number;
    anything else in the order of the configuration.
    """
    names = [tensor.name for tensor in inputs]
    if set(names) <= set(arguments):
        return sorted(names, key=list(arguments).index)
    indices = [tensor.index for tensor in inputs]
    if None not in indices:
        return [name for _, name in sorted(zip(indices, names, strict=True))]
    return names


def named_outputs(outputs: Sequence[TensorSpec], returned: object) -> dict[str, torch.Tensor]:
    """What the module returned, by the configuration's names: `output__1` is element 1, else by position."""
    values = returned if isinstance(returned, tuple) else (returned,)
    if not all(isinstance(value, torch.Tensor) for value in values):
        kinds = ", ".join(type(value).__name__ for value in values)
        raise ModelError(
            f"forward returned {kinds}; allowed: a Tensor or a tuple of Tensors (as in Triton's libtorch backend)"
        )
    numbered = all(tensor.index is not None for tensor in outputs)
    named: dict[str, torch.Tensor] = {}
    for position, tensor in enumerate(outputs):
        index = tensor.index if numbered and tensor.index is not None else position
        if index >= len(values):
            raise ModelError(f"output '{tensor.name}' is element {index}, but forward returned {len(values)} tensor(s)")
        named[tensor.name] = values[index]
    return named


def _load(artifact: Path, device: torch.device) -> torch.jit.ScriptModule:
    """Load as the libtorch backend does: in inference mode, and without `eval()`, which tracing should have called."""
    # torch points to torch.export; what is served here is TorchScript.
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"torch\.jit\..*")
    try:
        with torch.inference_mode():
            return _jit_load(str(artifact), map_location=device)
    except RuntimeError as error:
        reason = re.split(r"\.\s", str(error).strip())[0]
        raise ModelError(f"not TorchScript as torch.jit.save writes it: {reason}") from error


def _jit_load(artifact: str, map_location: torch.device) -> torch.jit.ScriptModule:
    try:
        module: torch.jit.ScriptModule = torch.jit.load(artifact, map_location)  # type: ignore[no-untyped-call]
    except RuntimeError as error:
        if "torchvision::" not in str(error):
            raise
        # The libtorch backend is linked with torchvision's operators; here the import registers them.
        importlib.import_module("torchvision")
        module = torch.jit.load(artifact, map_location)  # type: ignore[no-untyped-call]
    return module


def _argument_names(module: torch.jit.ScriptModule) -> list[str]:
    _self, *arguments = module.forward.schema.arguments  # type: ignore[attr-defined]
    return [argument.name for argument in arguments]


def _device(spec: ModelSpec) -> torch.device:
    if spec.kind == "GPU" and torch.cuda.is_available():
        return torch.device("cuda", spec.device_id)
    return torch.device("cpu")
