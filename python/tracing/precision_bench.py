"""Measures each model in each precision: error against float64 and time of a call.

`python -m tracing.precision_bench --repo DIR [--models A,B] [--repetitions N]` prints one line of JSON for each model
and way, on the GPU if there is one. TorchScript models run as they would be saved, ONNX models as eager modules.
"""

from __future__ import annotations

import argparse
import copy
import io
import json
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tracing.check import Tensors, as_tuple
from tracing.contract import Export, Precision, TorchScriptExport, TraceContext
from tracing.make import load_export, torchscript
from tracing.precision import in_precision
from tracing.repository import Model, find_models

WARM_UP_CALLS = 3


@dataclass(frozen=True)
class Way:
    """Options of one measurement. tf32: only on GPUs; freeze: only for TorchScript; channels_last: only for images."""

    precision: Precision = "fp32"
    channels_last: bool = False
    freeze: bool = False
    tf32: bool = False

    def __str__(self) -> str:
        options = {"TF32": self.tf32, "channels_last": self.channels_last, "frozen": self.freeze}
        return ", ".join([self.precision, *(name for name, on in options.items() if on)])


WAYS = [
    Way(),
    Way(tf32=True),
    Way(freeze=True),
    Way(channels_last=True),
    Way("bf16"),
    Way("bf16", channels_last=True),
    Way("fp16"),
    Way("fp16", channels_last=True),
]


def measure(model: Model, repetitions: int, device: torch.device) -> Iterator[dict[str, Any]]:
    """Yield one row for each way; none if the network has no weights."""
    context = TraceContext(model.name, model.version, model.folder, model.config(), 0, None)
    export = load_export(model, context)
    export.eager.eval().requires_grad_(False)
    if not any(value.is_floating_point() for value in export.eager.parameters()):
        return
    case = min(export.fresh_inputs, key=lambda inputs: sum(tensor.numel() for tensor in inputs))
    exact = as_tuple(copy.deepcopy(export.eager).double()(*(_double(tensor) for tensor in case)))
    has_images = any(tensor.dim() == 4 for tensor in case)
    is_script = isinstance(export, TorchScriptExport)
    for way in WAYS:
        if (way.tf32 and device.type != "cuda") or (way.freeze and not is_script) or (way.channels_last > has_images):
            continue
        row = {
            "model": model.name,
            "way": str(way),
            "device": _describe(device),
            "shapes": [list(t.shape) for t in case],
        }
        try:
            with _tf32(way.tf32):
                run = _network(export, way, device)
                got, seconds = _timed(run, [tensor.to(device) for tensor in case], repetitions, device)
        except RuntimeError as error:
            yield {**row, "error": str(error).strip().splitlines()[0]}
            continue
        yield {
            **row,
            "difference": max(_distance(a, b) for a, b in zip(got, exact, strict=True)),
            "largest": max(float(b.abs().max()) for b in exact if b.is_floating_point()),
            "milliseconds": 1000 * statistics.median(seconds),
        }


def _network(export: Export, way: Way, device: torch.device) -> nn.Module:
    """Return the network on the device. The eager module, from which the next ways are made, stays on the CPU."""
    if isinstance(export, TorchScriptExport) and export.example_inputs is not None:
        made = torchscript(replace(export, precision=way.precision, channels_last=way.channels_last, freeze=way.freeze))
        # As a server loads it. `.to()` would leave the devices in the graph, and move the weights of the eager module.
        file = io.BytesIO()
        torch.jit.save(made, file)
        file.seek(0)
        loaded: nn.Module = torch.jit.load(file, device)  # type: ignore[no-untyped-call]
        return loaded
    return copy.deepcopy(in_precision(export.eager, way.precision, channels_last=way.channels_last)).to(device)


def _timed(
    run: Callable[..., Any], inputs: Sequence[Tensor], repetitions: int, device: torch.device
) -> tuple[Tensors, list[float]]:
    seconds = []
    outputs: Tensors = ()
    for call in range(WARM_UP_CALLS + repetitions):
        started = time.perf_counter()
        outputs = as_tuple(run(*inputs))
        if device.type == "cuda":
            torch.cuda.synchronize()
        if call >= WARM_UP_CALLS:
            seconds.append(time.perf_counter() - started)
    return outputs, seconds


@contextmanager
def _tf32(on: bool) -> Iterator[None]:
    """Allow or forbid TF32 in convolutions and matrix products."""
    torch.backends.cudnn.allow_tf32 = on
    torch.backends.cuda.matmul.allow_tf32 = on
    yield


def _double(tensor: Tensor) -> Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor


def _distance(got: Tensor, exact: Tensor) -> float:
    return float((got.cpu().double() - exact.double()).abs().max())


def _describe(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m tracing.precision_bench")
    parser.add_argument("--repo", type=Path, required=True)
    parser.add_argument("--models", type=lambda text: text.split(","))
    parser.add_argument("--repetitions", type=int, default=7)
    options = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    warnings.filterwarnings("ignore")
    for name, model in find_models(options.repo, None).items():
        if options.models is not None and name not in options.models:
            continue
        print(f"{name} ...", file=sys.stderr, flush=True)
        with torch.no_grad():
            for row in measure(model, options.repetitions, device):
                print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
