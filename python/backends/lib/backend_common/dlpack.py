"""Exports arrays to Triton as DLPack capsules.

The exporters of torch and numpy do not work with Triton 2.51, for two reasons. Triton renames a consumed capsule to
`used_dlpack`, where DLPack requires `used_dltensor`, which crashes numpy before 2.1. It also rejects the strides that
torch and numpy 2 set for empty tensors. Capsules without strides, which DLPack defines as C order, work for every
shape.

Layout of the structures: DLPack 0.8, dlpack.h, `DLTensor` and `DLManagedTensor`.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

CPU_DEVICE = (1, 0)
"""`kDLCPU` and the device id."""

TYPE_CODES = {"i": 0, "u": 1, "f": 2, "b": 6}
"""Kind of a NumPy type -> `DLDataTypeCode`."""


class DLPackExport:
    """An array, copied to C order if needed, for `pb_utils.Tensor.from_dlpack`. It lives until Triton has copied it."""

    def __init__(self, array: NDArray[Any]) -> None:
        # Not ascontiguousarray, which gives a scalar an axis.
        self._array = np.asarray(array, order="C")

    def __dlpack__(self, *, stream: None = None) -> object:
        shape = (ctypes.c_int64 * self._array.ndim)(*self._array.shape)
        code, bits = TYPE_CODES[self._array.dtype.kind], 8 * self._array.dtype.itemsize
        tensor = _DLTensor(self._array.ctypes.data, *CPU_DEVICE, self._array.ndim, code, bits, 1, shape, None, 0)
        managed = _DLManagedTensor(tensor, None, _release)
        address = ctypes.addressof(managed)
        _in_use[address] = (managed, shape, self._array)
        return _new_capsule(address, _CAPSULE_NAME, None)

    def __dlpack_device__(self) -> tuple[int, int]:
        return CPU_DEVICE


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _DLManagedTensor(ctypes.Structure):
    _fields_ = (("dl_tensor", _DLTensor), ("manager_ctx", ctypes.c_void_p), ("deleter", _Deleter))


_in_use: dict[int, tuple[object, ...]] = {}
"""Address of a DLManagedTensor -> the objects to keep alive until Triton releases it."""


def _forget(address: int) -> None:
    _in_use.pop(address, None)


_release = _Deleter(_forget)


_CAPSULE_NAME = ctypes.c_char_p(b"dltensor")
_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
