"""Golden requests of a trace: inputs with the answers of eager PyTorch, asked of servers after a load.

A version has `golden/VERSION/traced-N.json`, which names its tensors' files `traced-N.TENSOR.npy` beside it.
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

MOST_REQUESTS = 4
# Every server is asked them after each load, and a release keeps them.
MOST_BYTES = 8 << 20


def choose(inputs: Sequence[Tensors], outputs: Sequence[Tensors]) -> list[int]:
    """Indices of the cases to keep: the smallest ones of different shapes, at least one.

    Another shape tells more than other numbers do: a batch of 2 finds an axis that was frozen. Small ones are cheap.
    """
    sizes = [sum(tensor.nbytes for tensor in (*given, *gave)) for given, gave in zip(inputs, outputs, strict=True)]
    chosen: list[int] = []
    seen: set[tuple[torch.Size, ...]] = set()
    for case in sorted(range(len(inputs)), key=lambda case: sizes[case]):
        shapes = tuple(tensor.shape for tensor in inputs[case])
        total = sum(sizes[one] for one in chosen) + sizes[case]
        if shapes not in seen and len(chosen) < MOST_REQUESTS and (total <= MOST_BYTES or not chosen):
            chosen.append(case)
            seen.add(shapes)
    return chosen


def write(folder: Path, interface: Interface, cases: Sequence[tuple[Tensors, Tensors]], tolerance: float) -> list[Path]:
    """Writes each case, its inputs and its outputs, to `folder`; the files, those of tensors before their request."""
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
                    "tolerance": {"absolute": tolerance, "relative": 0},
                }
                for slot in interface.outputs
            ],
        }
        path = folder / f"{stem}.json"
        path.write_text(json.dumps(request, indent=2) + "\n", encoding="utf-8")
        written.append(path)
    return written


def _unused(folder: Path, stem: str) -> Path:
    """`stem`.npy, or with a number where two names of tensors are the same file's."""
    path, number = folder / f"{stem}.npy", 1
    while path.exists():
        number += 1
        path = folder / f"{stem}-{number}.npy"
    return path


def _array(tensor: Tensor) -> np.ndarray[Any, Any]:
    """In C order. NumPy has no bfloat16: float32 holds each of its values."""
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).contiguous().numpy()
