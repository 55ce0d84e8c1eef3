"""Measures the networks of a model repository on a GPU: answers, memory, and the time of calls.

`PYTHONPATH=python python3 tools/bench/gpu_models.py --repo DIR [--sections A,B] [--models A,B]`, with the packages of
python/requirements/runtime.txt. The models of DIR are traced. Each row is printed as a line of JSON. Each measurement
has a process of its own, because CUDA's memory belongs to a process.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor

from tracing.check import as_tuple
from tracing.contract import TraceContext
from tracing.imports import importable
from tracing.make import load_export
from tracing.record import read_record
from tracing.repository import find_models

SINGLE = "infer_face_restoration_v2.1"
NETWORKS = ["gfpgan", SINGLE, "resnet", "bert", "wav2vec_general_v2"]
BATCHES = [1, 2, 3, 8, 32]
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
MIB = 2**20

Row: TypeAlias = dict[str, Any]


def inputs_of(name: str, batch: int) -> tuple[Tensor, ...]:
    """Return random inputs of `batch` rows in a shape that clients send."""
    if name == "bert":
        return torch.randint(1000, 20000, (batch, 128)), torch.ones(batch, 128, dtype=torch.int64)
    if name.startswith("wav2vec"):
        return (torch.randn(batch, 16000),)
    size = 224 if name == "resnet" else 256
    return (torch.rand(batch, 3, size, size) * 2 - 1,)


class Network:
    """One model: what its trace.py exports, and the file that a server loads."""

    def __init__(self, repo: Path, name: str) -> None:
        model = find_models(repo, None)[name]
        torch.manual_seed(0)
        with importable(model):
            context = TraceContext(name, model.version, model.folder, model.config(), 0, None)
            self.export = load_export(model, context)
        self.export.eager.eval().requires_grad_(False)
        self.name = name
        self.artifact = model.artifact()
        self.is_script = self.artifact.suffix == ".pt"

    def load(self) -> Any:
        """Return the network on the device: model.pt as a server loads it, or the eager module of an ONNX model."""
        if self.is_script:
            return torch.jit.load(str(self.artifact), map_location=DEVICE)
        return self.export.eager.to(DEVICE)


def answers(network: Network) -> Iterator[Row]:
    """Largest differences to eager PyTorch on a CPU, over all inputs of the check."""
    cases = network.export.fresh_inputs
    expected = [as_tuple(network.export.eager(*case)) for case in cases]
    run = network.load()
    for title, cudnn, matmul in (("no TF32", False, False), ("default", True, False), ("TF32 everywhere", True, True)):
        torch.backends.cudnn.allow_tf32 = cudnn
        torch.backends.cuda.matmul.allow_tf32 = matmul
        got = [as_tuple(run(*on_device(case))) for case in cases]
        pairs = [
            (answer.cpu().double(), right.double())
            for case, wanted in zip(got, expected, strict=True)
            for answer, right in zip(case, wanted, strict=True)
            if right.numel() > 0
        ]
        yield {
            "arithmetic": title,
            "difference": max(float((answer - right).abs().max()) for answer, right in pairs),
            "largest": max(float(right.abs().max()) for _, right in pairs),
            "tolerance": network.export.tolerance,
            "servingTolerance": network.export.allowed_served,
        }


def memory(network: Network) -> Iterator[Row]:
    """Memory of CUDA's context, of the loaded network, and of three calls with the largest inputs of the check."""
    before, resident = used_mib(), resident_mib()
    torch.zeros(1, device=DEVICE)
    row: Row = {"contextMiB": used_mib() - before, "contextMainMiB": resident_mib() - resident}
    record = read_record(network.artifact)
    run = network.load()
    row |= {"fileMiB": network.artifact.stat().st_size / MIB, "loadedMiB": used_mib() - before - row["contextMiB"]}
    torch.cuda.reset_peak_memory_stats()
    floor = torch.cuda.memory_allocated()
    largest = max(network.export.fresh_inputs, key=lambda case: sum(tensor.numel() for tensor in case))
    for _ in range(3):
        run(*on_device(largest))
    synchronize()
    yield row | {
        "shapes": [list(tensor.shape) for tensor in largest],
        "activationMiB": (record.activation_bytes if record else 0) / MIB,
        "peakAboveWeightsMiB": (torch.cuda.max_memory_allocated() - floor) / MIB,
        "reservedMiB": torch.cuda.max_memory_reserved() / MIB,
        "usedMiB": used_mib() - before,
    }


def calls(network: Network) -> Iterator[Row]:
    """Milliseconds of a call for each batch size: eager, and model.pt with its first four calls."""
    eager = network.export.eager.to(DEVICE)
    ways: list[tuple[str, Any, bool]] = [("eager", eager, True)]
    if network.is_script:
        ways += [("model.pt", network.load(), True), ("DISABLE_OPTIMIZED_EXECUTION", network.load(), False)]
    for way, run, optimized in ways:
        for batch in [1] if network.name == SINGLE else BATCHES:
            given = on_device(inputs_of(network.name, batch))
            with torch.jit.optimized_execution(optimized):
                first = [timed_ms(run, given) for _ in range(4)]
                ms = median_ms(run, given)
            yield {"way": way, "batch": batch, "firstCallsMs": first, "ms": ms, "rowsPerSecond": 1000 * batch / ms}


def on_device(tensors: Iterable[Tensor]) -> list[Tensor]:
    return [tensor.to(DEVICE) for tensor in tensors]


def median_ms(run: Any, given: list[Tensor]) -> float:
    """Return the median of 7 to 200 calls, in about half a second, after 5 calls that are not counted."""
    for _ in range(5):
        run(*given)
    times: list[float] = []
    while len(times) < 7 or (sum(times) < 500 and len(times) < 200):
        times.append(timed_ms(run, given))
    return statistics.median(times)


def timed_ms(run: Any, given: list[Tensor]) -> float:
    synchronize()
    started = time.perf_counter()
    run(*given)
    synchronize()
    return 1000 * (time.perf_counter() - started)


def synchronize() -> None:
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def used_mib() -> int:
    """Return the memory in use on the GPU, of all processes, in MiB."""
    command = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[0])


def resident_mib() -> int:
    """Return the resident memory of this process, in MiB."""
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // MIB


SECTIONS: dict[str, Callable[[Network], Iterator[Row]]] = {
    "answers": answers,
    "memory": memory,
    "calls": calls,
}


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="gpu_models.py")
    parser.add_argument("--repo", type=Path, required=True)
    parser.add_argument("--sections", default=",".join(SECTIONS))
    parser.add_argument("--models", default=",".join(NETWORKS))
    options = parser.parse_args()
    sections, models = options.sections.split(","), options.models.split(",")
    if len(sections) == len(models) == 1:
        warnings.filterwarnings("ignore", category=FutureWarning)
        with torch.inference_mode():
            for row in SECTIONS[sections[0]](Network(options.repo, models[0])):
                print(json.dumps({"section": sections[0], "model": models[0], **row}), flush=True)
        return
    for section in sections:
        for model in models:
            command = [sys.executable, __file__, "--repo", str(options.repo), "--sections", section, "--models", model]
            subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
