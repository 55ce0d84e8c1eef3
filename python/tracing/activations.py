"""Measures how much memory the activations of a network take."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

if TYPE_CHECKING:
    from tracing.check import Tensors


def measured(call: Callable[[Tensors], Tensors], inputs: Sequence[Tensors]) -> tuple[list[Tensors], int]:
    """Return the outputs of `call` for each set of inputs, and the peak bytes of tensors during one call.

    Tensors that existed before the call, such as weights, are not counted.
    """
    outputs: list[Tensors] = []
    peak = 0
    for case in inputs:
        with LiveTensors() as live:
            outputs.append(call(case))
        peak = max(peak, live.peak)
    return outputs, peak


class LiveTensors(TorchDispatchMode):
    """Context manager that counts the bytes of live tensors which operators create inside the context.

    Only memory that PyTorch allocates for tensors is counted, not workspaces of kernels, so the same network and
    inputs give the same number on every machine.
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Keep PyTorch from importing its compiler for the first mode of a process, which takes 2 to 3 s."""
        return False

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.peak = 0
        """Peak of the live tensors, in bytes."""
        self._live: dict[int, int] = {}
        self._bytes = 0

    def __torch_dispatch__(
        self, func: Any, _types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = {_storage_key(leaf) for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)}
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            # Views and in-place results share the storage of an argument.
            if isinstance(leaf, Tensor) and _storage_key(leaf) not in given:
                self._add(leaf)
        return result

    def _add(self, tensor: Tensor) -> None:
        key = _storage_key(tensor)
        if key is None or key in self._live:
            return
        storage = tensor.untyped_storage()
        self._live[key] = storage.nbytes()
        self._bytes += storage.nbytes()
        self.peak = max(self.peak, self._bytes)
        weakref.finalize(storage, self._freed, key)

    def _freed(self, key: int) -> None:
        self._bytes -= self._live.pop(key, 0)


def _storage_key(tensor: Tensor) -> int | None:
    """Return None for a tensor without storage, such as a sparse tensor."""
    try:
        return int(tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):
        return None
