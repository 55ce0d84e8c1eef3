"""The interface between Triton and a Python-based backend, independent of the framework."""

from __future__ import annotations

import os
import re
import sys
import traceback
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, ClassVar, Protocol

import numpy as np

# Available only in Triton's process for a model (the "stub").
import triton_python_backend_utils as pb_utils
from numpy.typing import NDArray

from .dlpack import DLPackExport
from .spec import ModelError, ModelSpec

TYPE_IN_FRONT = re.compile(r"\w+(Error|Exception): ")

Array = NDArray[Any]

TRITON_TYPES = {
    **{f"{sign}int{bits}": f"{sign}int{bits}".upper() for sign in ("", "u") for bits in (8, 16, 32, 64)},
    **{f"float{bits}": f"FP{bits}" for bits in (16, 32, 64)},
    "bool": "BOOL",
}
"""numpy's element type -> Triton's. BF16 is missing because numpy lacks it, STRING because DLPack lacks it."""

PYTORCH_TYPES = tuple(name for name in TRITON_TYPES.values() if name not in ("UINT16", "UINT32", "UINT64"))
"""Types of NVIDIA's backends for PyTorch."""


class TritonTensor(Protocol):
    """The part of `pb_utils.Tensor` that this module uses."""

    def name(self) -> str: ...
    def __dlpack__(self, *, stream: None = None) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...


class TritonRequest(Protocol):
    """The part of `pb_utils.InferenceRequest` that this module uses."""

    def inputs(self) -> Sequence[TritonTensor]: ...
    def requested_output_names(self) -> set[str]: ...


class Backend(ABC):
    """Implements `TritonPythonModel`. Triton starts one process for each instance of each model version.

    Tensors are exchanged with Triton as DLPack capsules. DLPack supports every fixed-size type and, unlike `as_numpy`
    and `pb_utils.Tensor(name, array)` of this server version, works with numpy 2.
    """

    default_filename: ClassVar[str]
    """File to load from the version directory if the configuration names none."""
    data_types: ClassVar[Sequence[str]]
    """Data types that the framework supports, by Triton's names without `TYPE_`."""

    spec: ModelSpec

    @abstractmethod
    def load(self) -> None:
        """Load `self.spec.artifact`. May raise any exception; the error for Triton names the model and the file."""

    @abstractmethod
    def forward(self, inputs: dict[str, Array]) -> dict[str, Array]:
        """Run the model once; returns output name -> array for every output of the configuration.

        Inputs are views of Triton's memory.
        """

    def initialize(self, args: Mapping[str, str]) -> None:
        """Called once. An exception fails the load of this version; Triton reports its text as the reason."""
        self.spec = ModelSpec.from_args(args, self.default_filename)
        try:
            self._check_configuration()
            self.load()
        except Exception as error:
            pb_utils.Logger.log_error(traceback.format_exc())
            raise pb_utils.TritonModelException(
                f"{self.spec}: cannot load {self.spec.artifact}: {_summary(error)}"
            ) from None

    def execute(self, requests: Sequence[TritonRequest]) -> list[object]:
        """Called with the requests that the dynamic batcher joined; returns one response for each, in order."""
        inputs = [{tensor.name(): np.from_dlpack(tensor) for tensor in request.inputs()} for request in requests]
        # With a batch axis all requests share one call and its error, as in Triton's own backends. Triton joins only
        # requests whose tensors agree in everything but the batch size.
        groups = [inputs] if self.spec.batched else [[one] for one in inputs]
        results = [result for group in groups for result in self._run(group)]
        return [self._response(request, result) for request, result in zip(requests, results, strict=True)]

    def finalize(self) -> None:
        """Called on unload. Exits without the interpreter's tear-down.

        With torch the tear-down takes half a second per model, and there is no state to save.
        """
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)

    def _run(self, group: list[dict[str, Array]]) -> Sequence[dict[str, Array] | Exception]:
        """Run one call of the model. Return outputs, or the exception why there are none, for each request."""
        try:
            joined = group[0]
            if len(group) > 1:
                joined = {name: np.concatenate([request[name] for request in group]) for name in joined}
            batch = next(iter(joined.values())).shape[0] if self.spec.batched else None
            outputs = self.forward(joined)
            self._check_outputs(outputs, batch)
        except Exception as error:
            return [error] * len(group)
        if len(group) == 1:
            return [outputs]
        ends = list(accumulate(next(iter(request.values())).shape[0] for request in group))
        return [
            {name: array[start:end] for name, array in outputs.items()}
            for start, end in zip([0, *ends], ends, strict=False)
        ]

    def _response(self, request: TritonRequest, result: dict[str, Array] | Exception) -> object:
        if isinstance(result, Exception):
            message = str(result) if isinstance(result, ModelError) else f"{type(result).__name__}: {result}"
            pb_utils.Logger.log_error(f"{self.spec}: {message}")
            return pb_utils.InferenceResponse(output_tensors=[], error=pb_utils.TritonError(message))
        requested = request.requested_output_names()
        return pb_utils.InferenceResponse(
            output_tensors=[
                pb_utils.Tensor.from_dlpack(tensor.name, DLPackExport(result[tensor.name]))
                for tensor in self.spec.outputs
                if tensor.name in requested
            ]
        )

    def _check_configuration(self) -> None:
        for tensor in (*self.spec.inputs, *self.spec.outputs):
            if tensor.data_type not in self.data_types:
                allowed = ", ".join(f"TYPE_{name}" for name in self.data_types)
                raise ModelError(
                    f"this backend does not support TYPE_{tensor.data_type} of '{tensor.name}'; allowed: {allowed}"
                )
        if not self.spec.artifact.is_file():
            folder = self.spec.artifact.parent
            found = ", ".join(sorted(entry.name for entry in folder.iterdir())) if folder.is_dir() else "no files"
            raise ModelError(f"the file does not exist; the version folder contains {found}")

    def _check_outputs(self, outputs: dict[str, Array], batch: int | None) -> None:
        """Raise ModelError if an output differs from the configuration in data type or shape."""
        for tensor in self.spec.outputs:
            array = outputs[tensor.name]
            data_type = TRITON_TYPES.get(array.dtype.name, array.dtype.name)
            if data_type != tensor.data_type:
                raise ModelError(
                    f"configuration expects datatype TYPE_{tensor.data_type} for output '{tensor.name}',"
                    f" model provides TYPE_{data_type}"
                )
            got = tuple(array.shape)
            expected = tensor.dims if batch is None else (batch, *tensor.dims)
            if len(got) != len(expected) or any(e not in (-1, g) for g, e in zip(got, expected, strict=True)):
                axes = "dims" if batch is None else f"batch of {batch} and dims"
                raise ModelError(
                    f"output '{tensor.name}' has shape {list(got)}, expected {list(expected)}"
                    f" ({axes} {list(tensor.dims)} in the configuration)"
                )


def _summary(error: Exception) -> str:
    """Shorten an error to one line. TorchScript errors begin with a trace; their last line has the type and reason."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[-1].removeprefix("builtins.") if lines else "no message"
    return text if isinstance(error, ModelError) or TYPE_IN_FRONT.match(text) else f"{type(error).__name__}: {text}"
