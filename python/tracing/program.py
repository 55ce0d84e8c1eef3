"""Exports a module as a program of torch.export (model.pt2), and compares its sizes with model.yaml.

Imported for programs only, because torch.export imports sympy, which takes seconds.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.export import Dim, ExportedProgram
from torch.fx import GraphModule
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.value_ranges import ValueRanges

from tracing.check import Tensors
from tracing.contract import Problems, TraceError
from tracing.interface import Interface, Signature, Slot, program_signature

# It recommends the Python package triton, a compiler, whenever torch.export runs.
logging.getLogger("torch.utils.flop_counter").setLevel(logging.ERROR)

SIZES = (
    "torch.export fixes a size that forward() uses as a number (a branch on it, int(...), a literal in reshape), and "
    "one that is 0 or 1 in the example. Use the sizes of the tensors, and an example of 2 or more"
)


def export_program(
    module: torch.nn.Module, example: Tensors, interface: Interface, max_batch_size: int, warn: Callable[[str], None]
) -> ExportedProgram:
    """Export `module` so that the batch axis and each -1 of model.yaml are free.

    Raises one TraceError for all axes that the program fixes. Other limits of the program are passed to `warn`: a
    server does not know them, because model.yaml has no field for them.
    """
    if "meta" in dict(module.named_children()):
        raise TraceError("the network has a submodule 'meta', a name that torch.export uses itself", "Rename it.")
    scripted = [name for name, part in module.named_modules() if isinstance(part, torch.jit.ScriptModule)]
    if scripted:
        raise TraceError(
            f"torch.export cannot export TorchScript: {scripted[0] or 'the module'} is scripted",
            "Script a function with torch.jit.script_if_tracing, or use platform: pytorch_libtorch.",
        )
    free = {slot.position: _free_axes(slot, interface.batch_axes, max_batch_size) for slot in interface.inputs}
    try:
        program = torch.export.export(
            module,
            # Copies, because torch.export takes a tensor that is given twice for one input.
            # In C order, as a server passes them: compiled code contains the strides of the example.
            tuple(tensor.clone(memory_format=torch.contiguous_format) for tensor in example),
            dynamic_shapes=tuple(dict.fromkeys(free.get(position, ()), Dim.AUTO) for position in range(len(example))),
            strict=False,
            # Otherwise AOTInductor would drop the conditions of the branches that the example took.
            prefer_deferred_runtime_asserts_over_guards=True,
        )
    except Exception as error:
        text = str(error).strip()
        raise TraceError(
            f"torch.export cannot export forward(): {type(error).__name__}: {text}",
            "docs/tracing.md#programs-and-torchscript has the usual causes. A module with branches on data can be "
            "served as TorchScript: platform: pytorch_libtorch.",
        ) from error
    _compare_sizes(program, interface, free, max_batch_size, warn)
    return program


def _free_axes(slot: Slot, batch_axes: int, max_batch_size: int) -> list[int]:
    dims = [-1 if max_batch_size > 1 else 1] * batch_axes + (slot.network_dims or [])
    return [axis for axis, dim in enumerate(dims) if dim == -1]


def _compare_sizes(
    program: ExportedProgram,
    interface: Interface,
    free: dict[int, list[int]],
    max_batch_size: int,
    warn: Callable[[str], None],
) -> None:
    placeholders = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    shapes = [placeholders[name].meta["val"].shape for name in program.graph_signature.user_inputs]
    problems = Problems()
    seen: dict[str, str] = {}
    for slot in interface.inputs:
        for axis in free[slot.position]:
            is_batch = axis < interface.batch_axes
            field = (
                f"max_batch_size is {max_batch_size}"
                if is_batch
                else f"dims[{axis - interface.batch_axes}] of '{slot.name}' is -1"
            )
            what = f"axis {axis} of input {slot.position}"
            size: Any = shapes[slot.position][axis]
            equal = seen.setdefault(str(size), what)
            if equal != what and not is_batch and not isinstance(size, int):
                warn(f"the program takes only equal sizes in {equal} and {what}; model.yaml: {field}")
            limits = None if isinstance(size, int) else program.range_constraints.get(size.node.expr)
            fixed = size if isinstance(size, int) else size.node.maybe_as_int()
            if limits is not None and limits.lower == limits.upper:
                fixed = int(limits.lower)
            if fixed is not None:
                number = "max_batch_size: 1" if is_batch else f"{fixed} there"
                problems.found.append(
                    TraceError(
                        f"model.yaml: {field}, but the exported program has the fixed size {fixed} in {what}",
                        f"{SIZES}; or write {number} in model.yaml.",
                    )
                )
                continue
            if limits is not None and limits.lower == 2:
                # torch.export does not examine a size of 1, but the fresh inputs do.
                limits = program.range_constraints[size.node.expr] = ValueRanges(1, limits.upper)
            if limits is None:
                warn(f"{what}: the program takes only sizes of the form {size.node.expr}; model.yaml: {field}")
            elif is_batch and limits.upper < max_batch_size:
                problems.found.append(
                    TraceError(f"model.yaml: {field}, but the exported program takes at most {limits.upper}", SIZES)
                )
            elif not is_batch and (limits.lower > 2 or limits.upper != int_oo):
                least = [f"below {limits.lower}"] if limits.lower > 1 else []
                most = [] if limits.upper == int_oo else [f"above {limits.upper}"]
                warn(
                    f"{what}: the program refuses sizes {' and '.join([*least, *most])}, and perhaps others; "
                    f"model.yaml: {field}, so a server gets requests of all sizes. Only fresh inputs show what "
                    "it takes: add the smallest and the largest that clients send"
                )
    problems.raise_all()


def load_program(path: Path) -> tuple[GraphModule, Signature]:
    """Load a program of torch.export, and the names of its tensors."""
    program = torch.export.load(path)
    returned = program.call_spec.out_spec
    outputs = tuple(returned.children()) if returned.type is tuple else None
    return program.module(), program_signature(program.graph_signature.user_inputs, outputs)


def save_program(program: ExportedProgram, path: Path) -> None:
    """Write the archive without source lines, which contain paths of this machine and change with the checkout."""
    for part in program.graph_module.modules():
        for node in part.graph.nodes if isinstance(part, GraphModule) else ():
            node.meta.pop("stack_trace", None)
    torch.export.save(program, path)
