"""Serve ONNX models (`platform: "onnxruntime_onnx"`) from Triton's python backend, on the CPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnxruntime

from .backend import TRITON_TYPES, Array, Backend
from .spec import ModelError, TensorSpec

ONNX_TYPES = {
    f"tensor({ {'float32': 'float', 'float64': 'double'}.get(name, name) })": triton
    for name, triton in TRITON_TYPES.items()
}
"""onnxruntime's element type -> Triton's."""


class OnnxBackend(Backend):
    """ONNX through onnxruntime."""

    default_filename = "model.onnx"
    data_types = tuple(TRITON_TYPES.values())

    def load(self) -> None:
        """Load an ONNX file, including external data beside the file."""
        options = onnxruntime.SessionOptions()
        # Several model processes share the cores, so idle threads must not spin.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self._session = onnxruntime.InferenceSession(self.spec.artifact, options, providers=["CPUExecutionProvider"])
        # Optional inputs of the configuration are initializers of the file.
        given = [*self._session.get_inputs(), *self._session.get_overridable_initializers()]
        inputs = {argument.name: argument for argument in given}
        outputs = {argument.name: argument for argument in self._session.get_outputs()}
        _check("input", self.spec.inputs, inputs)
        _check("output", self.spec.outputs, outputs)
        self._scalars = {name for name, argument in (inputs | outputs).items() if argument.shape == []}

    def forward(self, inputs: dict[str, Array]) -> dict[str, Array]:
        """Run the session. Scalars of the file are tensors of shape [1] or [1, 1] in the configuration."""
        feeds = {name: array.reshape(()) if name in self._scalars else array for name, array in inputs.items()}
        try:
            results = self._session.run([tensor.name for tensor in self.spec.outputs], feeds)
        except Exception as error:
            raise ModelError(f"ONNX Runtime failed: {error}") from error
        return {
            tensor.name: result.reshape(tensor.dims) if tensor.name in self._scalars else result
            for tensor, result in zip(self.spec.outputs, results, strict=True)
        }


def _check(kind: str, configured: Sequence[TensorSpec], present: Mapping[str, Any]) -> None:
    """Raise ModelError if the file lacks a tensor of the configuration, or has it with another type.

    ONNX Runtime itself refuses requests with other shapes, or without an input.
    """
    for tensor in configured:
        if tensor.name not in present:
            raise ModelError(f"the file has no {kind} '{tensor.name}'; it has {', '.join(sorted(present)) or 'none'}")
        data_type = ONNX_TYPES.get(present[tensor.name].type, present[tensor.name].type)
        if data_type != tensor.data_type:
            raise ModelError(f"{kind} '{tensor.name}' is {data_type}, but TYPE_{tensor.data_type} in the configuration")
