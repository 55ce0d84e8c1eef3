"""Builds a TensorRT plan of an ONNX file for the GPU of this machine, and asks golden requests.

`python -m tracing.plan MODEL_FOLDER VERSION ONNX PLAN CAPABILITY...` writes PLAN, and prints the JSON object of
tracing.compiled. `plan.json` in the version folder has, for each input with a -1 in its dims, the shapes without the
batch that the plan takes: {"sound": {"min": [1600], "opt": [160000], "max": [480000]}}.

It runs trtexec, whose flags are those of TensorRT 10:
https://docs.nvidia.com/deeplearning/tensorrt/latest/reference/command-line-programs.html (2026-12-01).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from tracing.child import end_with_parent
from tracing.compiled import ask_golden, report
from tracing.contract import TraceError
from tracing.interface import network_dims
from tracing.repository import Model

# Where NVIDIA's images have it.
PLACES = os.pathsep.join(["/opt/tensorrt/bin", "/usr/src/tensorrt/bin", "/usr/local/tensorrt/bin"])


def build(folder: str, version: str, onnx: str, plan: str, *capabilities: str) -> float:
    """Write the plan. Returns its largest difference from a golden request. Raises TraceError."""
    model = Model(Path(folder), int(version))
    ranges = profile(model)
    # Without TF32 the plan can be compared at the tolerance of the ONNX file.
    command = [f"--onnx={onnx}", f"--saveEngine={plan}", "--skipInference", "--noTF32"]
    for bound, shapes in ranges.items():
        command.append(f"--{bound}Shapes={_shapes(shapes)}")
    if len(capabilities) > 1:
        if min(map(float, capabilities)) < 8:
            raise TraceError(
                f"a plan for several kinds of GPU needs capability 8.0 or higher; got {', '.join(capabilities)}",
                "Use one kind of GPU for it, or ONNX.",
            )
        command.append("--hardwareCompatibilityLevel=ampere+")
    trtexec(*command)

    def run(inputs: Mapping[str, Tensor]) -> dict[str, Tensor] | None:
        shapes = {name: list(tensor.shape) for name, tensor in inputs.items()}
        return ask(plan, inputs) if _fits(shapes, ranges) else None

    return ask_golden(model, run)


def profile(model: Model) -> dict[str, dict[str, list[int]]]:
    """Return the shapes of the inputs for `min`, `opt` and `max`; empty if all are fixed. Raises TraceError."""
    config = model.config()
    batch = int(config.get("max_batch_size") or 0)
    file = model.version_folder / "plan.json"
    given = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    bounds: dict[str, dict[str, list[int]]] = {"min": {}, "opt": {}, "max": {}}
    free = batch > 0
    for tensor in config.get("input") or []:
        dims = list(network_dims(tensor))
        free = free or -1 in dims
        for bound, shapes in bounds.items():
            shape = given.get(tensor["name"], {}).get(bound, dims)
            if len(shape) != len(dims) or any(
                size < 1 or axis not in (-1, size) for size, axis in zip(shape, dims, strict=True)
            ):
                raise TraceError(
                    f"plan.json has no '{bound}' for input '{tensor['name']}' with dims {dims}; found {shape}",
                    "Write min, opt and max for each input with a -1: docs/tracing.md.",
                )
            shapes[tensor["name"]] = [*([1 if bound == "min" else batch] if batch > 0 else []), *shape]
    return bounds if free else {}


def ask(plan: str, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Run the plan with these inputs."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for n, tensor in enumerate(inputs.values()):
            (folder / str(n)).write_bytes(tensor.contiguous().numpy().tobytes())
        output = folder / "output.json"
        trtexec(
            f"--loadEngine={plan}",
            *("--noTF32", "--iterations=1", "--duration=0", "--warmUp=0"),
            f"--shapes={_shapes({name: list(tensor.shape) for name, tensor in inputs.items()})}",
            "--loadInputs=" + ",".join(f"{name}:{folder / str(n)}" for n, name in enumerate(inputs)),
            f"--exportOutput={output}",
        )
        answers = json.loads(output.read_text(encoding="utf-8"))
    return {
        answer["name"]: torch.tensor([float(value) for value in answer["values"]], dtype=torch.float64).reshape(
            [int(size) for size in answer["dimensions"].split("x")]
        )
        for answer in answers
    }


def trtexec(*arguments: str) -> None:
    """Run trtexec. Raises TraceError with the end of its output."""
    program = shutil.which("trtexec") or shutil.which("trtexec", path=PLACES)
    if program is None:
        raise TraceError("trtexec is not on PATH", "Use an image with TensorRT, such as NVIDIA's PyTorch image.")
    ended = subprocess.run(
        [program, *arguments], check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if ended.returncode != 0:
        raise TraceError("trtexec failed:\n  " + "\n  ".join(ended.stdout.strip().splitlines()[-10:]))


def _shapes(shapes: Mapping[str, Sequence[int]]) -> str:
    return ",".join(f"{name}:{'x'.join(map(str, shape))}" for name, shape in shapes.items())


def _fits(shapes: Mapping[str, list[int]], ranges: Mapping[str, Mapping[str, list[int]]]) -> bool:
    """Whether the plan takes these shapes."""
    return not ranges or all(
        least <= size <= most
        for name, shape in shapes.items()
        for least, size, most in zip(ranges["min"][name], shape, ranges["max"][name], strict=True)
    )


if __name__ == "__main__":
    end_with_parent()
    report(build, sys.argv[1:])
