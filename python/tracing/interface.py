"""Compares inputs and outputs of a network with those in model.yaml: names, data types and shapes."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn

from tracing.check import Tensors
from tracing.contract import Problems, TraceError

Kind: TypeAlias = Literal["input", "output"]

DATA_TYPES = {
    torch.bool: "TYPE_BOOL",
    torch.uint8: "TYPE_UINT8",
    torch.uint16: "TYPE_UINT16",
    torch.uint32: "TYPE_UINT32",
    torch.uint64: "TYPE_UINT64",
    torch.int8: "TYPE_INT8",
    torch.int16: "TYPE_INT16",
    torch.int32: "TYPE_INT32",
    torch.int64: "TYPE_INT64",
    torch.float16: "TYPE_FP16",
    torch.bfloat16: "TYPE_BF16",
    torch.float32: "TYPE_FP32",
    torch.float64: "TYPE_FP64",
}
# The number follows the first "__", as in Triton's PyTorch backend.
_NUMBERED = re.compile(r"(?:(?!__).)*__(\d+)", re.DOTALL)


@dataclass(frozen=True)
class Signature:
    """Names in an artifact. TorchScript stores the names of forward's arguments, but no names of outputs (None)."""

    inputs: list[str] | None
    outputs: list[str] | None


@dataclass(frozen=True)
class Slot:
    """A served tensor: its `position` in the network and its fields in model.yaml.

    data_type, dims: None if model.yaml leaves them to the backend. reshape: the shape for the network, if it differs
    from `dims`. All shapes are without the batch axis.
    """

    position: int
    name: str
    data_type: str | None = None
    dims: list[int] | None = None
    reshape: list[int] | None = None

    @property
    def network_dims(self) -> list[int] | None:
        return self.dims if self.reshape is None else self.reshape

    def request_shape(self, shape: Sequence[int], batch_axes: int) -> list[int]:
        """Return the shape in a request of a tensor that has `shape` in the network."""
        if self.reshape is None or self.dims is None:
            return list(shape)
        network = shape[batch_axes:]
        # Like Triton: the n-th -1 of `reshape` is the n-th -1 of `dims`.
        free = iter(size for size, dim in zip(network, self.reshape, strict=True) if dim == -1)
        return [*shape[:batch_axes], *(next(free) if dim == -1 else dim for dim in self.dims)]


@dataclass(frozen=True)
class Interface:
    """The served tensors, in the order of model.yaml. batch_axes: 1 if max_batch_size > 0, else 0."""

    inputs: list[Slot]
    outputs: list[Slot]
    batch_axes: int


def is_comparable(config: Mapping[str, Any]) -> bool:
    """Return whether requests have the network's tensors. For sequences and ragged batches Triton adds tensors."""
    return all(config.get(field) is None for field in ("sequence_batching", "batch_input", "batch_output"))


def program_signature(inputs: Sequence[object], returned: object) -> Signature:
    """Return Triton's names for a program: of its arguments, and of what it returns, one tensor or a tuple."""
    outputs = [f"RESULT[{position}]" for position in range(len(returned))] if isinstance(returned, tuple) else None
    return Signature([f"ARGS[{position}]" for position in range(len(inputs))], outputs or ["RESULT"])


def argument_names(module: nn.Module) -> list[str]:
    """Return the names of forward's arguments, as TorchScript stores them."""
    schema = getattr(module.forward, "schema", None)  # of a scripted module
    if schema is not None:
        return [argument.name for argument in schema.arguments[1:]]
    parameters = inspect.signature(module.forward).parameters.values()
    return [one.name for one in parameters if one.kind == one.POSITIONAL_OR_KEYWORD]


def compare_with_config(
    config: Mapping[str, Any],
    signature: Signature,
    artifact: str,
    inputs: Sequence[Tensors],
    outputs: Sequence[Tensors],
) -> Interface:
    """Match the tensors of model.yaml with those of the network.

    inputs: sets of inputs; outputs: the answers to the first of these sets. Raises one TraceError for all tensors whose
    name, data type or shape differs from model.yaml.
    """
    max_batch_size = int(config.get("max_batch_size") or 0)
    named: dict[Kind, list[Slot]] = {"input": [], "output": []}
    problems = Problems()
    kinds: tuple[tuple[Kind, list[str] | None, Sequence[Tensors]], ...] = (
        ("input", signature.inputs, inputs),
        ("output", signature.outputs, outputs),
    )
    for kind, names, cases in kinds:
        declared = config.get(kind) or []
        with problems.collect():
            if declared:
                named[kind] = _paired(kind, declared, names, len(cases[0]), artifact)
            else:  # of ONNX, for which Triton completes the fields
                named[kind] = [Slot(position, name) for position, name in enumerate(names or [])]
        for slot in named[kind]:
            problems.found += _first_problems(kind, slot, cases, inputs, max_batch_size)
    problems.raise_all()
    return Interface(named["input"], named["output"], 1 if max_batch_size > 0 else 0)


def _first_problems(
    kind: Kind, slot: Slot, cases: Sequence[Tensors], inputs: Sequence[Tensors], max_batch_size: int
) -> list[TraceError]:
    """Return the problems of a tensor in the first of `cases` that has some; `inputs` are the inputs of each case."""
    for given, case in zip(inputs, cases, strict=False):
        problems = list(_compare(kind, slot, case[slot.position], given, max_batch_size))
        if problems:
            return problems
    return []


def network_dims(tensor: Mapping[str, Any]) -> list[Any]:
    """Return the dims of a tensor of model.yaml as the network sees them."""
    shape = tensor.get("dims") if tensor.get("reshape") is None else tensor["reshape"].get("shape")
    return shape or []


def require_variety(
    interface: Interface, fresh: Sequence[Tensors], example: Tensors | None, max_batch_size: int
) -> None:
    """Raise TraceError if fresh inputs cannot reveal what the trace froze.

    They must have the smallest and the largest batch, and differ from the example and from each other. For each -1 in
    dims they must have at least two sizes, and the smallest of these must not exceed the size of the example.
    """
    for batch in sorted({1, max_batch_size} - {case[0].shape[0] for case in fresh}) if max_batch_size > 0 else []:
        raise TraceError(
            f"fresh_inputs have no batch of {batch}; max_batch_size in model.yaml allows 1 to {max_batch_size}",
            "Check the smallest and the largest batch in trace.py.",
        )
    for number, case in enumerate(fresh):
        others = [(f"fresh_inputs[{n}]", other) for n, other in enumerate(fresh[:number])]
        for name, other in [*others, *([] if example is None else [("example_inputs", example)])]:
            if any(tensor.numel() for tensor in case) and all(map(torch.equal, case, other)):
                raise TraceError(f"fresh_inputs[{number}] are the same as {name}, so they check nothing new")
    for slot in interface.inputs:
        for axis, dim in enumerate(slot.network_dims or []):
            if dim != -1:
                continue
            at = axis + interface.batch_axes
            sizes = sorted({case[slot.position].shape[at] for case in fresh})
            traced = None if example is None else example[slot.position].shape[at]
            if len(sizes) < 2 or (traced is not None and sizes[0] > traced):
                where = "" if traced is None else f", and the example has {traced}"
                raise TraceError(
                    f"fresh_inputs have sizes {', '.join(map(str, sizes))} where dims[{axis}] of '{slot.name}' is -1 "
                    f"in model.yaml{where}",
                    "Check at least two sizes in trace.py"
                    + ("." if traced is None else f"; add a size of at most {traced}."),
                )


def _paired(
    kind: Kind, declared: Sequence[Mapping[str, Any]], names: list[str] | None, count: int, artifact: str
) -> list[Slot]:
    """Return each declared tensor with its position, matched like in the backend: by name, by number, or by order.

    `npm run validate`, which a trace runs first, refuses names of which only some have a number.
    """
    mine = [str(tensor.get("name")) for tensor in declared]
    numbers = [_NUMBERED.fullmatch(name) for name in mine]
    known = {name: position for position, name in enumerate(names or [])}
    if artifact.endswith(".pt2"):
        known |= {f"{kind.upper()}__{position}": position for position in range(len(known))}
    if known.keys() >= set(mine) or artifact.endswith((".onnx", ".pt2")):
        for name in mine:
            if name not in known:
                raise TraceError(
                    f"model.yaml: {kind} '{name}' is not in {artifact}, which has {', '.join(known)}",
                    "Use the same names in model.yaml and in trace.py."
                    if artifact.endswith(".onnx")
                    else f"Triton numbers the tensors of a {artifact} from {kind.upper()}__0.",
                )
        positions = [known[name] for name in mine]
    elif all(numbers):
        positions = [int(number.group(1)) for number in numbers if number is not None]
    else:
        positions = list(range(len(mine)))
    # Outputs may be omitted from model.yaml, because names or numbers identify the others.
    if (
        len(mine) > count
        or max(positions) >= count
        or len(set(positions)) < len(mine)
        or (len(mine) < count and kind == "input")
    ):
        raise TraceError(
            f"model.yaml: {kind} names {len(mine)} ({', '.join(mine)}), but the network has {count}",
            f"Name each {kind} of the network once, in its order; the N of {kind}__N counts from 0.",
        )
    return [
        Slot(
            position,
            name,
            tensor.get("data_type"),
            [int(dim) for dim in tensor.get("dims") or []],
            None if tensor.get("reshape") is None else [int(dim) for dim in tensor["reshape"].get("shape") or []],
        )
        for position, name, tensor in zip(positions, mine, declared, strict=True)
    ]


def _compare(kind: Kind, slot: Slot, tensor: Tensor, inputs: Tensors, max_batch_size: int) -> Iterator[TraceError]:
    """Yield the differences of `tensor`, an input or an output for `inputs`, from model.yaml."""
    where = f"model.yaml: {kind} '{slot.name}'"
    verb = "takes" if kind == "input" else "gives"
    data_type = DATA_TYPES.get(tensor.dtype)
    if data_type is None:
        yield TraceError(
            f"{where}: the network {verb} {tensor.dtype}, which Triton does not support",
            "Convert it in forward(), such as x.float(), and set data_type to the type that clients see.",
        )
    elif slot.data_type is not None and slot.data_type != data_type:
        yield TraceError(
            f"{where} has data_type {slot.data_type}, but the network {verb} {data_type}",
            f"Set data_type of '{slot.name}' to {data_type}, or change the type in trace.py.",
        )
    elif data_type == "TYPE_BF16":
        yield TraceError(
            f"{where}: the network {verb} BF16, which golden requests cannot hold",
            "Convert it in forward(): x.float().",
        )
    if kind == "output" and tensor.ndim == 0:
        yield TraceError(
            f"output '{slot.name}' is a scalar, which Triton cannot serve",
            f"Return a tensor with one axis, x.reshape(1), and set dims of '{slot.name}' to [1].",
        )
        return
    shape = list(tensor.shape)
    batch = 1 if max_batch_size > 0 else 0
    dims = slot.network_dims
    if dims is not None and not _fits(shape[batch:], dims, len(shape) >= batch):
        field = "dims" if slot.reshape is None else "reshape"
        axis = f", after a batch axis (max_batch_size is {max_batch_size})" if batch else ""
        on = "" if kind == "input" else f" on inputs of shape {shapes_of(inputs)}"
        yield TraceError(
            f"{where} has {field} {dims}{axis}, but the network {verb} shape {shape}{on}",
            f"A single number for each row: write dims: [1] and reshape: {{ shape: [] }} for '{slot.name}'."
            if batch and len(shape) == 1
            else f"Set {field} of '{slot.name}' to the shape after the batch axis, {shape[1:]}; -1 is any size."
            if batch and shape
            else f"Set {field} of '{slot.name}' to {shape}; -1 is any size.",
        )
    elif batch and not (shape and 1 <= shape[0] <= max_batch_size and shape[0] == inputs[0].shape[0]):
        yield TraceError(
            f"model.yaml: max_batch_size is {max_batch_size}, so the first axis of each tensor is a batch of 1 to "
            f"{max_batch_size}; '{slot.name}' has shape {shape} with inputs of shape {shapes_of(inputs)}",
            "Give inputs a batch axis in trace.py, or set max_batch_size to fit.",
        )


def _fits(shape: Sequence[int], dims: Sequence[int], has_batch: bool) -> bool:
    same_rank = has_batch and len(shape) == len(dims)
    return same_rank and all(dim in (-1, size) for size, dim in zip(shape, dims, strict=True))


def shapes_of(case: Tensors) -> str:
    """Format shapes for messages: [3, 4], [3]."""
    return ", ".join(str(list(tensor.shape)) for tensor in case)
