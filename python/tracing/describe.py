"""Describes the inputs and outputs of a model file, for `npm run init -- --from FILE`.

`python -m tracing.describe FILE [TYPE:DIMS...]` prints one JSON object: the fields of a model.yaml, or `error` and
`hint`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import onnxruntime
import torch

from tracing.check import Tensors, as_tuple
from tracing.contract import TraceError
from tracing.interface import DATA_TYPES

MAX_BATCH_SIZE = 8

Described: TypeAlias = tuple[str, str, list[int]]
"""Name, data type and dims of a tensor."""


def main(file: str, *given: str) -> None:
    """Print the description."""
    path = Path(file)
    try:
        describe = {".onnx": describe_onnx, ".pt2": describe_program}.get(path.suffix, describe_torchscript)
        result = describe(path, list(given))
    except TraceError as error:
        result = {"error": error.message, "hint": error.hint}
    print(json.dumps(result))


def describe_onnx(path: Path, given: list[str]) -> dict[str, Any]:
    """Describe an ONNX file, whose shapes ONNX Runtime completes. An axis is a batch if its size is free everywhere."""
    _refuse_inputs(path, given)
    try:
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    except Exception as error:
        hint = "export the model to ONNX again; files of weights that it names must lie beside it"
        raise TraceError(f"ONNX Runtime cannot load {path}: {error}", hint) from error
    sides = (session.get_inputs(), session.get_outputs())
    return _described(
        "onnxruntime_onnx", *[[(one.name, _onnx_type(one), list(one.shape)) for one in side] for side in sides]
    )


def describe_program(path: Path, given: list[str]) -> dict[str, Any]:
    """Describe a program of torch.export, in which a free axis has a symbol for its size."""
    _refuse_inputs(path, given)
    try:
        program = torch.export.load(path)
    except Exception as error:
        raise TraceError(
            f"PyTorch cannot load {path} as a program of torch.export: {_last_line(error)}",
            "save it with torch.export.save(torch.export.export(model, inputs), path), not compiled",
        ) from error
    by_name = program.call_spec.in_spec.children()[1].context
    if by_name:
        raise TraceError(
            f"forward() of {path} takes {by_name[0]!r} by name, but Triton passes tensors by position",
            "wrap the module: let forward() take them by position",
        )
    values = {node.name: node.meta.get("val") for node in program.graph.nodes}
    signature = program.graph_signature
    sides = []
    for prefix, names in (("INPUT", signature.user_inputs), ("OUTPUT", signature.user_outputs)):
        side = []
        for number, name in enumerate(names):
            tensor = values.get(str(name))
            if not isinstance(tensor, torch.Tensor) or tensor.dtype not in DATA_TYPES:
                raise TraceError(
                    f"{prefix.lower()} {number} of {path} is no tensor that Triton supports",
                    "wrap the module: let forward() take and return only tensors of such data types",
                )
            sizes = [size if isinstance(size, int) else str(size) for size in tensor.shape]
            side.append((f"{prefix}__{number}", DATA_TYPES[tensor.dtype], sizes))
        sides.append(side)
    found = _described("torch_aoti", *sides)
    rows = [(name, kind, dims[1:]) for name, kind, dims in _free(sides[0])]
    if found["max_batch_size"] == 0 or _rows_are_independent(program.module(), rows):
        return found
    return _fields("torch_aoti", "rows of one request change the answers of others", *map(_free, sides))


def _free(side: Sequence[tuple[str, str, Sequence[int | str | None]]]) -> list[Described]:
    """Return the tensors with -1 for each size that is no number."""
    return [(name, kind, [n if isinstance(n, int) else -1 for n in shape]) for name, kind, shape in side]


def _refuse_inputs(path: Path, given: list[str]) -> None:
    if given:
        raise TraceError(f"{path} describes its inputs, so --input {given[0]} has no use", "omit --input")


def _described(platform: str, *sides: Sequence[tuple[str, str, Sequence[int | str | None]]]) -> dict[str, Any]:
    """Return the fields of model.yaml. A first axis is a batch if it is free everywhere, and the same in all inputs."""
    tensors = [tensor for side in sides for tensor in side]
    first = [shape[0] if len(shape) > 1 else 0 for _, _, shape in tensors]
    symbols = {size for size in first[: len(sides[0])] if isinstance(size, str)}
    batched = len(sides[0]) > 0 and len(symbols) <= 1 and not any(isinstance(size, int) for size in first)
    fixed = [
        f"{name} has shape {list(shape)}; a batch needs a free first axis and another axis"
        for (name, _, shape), size in zip(tensors, first, strict=True)
        if isinstance(size, int)
    ]
    reason = fixed[0] if fixed else "the first axes of the inputs differ"
    return _fields(platform, None if batched else reason, *map(_free, sides))


def _onnx_type(tensor: Any) -> str:
    element = tensor.type.removeprefix("tensor(").removesuffix(")")
    if "(" in element:
        raise TraceError(
            f"{tensor.name} is a {tensor.type}, but Triton serves only tensors",
            "export the model with tensors; skl2onnx does so with options={'zipmap': False}",
        )
    names = {"float": "FP32", "double": "FP64", "float16": "FP16", "bfloat16": "BF16"}
    return f"TYPE_{names.get(element, element.upper())}"


def describe_torchscript(path: Path, given: list[str]) -> dict[str, Any]:
    """Describe a TorchScript file, which has no shapes: it is run with small numbers."""
    try:
        network = torch.jit.load(path, map_location="cpu").eval()  # type: ignore[no-untyped-call]
    except Exception as error:
        raise TraceError(
            f"PyTorch cannot load {path} as TorchScript: {_last_line(error).split('. ')[0]}",
            "save it with torch.jit.trace(model, inputs).save(path) or torch.jit.script(model).save(path)",
        ) from error
    arguments = network.forward.schema.arguments[1:]
    names = ", ".join(f"{argument.name}: {argument.type}" for argument in arguments)
    takes = f"forward() of {path} takes {names}"
    if any(str(argument.type) != "Tensor" for argument in arguments):
        raise TraceError(f"{takes}, but Triton passes only tensors", "wrap the module: let forward() take only tensors")
    if len(given) != len(arguments):
        raise TraceError(
            f"{takes}: {len(arguments)} --input needed, {len(given)} given; the file has no data types and dims",
            "give TYPE:DIMS of each in this order, without the batch axis, -1 for any size: --input FP32:3,224,224",
        )
    inputs = [(f"input__{i}", *_parse(text)) for i, text in enumerate(given)]
    reasons = []
    for batched in (True, False):
        try:
            outputs = _outputs(network, inputs, batched)
        except TraceError:
            raise
        except Exception as error:
            reasons.append(_last_line(error))
            continue
        if outputs is None:
            continue
        shapes = [(name, kind, [-1, *shape] if batched else shape) for name, kind, shape in inputs]
        reason = None
        if not batched:
            reason = "the outputs have no batch axis" if not reasons else "the model takes no batch axis"
        elif not _rows_are_independent(network, inputs):
            reason = "rows of one request change the answers of others"
        if reason is not None and any(not shape for _, _, shape in [*shapes, *outputs]):
            raise TraceError(
                f"{path} has a tensor without axes, which Triton's PyTorch backend cannot serve",
                "wrap the module: give the output a batch axis, or return x.reshape(1)",
            )
        return _fields("pytorch_libtorch", reason, shapes, outputs)
    raise TraceError(
        f"{path} refuses inputs of {', '.join(given)}: {'; without a batch axis: '.join(reasons)}",
        "give the data types and dims that the model takes, without the batch axis",
    )


def _parse(text: str) -> tuple[str, list[int]]:
    """Parse TYPE:DIMS, or DIMS for FP32."""
    kind, _, dims = text.rpartition(":")
    name = f"TYPE_{kind or 'FP32'}"
    sizes = dims.split(",") if dims or not kind else []
    shape = [int(size) for size in sizes if re.fullmatch(r"-1|[1-9]\d*", size)]
    if name not in DATA_TYPES.values() or len(shape) != len(sizes):
        types = ", ".join(known.removeprefix("TYPE_") for known in DATA_TYPES.values())
        raise TraceError(f"--input {text}: is not TYPE:DIMS", f"write for example INT64:-1; types: {types}")
    return name, shape


def _run(network: Any, inputs: Sequence[Described], sizes: list[list[int]], fill: int) -> tuple[Tensors, Tensors]:
    """Run the network on `fill`: 0 for zeros, 1 for random numbers below 1, or 0 and 1 for types of integers."""
    types = {name: kind for kind, name in DATA_TYPES.items()}
    torch.manual_seed(0)
    cases = []
    for size, (_, kind, _) in zip(sizes, inputs, strict=True):
        # Booleans are masks: a model may refuse one that masks everything.
        numbers = torch.ones(size) if kind == "TYPE_BOOL" else torch.rand(size) * fill
        cases.append((numbers if types[kind].is_floating_point else numbers.round()).to(types[kind]))
    with torch.inference_mode():
        return tuple(cases), as_tuple(network(*cases))


def _outputs(network: Any, inputs: Sequence[Described], batched: bool) -> Sequence[Described] | None:
    """Run the network with two batch sizes and two free sizes. Axes of outputs that differ have any size.

    Returns None if `batched` and an output has no batch axis.
    """
    runs = []
    for fill, batch, free in ((0, 2, 64), (1, 3, 96)):
        sizes = [[*([batch] if batched else []), *(free if n == -1 else n for n in dims)] for _, _, dims in inputs]
        runs.append(_run(network, inputs, sizes, fill)[1])
        if batched and any(tensor.shape[:1] != (batch,) for tensor in runs[-1]):
            return None
    for number, tensor in enumerate(runs[0]):
        if tensor.dtype not in DATA_TYPES:
            raise TraceError(
                f"output {number} of the model is {tensor.dtype}, which Triton does not support",
                "wrap the module: return tensors of another data type",
            )
    return [
        (
            f"output__{i}",
            DATA_TYPES[one.dtype],
            [a if a == b else -1 for a, b in zip(one.shape, two.shape, strict=True)],
        )
        for i, (one, two) in enumerate(zip(*runs, strict=True))
    ]


def _rows_are_independent(network: Any, inputs: Sequence[Described]) -> bool:
    """Return whether a row has the same answer alone and beside two others."""
    sizes = [[3, *(64 if n == -1 else n for n in dims)] for _, _, dims in inputs]
    cases, together = _run(network, inputs, sizes, 1)
    try:
        with torch.inference_mode():
            alone = as_tuple(network(*(case[:1] for case in cases)))
    except Exception:
        return False
    return all(
        a.shape == b[:1].shape and torch.allclose(a.double(), b[:1].double(), 1e-2, 1e-3, equal_nan=True)
        for a, b in zip(alone, together, strict=True)
    )


def _fields(platform: str, reason: str | None, *sides: Sequence[Described]) -> dict[str, Any]:
    """Return the fields of model.yaml. reason: why the first axis is no batch, or None.

    Triton has no tensor without axes: the scalar of a row has dims [1], which Triton removes.
    """
    start = 1 if reason is None else 0
    inputs, outputs = (
        [
            {
                "name": name,
                "data_type": kind,
                "dims": shape[start:] or [1],
                **({"reshape": []} if reason is None and not shape[start:] else {}),
            }
            for name, kind, shape in side
        ]
        for side in sides
    )
    batching = {"max_batch_size": MAX_BATCH_SIZE} if reason is None else {"max_batch_size": 0, "reason": reason}
    return {"platform": platform, **batching, "input": inputs, "output": outputs}


def _last_line(error: Exception) -> str:
    return str(error).strip().splitlines()[-1].strip() if str(error).strip() else type(error).__name__


if __name__ == "__main__":
    main(*sys.argv[1:])
