"""Serve TorchScript models (`platform: "pytorch_libtorch"`) from Triton's python backend, on the CPU.

Matches tensors with arguments and results by the rules of Triton's libtorch backend, so that a model has the same
answers with either.
"""

from __future__ import annotations

import importlib
import re
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import torch

from .backend import PYTORCH_TYPES, Array, Backend
from .spec import ModelError, ModelSpec, TensorSpec, index_of


class TorchScriptBackend(Backend):
    """Serves TorchScript with torch.jit."""

    default_filename = "model.pt"
    data_types = PYTORCH_TYPES

    def load(self) -> None:
        """Load a TorchScript archive (not a state dict, not a pickled module)."""
        self._module = _load(self.spec.artifact)
        self._inputs = ordered_inputs(self.spec, _arguments(self.spec, self._module))

    def forward(self, inputs: dict[str, Array]) -> dict[str, Array]:
        """Run the module without autograd."""
        arguments = [torch.from_numpy(inputs[name]) for name in self._inputs]
        # Without optimization, TorchScript compiles nothing for the shapes of the first requests.
        optimized = nullcontext() if self.spec.is_optimized else torch.jit.optimized_execution(False)  # type: ignore[attr-defined]
        try:
            with torch.inference_mode(), optimized:
                values = _returned_tensors(self._module(*arguments))
        except Exception as error:
            raise ModelError(f"PyTorch execute failure: {error}") from error
        return {name: value.numpy() for name, value in named_outputs(self.spec.outputs, values).items()}


def _arguments(spec: ModelSpec, module: torch.jit.ScriptModule) -> list[str]:
    """Return the names of forward's arguments.

    Raises ModelError if the configuration has another number of inputs, or if Triton cannot pass an argument.
    """
    _self, *arguments = module.forward.schema.arguments  # type: ignore[attr-defined]
    count = len(spec.inputs) + len(spec.controls)
    if len(arguments) != count or any(argument.type.kind() != "TensorType" for argument in arguments):
        takes = ", ".join(f"{argument.name}: {argument.type}" for argument in arguments)
        raise ModelError(f"forward() takes {takes}, but the configuration has {count} inputs, all of them tensors")
    return [argument.name for argument in arguments]


def ordered_inputs(spec: ModelSpec, arguments: Sequence[str]) -> list[str]:
    """Return the names of the inputs in the order of forward's arguments, by the rules of the libtorch backend.

    If all names are names of forward's arguments, they are matched by name. Otherwise, if all names are numbered
    (`input__0`), the number is the position. Otherwise the order is that of the configuration. Sequence controls are
    always matched by number.
    """
    names = [tensor.name for tensor in spec.inputs]
    positions: dict[str, int | None] = {name: index_of(name) for name in spec.controls}
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


def _returned_tensors(returned: object) -> tuple[torch.Tensor, ...]:
    """Return the output of the module, one tensor or a tuple of tensors, as a tuple."""
    values = returned if isinstance(returned, tuple) else (returned,)
    if not all(isinstance(value, torch.Tensor) for value in values):
        kinds = ", ".join(type(value).__name__ for value in values)
        raise TypeError(f"output must be of type Tensor or a tuple of tensors, but forward returned {kinds}")
    if any(value.ndim == 0 for value in values):
        raise TypeError("an output is a scalar, which the libtorch backend does not support")
    return values


def named_outputs(outputs: Sequence[TensorSpec], values: Sequence[torch.Tensor]) -> dict[str, torch.Tensor]:
    """Map names of the configuration to tensors: `output__1` is element 1; names without numbers go by position."""
    indices = [index_of(tensor.name) for tensor in outputs]
    named: dict[str, torch.Tensor] = {}
    for position, (tensor, index) in enumerate(zip(outputs, indices, strict=True)):
        at = position if index is None or None in indices else index
        if at >= len(values):
            raise ModelError(f"output '{tensor.name}' is element {at}, but forward returned {len(values)} tensors")
        named[tensor.name] = values[at]
    return named


def _load(artifact: Path) -> torch.jit.ScriptModule:
    """Load like the libtorch backend: in inference mode, without `eval()`, which tracing should have called."""
    # Hides torch's recommendation of torch.export: this backend serves TorchScript.
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"torch\.jit\..*")
    # numpy marks views of Triton's memory as read-only.
    warnings.filterwarnings("ignore", "The given NumPy array is not writable")
    try:
        with torch.inference_mode():
            return _jit_load(str(artifact))
    except RuntimeError as error:
        reason = re.split(r"\.\s", str(error).strip())[0]
        raise ModelError(f"the file is not TorchScript; write it with torch.jit.save: {reason}") from error


def _jit_load(artifact: str) -> torch.jit.ScriptModule:
    try:
        module: torch.jit.ScriptModule = torch.jit.load(artifact, "cpu")  # type: ignore[no-untyped-call]
    except RuntimeError as error:
        if "torchvision::" not in str(error):
            raise
        # The libtorch backend is linked with torchvision's operators; in Python, the import registers them.
        importlib.import_module("torchvision")
        module = torch.jit.load(artifact, "cpu")  # type: ignore[no-untyped-call]
    return module
