"""Compiles a program of torch.export with AOTInductor for the processor of this machine, and asks golden requests.

`python -m tracing.compiled MODEL_FOLDER VERSION PROGRAM PACKAGE [CAPABILITY...]` writes PACKAGE, and prints one
JSON object: `seconds`, `difference`, the largest from an expected answer, and `torch`, its version; or `error` and
`hint`. Compute capabilities such as 7.5 are those of the GPUs that will serve the package; without one it is compiled
for the CPU.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch._inductor
from torch import Tensor
from torch.export.passes import move_to_device_pass

from tracing.check import absolute_difference, as_tuple, maximum
from tracing.child import end_with_parent
from tracing.contract import TraceError
from tracing.interface import network_dims
from tracing.repository import Model

logging.getLogger("torch.utils.flop_counter").setLevel(logging.ERROR)


def report(work: Callable[..., float], arguments: Sequence[str]) -> None:
    """Print what `work` returns, the largest difference, with its time; or its TraceError."""
    began = time.monotonic()
    try:
        with torch.no_grad():
            difference = work(*arguments)
        seconds = time.monotonic() - began
        result: dict[str, Any] = {"seconds": seconds, "difference": difference, "torch": torch.__version__}
    except TraceError as error:
        result = {"error": error.message, "hint": error.hint}
    print(json.dumps(result))


def build(folder: str, version: str, program: str, package: str, *capabilities: str) -> float:
    """Write the package. Returns its largest difference from a golden request. Raises TraceError."""
    device = "cuda" if capabilities else "cpu"
    if capabilities:
        require_gpu(capabilities)
    try:
        exported = torch.export.load(program)
        if capabilities:
            exported = move_to_device_pass(exported, device)
        torch._inductor.aoti_compile_and_package(
            exported, package_path=package, inductor_configs=compiler_options(capabilities)
        )
    except Exception as error:
        raise TraceError(
            f"AOTInductor cannot compile it: {type(error).__name__}: {error}",
            "" if capabilities else "It needs a C++ compiler, such as g++, on PATH.",
        ) from error
    os.environ["AOTI_RUNTIME_CHECK_INPUTS"] = "1"
    compiled = torch._inductor.aoti_load_package(package)
    model = Model(Path(folder), int(version))
    names = [tensor["name"] for tensor in model.config()["output"]]

    def run(inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        answers = as_tuple(compiled(*(inputs[name].to(device) for name in sorted(inputs, key=_position))))
        return {name: answers[_position(name)].cpu() for name in names}

    return ask_golden(model, run)


def compiler_options(capabilities: Sequence[str]) -> dict[str, Any]:
    """Return the options of AOTInductor for these GPUs, or for the CPU."""
    # Inductor assumes sizes of 2 or more, but its code is right for 1 too: the golden requests show it.
    options: dict[str, Any] = {"aot_inductor.check_lowerbound": False}
    if len(capabilities) > 1:
        # PTX for the oldest GPU, which the driver compiles for newer ones, and machine code for each.
        oldest, *_ = sorted(capabilities, key=float)
        os.environ["TORCH_CUDA_ARCH_LIST"] = ";".join(capabilities)
        options |= {"aot_inductor.emit_multi_arch_kernel": True, "cuda.arch": oldest.replace(".", "")}
    return options


def require_gpu(capabilities: Sequence[str]) -> None:
    """Raise TraceError unless this machine has one of these GPUs."""
    if not torch.cuda.is_available():
        raise TraceError(
            "PyTorch sees no GPU here", "Check the driver of the node, and nvidia-smi in a pod with a GPU."
        )
    here = ".".join(map(str, torch.cuda.get_device_capability()))
    if here not in capabilities:
        raise TraceError(
            f"{torch.cuda.get_device_name()} has compute capability {here}; the stack names {', '.join(capabilities)}",
            "Set gpuCapabilities of the stack to those of its GPUs.",
        )


def ask_golden(model: Model, run: Callable[[Mapping[str, Tensor]], Mapping[str, Tensor] | None]) -> float:
    """Return the largest difference of `run` from the golden requests that the trace made.

    run: answers the inputs of a request, by name; None if it takes no such sizes.
    Raises TraceError for an answer beyond its tolerance, and if no request was answered.
    """
    config = model.config()
    declared = {tensor["name"]: tensor for kind in ("input", "output") for tensor in config.get(kind) or []}
    differences = []
    for path in sorted(model.golden_folder.glob("traced-*.json")):
        request = json.loads(path.read_text(encoding="utf-8"))
        inputs = {}
        unknown = [
            entry["name"] for entry in [*request["inputs"], *request["outputs"]] if entry["name"] not in declared
        ]
        if unknown:
            raise TraceError(f"model.yaml has no tensor '{unknown[0]}', which {path.name} has", "Run npm run trace.")
        for entry in request["inputs"]:
            array = np.load(path.parent / entry["file"])
            batch = list(array.shape[:1]) if int(config.get("max_batch_size") or 0) > 0 else []
            shape = [*batch, *network_dims(declared[entry["name"]])]
            array = array if shape.count(-1) > 1 else array.reshape(shape)
            inputs[entry["name"]] = torch.from_numpy(array)
        try:
            answers = run(inputs)
        except RuntimeError as error:
            raise TraceError(
                f"the compiled program refuses {path.name}: {error}",
                "Serve the exported program, or TorchScript.",
            ) from error
        if answers is None:
            continue
        for entry in request["outputs"]:
            want = torch.from_numpy(np.load(path.parent / entry["file"]).reshape(-1))
            got = answers[entry["name"]].reshape(-1)
            if got.dtype == torch.float64:  # trtexec prints numbers
                got = got.to(want.dtype)
            allowed = entry["tolerance"]["absolute"]
            difference = maximum(absolute_difference(want, got, f"'{entry['name']}' of {path.name}"))
            if difference > allowed:
                raise TraceError(
                    f"the compiled program answers {path.name} with a difference of {difference:.3g} in "
                    f"'{entry['name']}'; allowed: {allowed:g}",
                    "If that is rounding, raise serving_tolerance in trace.py.",
                )
            differences.append(difference)
    if not differences:
        raise TraceError("no golden request was answered, so nothing was compared", "Run npm run trace -- --force.")
    return max(differences)


def _position(name: str) -> int:
    """Return the position of a tensor of a trace: 1 for INPUT__1, ARGS[1] or RESULT[1], 0 for RESULT."""
    digits = "".join(character for character in name if character.isdecimal())
    return int(digits or "0")


if __name__ == "__main__":
    end_with_parent()
    report(build, sys.argv[1:])
