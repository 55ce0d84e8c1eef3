"""Compiles a program of torch.export with AOTInductor for the processor of this machine, and asks golden requests.

`python -m tracing.compiled MODEL_FOLDER VERSION PROGRAM PACKAGE` writes PACKAGE, and prints one JSON object: `seconds`
and `difference`, the largest from an expected answer; or `error` and `hint`.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch._inductor

from tracing.check import absolute_difference, as_tuple, maximum
from tracing.child import end_with_parent
from tracing.contract import TraceError
from tracing.interface import network_dims
from tracing.repository import Model

logging.getLogger("torch.utils.flop_counter").setLevel(logging.ERROR)


def main(folder: str, version: str, program: str, package: str) -> None:
    """Compile, and print the result."""
    began = time.monotonic()
    try:
        with torch.no_grad():
            try:
                # Inductor assumes sizes of 2 or more, but its code is right for 1 too: the golden requests show it.
                options = {"aot_inductor.check_lowerbound": False}
                torch._inductor.aoti_compile_and_package(
                    torch.export.load(program), package_path=package, inductor_configs=options
                )
            except Exception as error:
                raise TraceError(
                    f"AOTInductor cannot compile it: {type(error).__name__}: {error}",
                    "It needs a C++ compiler, such as g++, on PATH.",
                ) from error
            difference = ask_golden(Model(Path(folder), int(version)), package)
        result: dict[str, Any] = {"seconds": time.monotonic() - began, "difference": difference}
    except TraceError as error:
        result = {"error": error.message, "hint": error.hint}
    print(json.dumps(result))


def ask_golden(model: Model, package: str) -> float:
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
            inputs[_position(entry["name"])] = torch.from_numpy(array if shape.count(-1) > 1 else array.reshape(shape))
        try:
            answers = as_tuple(run(*(inputs[position] for position in sorted(inputs))))
        except RuntimeError as error:
            raise TraceError(
                f"the compiled program refuses {path.name}: {error}",
                "Serve the exported program, or TorchScript.",
            ) from error
        for entry in request["outputs"]:
            want = torch.from_numpy(np.load(path.parent / entry["file"]).reshape(-1))
            got = answers[_position(entry["name"])].reshape(-1)
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
