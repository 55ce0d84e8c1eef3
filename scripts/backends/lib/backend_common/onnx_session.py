"""Serve ONNX models (`platform: "onnxruntime_onnx"`) from Triton's python backend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from .backend import Backend, TritonTensor
from .dlpack import DLPackExport
from .spec import ModelError, ModelSpec, TensorSpec

Array = NDArray[Any]

ONNX_TYPES = {
    "tensor(bool)": "BOOL",
    "tensor(uint8)": "UINT8",
    "tensor(uint16)": "UINT16",
    "tensor(uint32)": "UINT32",
    "tensor(uint64)": "UINT64",
    "tensor(int8)": "INT8",
    "tensor(int16)": "INT16",
    "tensor(int32)": "INT32",
    "tensor(int64)": "INT64",
    "tensor(float16)": "FP16",
    "tensor(float)": "FP32",
    "tensor(double)": "FP64",
}
"""onnxruntime's element types in Triton's names. No BF16, which numpy lacks, and no STRING, which DLPack lacks."""

NUMPY_TYPES = {
    np.dtype(name): triton
    for name, triton in {
        "bool": "BOOL",
        "uint8": "UINT8",
        "uint16": "UINT16",
        "uint32": "UINT32",
        "uint64": "UINT64",
        "int8": "INT8",
        "int16": "INT16",
        "int32": "INT32",
        "int64": "INT64",
        "float16": "FP16",
        "float32": "FP32",
        "float64": "FP64",
    }.items()
}


class OnnxRunner:
    """One onnxruntime session."""

    def __init__(self, spec: ModelSpec) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = spec.positive_int("intra_op_thread_count") or 0
        # Several model processes share the cores: an idle one must not spin.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self.session = onnxruntime.InferenceSession(spec.artifact, options, providers=_providers(spec))
        _check_tensors("input", spec, spec.inputs, self.session.get_inputs())
        _check_tensors("output", spec, spec.outputs, self.session.get_outputs())
        self.outputs = [tensor.name for tensor in spec.outputs]

    def forward(self, inputs: dict[str, Array]) -> dict[str, Array]:
        """Run the session."""
        return dict(zip(self.outputs, self.session.run(self.outputs, inputs), strict=True))

    def concatenate(self, arrays: Sequence[Array]) -> Array:
        """Join along axis 0."""
        return np.concatenate(arrays)

    def data_type(self, array: Array) -> str:
        """Triton's name of the element type; numpy's own where Triton has none."""
        return NUMPY_TYPES.get(array.dtype, str(array.dtype))


class OnnxBackend(Backend[Array]):
    """ONNX through onnxruntime."""

    default_filename = "model.onnx"
    data_types = frozenset(ONNX_TYPES.values())

    def load(self, spec: ModelSpec) -> OnnxRunner:
        """Load an ONNX file, with its external data beside it if it has any."""
        return OnnxRunner(spec)

    def from_dlpack(self, tensor: TritonTensor) -> Array:
        """A read-only view of Triton's shared memory."""
        return np.from_dlpack(tensor)

    def export(self, array: Array, data_type: str) -> DLPackExport:
        """Any order to C order."""
        array = np.ascontiguousarray(array)
        return DLPackExport(array, array.ctypes.data, array.shape, data_type)


def _providers(spec: ModelSpec) -> list[Any]:
    if spec.kind == "GPU" and "CUDAExecutionProvider" in onnxruntime.get_available_providers():
        return [("CUDAExecutionProvider", {"device_id": spec.device_id}), "CPUExecutionProvider"]
    return ["CPUExecutionProvider"]


def _check_tensors(kind: str, spec: ModelSpec, configured: Sequence[TensorSpec], present: Sequence[Any]) -> None:
    """The configuration's inputs (or outputs) must be the file's: name, element type, and shape where both fix it."""
    by_name = {argument.name: argument for argument in present}
    for tensor in configured:
        argument = by_name.get(tensor.name)
        if argument is None:
            raise ModelError(f"the file has no {kind} '{tensor.name}'; it has: {', '.join(by_name)}")
        data_type = ONNX_TYPES.get(argument.type, argument.type)
        if data_type != tensor.data_type:
            raise ModelError(
                f"{kind} '{tensor.name}' is {data_type} in the file, {tensor.data_type} in the configuration"
            )
        expected = (-1, *tensor.dims) if spec.batched else tensor.dims
        got = tuple(length if isinstance(length, int) else -1 for length in argument.shape)
        if len(got) != len(expected) or any(-1 not in (g, e) and g != e for g, e in zip(got, expected, strict=True)):
            raise ModelError(
                f"{kind} '{tensor.name}' has shape {list(argument.shape)} in the file,"
                f" {list(expected)} with the configuration's max_batch_size {spec.max_batch_size}"
            )
