"""The interface between Triton and a Python-based backend, independent of the framework."""

from __future__ import annotations

import os
import re
import sys
import traceback
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic, Protocol

# Available only in Triton's process for a model (the "stub").
import triton_python_backend_utils as pb_utils

from .batching import ArrayT, Batcher, Runner
from .dlpack import DLPackExport
from .spec import ModelError, ModelSpec, TensorSpec

TYPE_IN_FRONT = re.compile(r"\w+(Error|Exception): ")


class TritonTensor(Protocol):
    """The part of `pb_utils.Tensor` that this module uses."""

    def name(self) -> str: ...
    def __dlpack__(self, *, stream: None = None) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...


class TritonRequest(Protocol):
    """The part of `pb_utils.InferenceRequest` that this module uses."""

    def inputs(self) -> Sequence[TritonTensor]: ...
    def requested_output_names(self) -> set[str]: ...


class Backend(ABC, Generic[ArrayT]):
    """Implements `TritonPythonModel`. Triton starts one process for each instance of each model version.

    Tensors are exchanged with Triton as DLPack capsules. DLPack supports every fixed-size type and, unlike `as_numpy`
    and `pb_utils.Tensor(name, array)` of this server version, works with numpy 2.
    """

    default_filename: ClassVar[str]
    """File to load from the version directory if the configuration names none."""
    data_types: ClassVar[frozenset[str]]
    """Data types that the framework supports, by Triton's names without `TYPE_`."""

    @abstractmethod
    def load(self, spec: ModelSpec) -> Runner[ArrayT]:
        """Load `spec.artifact`. May raise any exception; the error for Triton will name the model and the file."""

    @abstractmethod
    def from_dlpack(self, tensor: TritonTensor) -> ArrayT:
        """Return a view of a Triton tensor."""

    @abstractmethod
    def export(self, array: ArrayT, data_type: str) -> DLPackExport:
        """Convert an array to the form that Triton accepts."""

    def initialize(self, args: Mapping[str, str]) -> None:
        """Called once. An exception fails the load of this version; Triton reports its text as the reason."""
        self.spec = ModelSpec.from_args(args, self.default_filename)
        try:
            for field in self.spec.missing:
                raise ModelError(
                    f"the local backends do not support {field}, because Triton passes it only to C++ backends"
                )
            for tensor in (*self.spec.inputs, *self.spec.outputs):
                self._check_type(tensor)
            if not self.spec.artifact.is_file():
                raise ModelError(f"the file does not exist; the version folder contains {self._siblings()}")
            self._batcher = Batcher(self.spec, self.load(self.spec))
        except Exception as error:
            pb_utils.Logger.log_error(traceback.format_exc())
            raise pb_utils.TritonModelException(
                f"{self.spec}: cannot load {self.spec.artifact}: {_summary(error)}"
            ) from None

    def execute(self, requests: Sequence[TritonRequest]) -> list[object]:
        """Called with the requests that the dynamic batcher joined; returns one response for each, in order."""
        inputs = [{tensor.name(): self.from_dlpack(tensor) for tensor in request.inputs()} for request in requests]
        return [
            self._response(request, result) for request, result in zip(requests, self._batcher.run(inputs), strict=True)
        ]

    def finalize(self) -> None:
        """Called on unload. Exits without the interpreter's tear-down.

        With torch the tear-down takes half a second per model, and there is no state to save.
        """
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)

    def _response(self, request: TritonRequest, result: dict[str, ArrayT] | Exception) -> object:
        if isinstance(result, Exception):
            message = str(result) if isinstance(result, ModelError) else f"{type(result).__name__}: {result}"
            pb_utils.Logger.log_error(f"{self.spec}: {message}")
            return pb_utils.InferenceResponse(output_tensors=[], error=pb_utils.TritonError(message))
        requested = request.requested_output_names()
        return pb_utils.InferenceResponse(
            output_tensors=[
                pb_utils.Tensor.from_dlpack(tensor.name, self.export(result[tensor.name], tensor.data_type))
                for tensor in self.spec.outputs
                if tensor.name in requested
            ]
        )

    def _check_type(self, tensor: TensorSpec) -> None:
        if tensor.data_type not in self.data_types:
            allowed = ", ".join(f"TYPE_{name}" for name in sorted(self.data_types))
            raise ModelError(
                f"this backend does not support TYPE_{tensor.data_type} of tensor '{tensor.name}'; allowed: {allowed}"
            )

    def _siblings(self) -> str:
        folder = self.spec.artifact.parent
        return ", ".join(sorted(entry.name for entry in folder.iterdir())) if folder.is_dir() else "no files"


def _summary(error: Exception) -> str:
    """Shorten an error to one line. TorchScript errors begin with a trace; their last line has the type and reason."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[-1].removeprefix("builtins.") if lines else "no message"
    return text if isinstance(error, ModelError) or TYPE_IN_FRONT.match(text) else f"{type(error).__name__}: {text}"
