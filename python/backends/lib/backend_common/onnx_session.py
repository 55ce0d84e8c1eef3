"""Serve ONNX models (`platform: "onnxruntime_onnx"`) from Triton's python backend."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
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
"""onnxruntime's element type -> Triton's. BF16 is missing because numpy lacks it, STRING because DLPack lacks it."""

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


GRAPH_LEVELS = {
    -1: onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    1: onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    2: onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
}
"""`optimization.graph.level` -> optimizations. Other levels enable all optimizations."""

EXECUTION_MODES = {0: onnxruntime.ExecutionMode.ORT_SEQUENTIAL, 1: onnxruntime.ExecutionMode.ORT_PARALLEL}

ERROR_OF_THE_RUNTIME = re.compile(r"\[ONNXRuntimeError\] : (\d+) : \w+ : (.*)", re.DOTALL)


class OnnxRunner:
    """One onnxruntime session, with the checks of Triton's onnxruntime backend."""

    def __init__(self, spec: ModelSpec) -> None:
        self.session = onnxruntime.InferenceSession(spec.artifact, _options(spec), providers=_providers(spec))
        inputs = {argument.name: argument for argument in self.session.get_inputs()}
        _check_inputs(
            spec, inputs, {argument.name: argument for argument in self.session.get_overridable_initializers()}
        )
        outputs = {argument.name: argument for argument in self.session.get_outputs()}
        for tensor in spec.outputs:
            _check_tensor("output", spec, tensor, outputs, compare_exact=True)
        self.outputs = list(spec.outputs)
        self.scalars = {name for name, argument in (inputs | outputs).items() if argument.shape == []}

    def forward(self, inputs: dict[str, Array]) -> dict[str, Array]:
        """Run the session. Scalars of the file are tensors of shape [1] or [1, 1] in the configuration."""
        feeds = {name: array.reshape(()) if name in self.scalars else array for name, array in inputs.items()}
        try:
            results = self.session.run([tensor.name for tensor in self.outputs], feeds)
        except Exception as error:
            match = ERROR_OF_THE_RUNTIME.match(str(error))
            raise ModelError(f"onnx runtime error {match[1]}: {match[2]}" if match else str(error)) from error
        return {
            tensor.name: result.reshape(tensor.dims) if tensor.name in self.scalars else result
            for tensor, result in zip(self.outputs, results, strict=True)
        }

    def concatenate(self, arrays: Sequence[Array]) -> Array:
        """Join along axis 0."""
        return np.concatenate(arrays)

    def data_type(self, array: Array) -> str:
        """Return Triton's name of the element type, or numpy's name if Triton has none."""
        return NUMPY_TYPES.get(array.dtype, str(array.dtype))


class OnnxBackend(Backend[Array]):
    """ONNX through onnxruntime."""

    default_filename = "model.onnx"
    data_types = frozenset(ONNX_TYPES.values())

    def load(self, spec: ModelSpec) -> OnnxRunner:
        """Load an ONNX file, including external data beside the file."""
        return OnnxRunner(spec)

    def from_dlpack(self, tensor: TritonTensor) -> Array:
        """Return a read-only view of Triton's shared memory."""
        return np.from_dlpack(tensor)

    def export(self, array: Array, data_type: str) -> DLPackExport:
        """Export an array in any memory order as C order."""
        array = np.ascontiguousarray(array)
        return DLPackExport(array, array.ctypes.data, array.shape, data_type)


def _options(spec: ModelSpec) -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = max(0, spec.integer("intra_op_thread_count"))
    options.inter_op_num_threads = max(0, spec.integer("inter_op_thread_count"))
    mode = spec.integer("execution_mode")
    if mode not in EXECUTION_MODES:
        raise ModelError(f"Expected values for execution_mode are 0 or 1 but got {mode} .")
    options.execution_mode = EXECUTION_MODES[mode]
    options.graph_optimization_level = GRAPH_LEVELS.get(
        spec.graph_level, onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    )
    # Several model processes share the cores, so idle threads must not spin.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return options


def _providers(spec: ModelSpec) -> list[Any]:
    if spec.kind == "GPU" and "CUDAExecutionProvider" in onnxruntime.get_available_providers():
        return [("CUDAExecutionProvider", {"device_id": spec.device_id}), "CPUExecutionProvider"]
    return ["CPUExecutionProvider"]


def _check_inputs(spec: ModelSpec, required: Mapping[str, Any], initializers: Mapping[str, Any]) -> None:
    """Check that the configuration has every input of the file. Optional inputs are initializers of the file."""
    expected = len([tensor for tensor in spec.inputs if not tensor.optional]) + len(spec.controls)
    if expected != len(required):
        raise ModelError(f"configuration expects {expected} inputs, model provides {len(required)}: {_names(required)}")
    for tensor in spec.inputs:
        if tensor.optional and spec.batched:
            raise ModelError(f"optional input '{tensor.name}' is not supported for models that support batching")
        _check_tensor("input", spec, tensor, {**required, **initializers}, compare_exact=False)
    for name in spec.controls:
        if name not in required:
            raise ModelError(
                f"configuration specified sequence control '{name}', but model does not provide that input"
            )
        dims = _shape(required[name])[1 if spec.batched else 0 :]
        if dims != (1,):
            raise ModelError(f"sequence control '{name}' in model has dims {list(dims)} but dims [1] is expected")


def _check_tensor(
    kind: str, spec: ModelSpec, tensor: TensorSpec, present: Mapping[str, Any], compare_exact: bool
) -> None:
    argument = present.get(tensor.name)
    if argument is None:
        raise ModelError(f"unexpected inference {kind} '{tensor.name}', allowed {kind}s are: {_names(present)}")
    data_type = ONNX_TYPES.get(argument.type, argument.type)
    if data_type != tensor.data_type:
        raise ModelError(
            f"configuration expects datatype TYPE_{tensor.data_type} for {kind} '{tensor.name}',"
            f" model provides TYPE_{data_type}"
        )
    got = _shape(argument)
    if not got:
        if any(length != 1 for length in tensor.dims):
            raise ModelError(
                f"scalar tensor '{tensor.name}', should only provide 1 in the model configuration when the model"
                f" doesn't support batching. Model configuration provided: {list(tensor.dims)}."
            )
        return
    if spec.batched and got[0] != -1:
        raise ModelError(
            f"tensor '{tensor.name}': for the model to support batching the shape should have at least 1 dimension and"
            f" the first dimension must be -1; but shape expected by the model is {list(got)}"
        )
    expected = (-1, *tensor.dims) if spec.batched else tensor.dims
    # For inputs, a free length in the file accepts any length in the configuration. Outputs must be equal.
    if len(got) != len(expected) or any(
        g != e and (compare_exact or g != -1) for g, e in zip(got, expected, strict=True)
    ):
        raise ModelError(
            f"tensor '{tensor.name}': the model expects {len(got)} dimensions (shape {list(got)}) but the model"
            f" configuration specifies {len(expected)} dimensions (shape {list(expected)}, with max_batch_size"
            f" {spec.max_batch_size})"
        )


def _shape(argument: Any) -> tuple[int, ...]:
    """Return the shape in the file, with -1 for lengths that the file leaves free."""
    return tuple(length if isinstance(length, int) else -1 for length in argument.shape)


def _names(arguments: Mapping[str, Any]) -> str:
    return ", ".join(sorted(arguments))
