"""Compiles a program of torch.export with AOTInductor for the processor of this machine, and asks golden requests.

`python -m tracing.compiled MODEL_FOLDER VERSION PROGRAM PACKAGE [CAPABILITY...]` writes PACKAGE, and prints one
JSON object: `seconds` and `difference`, the largest from an expected answer; or `error` and `hint`. Compute
capabilities such as 7.5 are those of the GPUs that will serve the package; without one it is compiled for the CPU.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch._inductor
from torch.export.passes import move_to_device_pass

from tracing.check import absolute_difference, as_tuple, maximum
from tracing.child import end_with_parent
from tracing.contract import TraceError
from tracing.interface import network_dims
from tracing.repository import Model

logging.getLogger("torch.utils.flop_counter").setLevel(logging.ERROR)


def main(folder: str, version: str, program: str, package: str, *capabilities: str) -> None:
    """Compile, and print the result."""
    began = time.monotonic()
    try:
        device = "cuda" if capabilities else "cpu"
        if capabilities:
            require_gpu(capabilities)
        with torch.no_grad():
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
            difference = ask_golden(Model(Path(folder), int(version)), package, device)
        result: dict[str, Any] = {"seconds": time.monotonic() - began, "difference": difference}
    except TraceError as error:
        result = {"error": error.message, "hint": error.hint}
    print(json.dumps(result))


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


def ask_golden(model: Model, package: str, device: str) -> float:
    """Return the largest difference of the compiled program from the golden requests that the trace made.

    Raises TraceError for an answer beyond its tolerance.
    """
    os.environ["AOTI_RUNTIME_CHECK_INPUTS"] = "1"
    run = torch._inductor.aoti_load_package(package)
    config = model.config()
    declared = {tensor["name"]: tensor for kind in ("input", "output") for tensor in config.get(kind) or []}
    most = 0.0
    requests = sorted(model.golden_folder.glob("traced-*.json"))
    if not requests:
        raise TraceError("it has no golden requests, so nothing would be compared", "Run npm run trace -- --force.")
    for path in requests:
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
            inputs[_position(entry["name"])] = torch.from_numpy(array).to(device)
        try:
            answers = as_tuple(run(*(inputs[position] for position in sorted(inputs))))
        except RuntimeError as error:
            raise TraceError(
                f"the compiled program refuses {path.name}: {error}",
                "Serve the exported program, or TorchScript.",
            ) from error
        for entry in request["outputs"]:
            want = torch.from_numpy(np.load(path.parent / entry["file"]).reshape(-1))
            got = answers[_position(entry["name"])].reshape(-1).cpu()
            allowed = entry["tolerance"]["absolute"]
            difference = maximum(absolute_difference(want, got, f"'{entry['name']}' of {path.name}"))
            if difference > allowed:
                raise TraceError(
                    f"the compiled program answers {path.name} with a difference of {difference:.3g} in "
                    f"'{entry['name']}'; allowed: {allowed:g}",
                    "If that is rounding, raise serving_tolerance in trace.py.",
                )
            most = max(most, difference)
    return most


def _position(name: str) -> int:
    """Return the position of a tensor of a trace: 1 for INPUT__1, ARGS[1] or RESULT[1], 0 for RESULT."""
    digits = "".join(character for character in name if character.isdecimal())
    return int(digits or "0")


if __name__ == "__main__":
    end_with_parent()
    main(*sys.argv[1:])
