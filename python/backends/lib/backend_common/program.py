"""Serve programs of PyTorch 2 (`platform: "torch_aoti"`) from Triton's python backend, on the CPU.

Triton's own backend takes a program only after AOTInductor has compiled it. This one also runs a program as
`torch.export.save` wrote it.
"""

from __future__ import annotations

import logging
import os
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import torch
from torch.utils import _pytree as pytree

from .backend import PYTORCH_TYPES, Array, Backend
from .spec import ModelError, TensorSpec

COMPILED = re.compile(r"[^/]+/data/aotinductor/")
EXPORTED = re.compile(r"[^/]+/models/[^/]+\.json")
# torch.export recommends the Python package triton, a compiler, in the log.
logging.getLogger("torch.utils.flop_counter").setLevel(logging.ERROR)


class ProgramBackend(Backend):
    """Serves exported programs, and programs that were compiled for this CPU."""

    default_filename = "model.pt2"
    data_types = PYTORCH_TYPES

    def load(self) -> None:
        """Load the archive, and match its tensors with the configuration."""
        # numpy marks views of Triton's memory as read-only.
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        self._program, self._takes, gives = _load(self.spec.artifact)
        self._inputs = _matched("input", self.spec.inputs, [*_names(self._takes, "ARGS", "KWARGS")])
        self._gives = [*_names(gives, "RESULT")]
        self._outputs = _matched("output", self.spec.outputs, self._gives)
        if {*self._inputs.values()} != {*range(self._takes.num_leaves)}:
            raise ModelError(
                f"the program takes {self._takes.num_leaves} tensors, but the configuration has {len(self._inputs)} "
                "inputs"
            )

    def finalize(self) -> None:
        """Called on unload. The end of a compiled program removes the files that it extracted."""
        del self._program
        super().finalize()

    def forward(self, inputs: dict[str, Array]) -> dict[str, Array]:
        """Run the program without autograd."""
        if hasattr(self._program, "loader") and not all(array.size for array in inputs.values()):
            raise ModelError("compiled code takes no empty tensors")
        leaves = {position: torch.from_numpy(inputs[name]) for name, position in self._inputs.items()}
        arguments, named = pytree.tree_unflatten([leaves[position] for position in sorted(leaves)], self._takes)
        try:
            with torch.inference_mode():
                values, spec = pytree.tree_flatten(self._program(*arguments, **named))
        except Exception as error:
            raise ModelError(f"PyTorch execute failure: {error}") from error
        # By name, because the keys of a dict may be in another order than in the archive.
        results = dict(zip(_names(spec, "RESULT"), values, strict=True))
        return {name: results[self._gives[position]].numpy() for name, position in self._outputs.items()}


def _load(artifact: Path) -> tuple[Callable[..., Any], pytree.TreeSpec, pytree.TreeSpec]:
    """Return the program, and the structures of its arguments and results."""
    try:
        with ZipFile(artifact) as archive:
            files = archive.namelist()
    except BadZipFile as error:
        raise ModelError("the file is no archive of torch.export; write it with torch.export.save") from error
    if any(COMPILED.match(file) for file in files):
        # Compiled code does not check types and sizes otherwise, and reads beyond a tensor that is too small.
        os.environ["AOTI_RUNTIME_CHECK_INPUTS"] = "1"
        compiled = torch._inductor.aoti_load_package(str(artifact))
        takes, gives = map(pytree.treespec_loads, compiled.loader.get_call_spec())
        return compiled, takes, gives
    if not any(EXPORTED.match(file) for file in files):
        raise ModelError("the file has no program of torch.export; write it with torch.export.save")
    program = torch.export.load(artifact)
    return program.module(), program.call_spec.in_spec, program.call_spec.out_spec


def _names(spec: pytree.TreeSpec, *prefixes: str) -> Iterator[str]:
    """Return Triton's names of the tensors in a structure: ARGS[0], KWARGS[mask], RESULT, RESULT[1]."""
    children = spec.children()
    if len(prefixes) > 1:  # arguments by position, and by name
        for prefix, child in zip(prefixes, children, strict=True):
            yield from _names(child, prefix)
    elif spec.is_leaf():
        yield prefixes[0]
    else:
        keys = spec.context if spec.type is dict else range(len(children))
        for key, child in zip(keys, children, strict=True):
            yield from _names(child, f"{prefixes[0]}[{key}]")


def _matched(kind: str, tensors: Sequence[TensorSpec], names: Sequence[str]) -> dict[str, int]:
    """Return the position of each tensor of the configuration, which has Triton's name of it or its number."""
    known = {name: position for position, name in enumerate(names)}
    known |= {f"{kind.upper()}__{position}": position for position in range(len(names))}
    unknown = [tensor.name for tensor in tensors if tensor.name not in known]
    if unknown:
        raise ModelError(f"the program has no {kind} '{unknown[0]}'; it has {', '.join(known)}")
    return {tensor.name: known[tensor.name] for tensor in tensors}
