"""Golden requests of a trace: inputs with the answers of eager PyTorch, sent to servers after a load.

`golden/VERSION/traced-N.json` is one request; its tensors are in the files `traced-N.TENSOR.npy` beside it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tracing.check import Tensors
from tracing.interface import DATA_TYPES, Interface, Slot

# Limited, because every replica is sent the requests after each load and releases store them.
MOST_BYTES = 8 << 20


def representative(inputs: Sequence[Tensors], empty: Sequence[int] | None = None) -> list[int]:
    """Return the indices of the smallest case and, if possible, of one whose sizes differ most from it.

    The second case has another batch size and length, which reveals an axis that the trace froze. More requests would
    find little more, and TorchScript optimizes again for each new shape, which slows down each load of a replica.
    empty: number of outputs without elements of each case. Cases with the fewest are preferred, because of those
    outputs only the shapes are compared.
    """
    bytes_of = [sum(tensor.nbytes for tensor in case) for case in inputs]
    without = [0] * len(inputs) if empty is None else empty
    first = min(range(len(inputs)), key=lambda case: (without[case], bytes_of[case]))
    others = [
        case
        for case in range(len(inputs))
        if _differing_sizes(inputs[first], inputs[case]) > 0 and bytes_of[first] + bytes_of[case] <= MOST_BYTES // 2
    ]
    if not others:
        return [first]
    return [
        first,
        min(others, key=lambda case: (without[case], -_differing_sizes(inputs[first], inputs[case]), bytes_of[case])),
    ]


def choose(inputs: Sequence[Tensors], outputs: Sequence[Tensors]) -> list[int]:
    """Return the indices of the cases to keep: those of `representative`, or the first of them if both are too large.

    They are the same for the cases of a quick check, unless outputs of these have no elements.
    """
    empty = [sum(tensor.numel() == 0 for tensor in received) for received in outputs]
    found = representative(inputs, empty)
    total = sum(tensor.nbytes for case in found for tensor in (*inputs[case], *outputs[case]))
    return found if total <= MOST_BYTES else found[:1]


def _differing_sizes(one: Tensors, other: Tensors) -> int:
    return sum(a != b for x, y in zip(one, other, strict=True) for a, b in zip(x.shape, y.shape, strict=True))


def write(folder: Path, interface: Interface, cases: Sequence[tuple[Tensors, Tensors]], tolerance: float) -> list[Path]:
    """Write inputs and outputs of each case to `folder`. Returns the files; tensors come before their request."""
    written: list[Path] = []
    for number, (inputs, outputs) in enumerate(cases):
        stem = f"traced-{number}"

        def tensor(slot: Slot, value: Tensor, stem: str = stem) -> dict[str, Any]:
            path = _unused(folder, f"{stem}.{re.sub(r'[^A-Za-z0-9_.-]', '_', slot.name)}")
            shape = slot.request_shape(value.shape, interface.batch_axes)
            np.save(path, _array(value).reshape(shape), allow_pickle=False)
            written.append(path)
            data_type = DATA_TYPES[value.dtype].removeprefix("TYPE_")
            return {"name": slot.name, "datatype": data_type, "shape": shape, "file": path.name}

        request = {
            "description": "answers of eager PyTorch, stored by npm run trace",
            "inputs": [tensor(slot, inputs[slot.position]) for slot in interface.inputs],
            "outputs": [
                {
                    **tensor(slot, outputs[slot.position]),
                    # Booleans must be equal, as in the check of the trace.
                    "tolerance": {
                        "absolute": 0 if outputs[slot.position].dtype == torch.bool else tolerance,
                        "relative": 0,
                    },
                }
                for slot in interface.outputs
            ],
        }
        path = folder / f"{stem}.json"
        path.write_text(json.dumps(request, indent=2) + "\n", encoding="utf-8")
        written.append(path)
    return written


def _unused(folder: Path, stem: str) -> Path:
    """Return `stem`.npy, or a numbered name if another tensor already has that file name."""
    path, number = folder / f"{stem}.npy", 1
    while path.exists():
        number += 1
        path = folder / f"{stem}-{number}.npy"
    return path


def _array(tensor: Tensor) -> np.ndarray[Any, Any]:
    """Convert to a NumPy array in C order. bfloat16, which NumPy lacks, becomes float32, which holds all its values."""
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).contiguous().numpy()
