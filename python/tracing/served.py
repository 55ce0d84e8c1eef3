"""Runs an artifact like a server: in a process that has imported neither trace.py nor the eager module.

`python -m tracing.served KIND ARTIFACT INPUTS ANSWERS` is that process; `ask` starts it.
"""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tracing.activations import measured
from tracing.check import Tensors, as_tuple
from tracing.child import child_environment
from tracing.contract import TraceError
from tracing.interface import Signature


def ask(
    artifact: Path, kind: str, inputs: Sequence[Tensors], folder: Path
) -> tuple[Signature, list[Tensors], int | None]:
    """Return the artifact's names, its outputs for each set of inputs, and the peak bytes of tensors in one call.

    The peak is None for ONNX, because ONNX Runtime does not report it.

    kind: model.pt or model.onnx. folder: for the files that the two processes exchange.

    Raises TraceError with the artifact's error if it cannot be loaded or run.
    """
    given, gave = folder / "inputs", folder / "answers"
    torch.save([tuple(case) for case in inputs], given)
    command = [sys.executable, "-m", "tracing.served", kind, str(artifact), str(given), str(gave)]
    done = subprocess.run(command, env=child_environment(), check=False)
    given.unlink()
    if done.returncode != 0 or not gave.is_file():
        raise TraceError(
            f"the process that runs the saved {artifact.name} ended with {done.returncode}",
            "Was there enough memory? Its output is above.",
        )
    answer: dict[str, Any] = torch.load(gave)
    gave.unlink()
    if "error" in answer:
        raise TraceError(f"the saved {artifact.name} fails in a process of its own: {answer['error']}")
    return Signature(answer["input_names"], answer["output_names"]), answer["outputs"], answer["bytes"]


def _main(kind: str, artifact: Path, given: Path, gave: Path) -> None:
    answer: dict[str, Any]
    try:
        load = _torchscript if kind == "model.pt" else _onnx
        run, signature = load(artifact)
        outputs, peak = measured(
            lambda case: tuple(output.clone() for output in as_tuple(run(*case))), torch.load(given)
        )
        answer = {
            "input_names": signature.inputs,
            "output_names": signature.outputs,
            "outputs": outputs,
            "bytes": peak if kind == "model.pt" else None,
        }
    except TraceError as error:
        answer = {"error": error.message}
    except Exception as error:
        answer = {"error": f"{type(error).__name__}: {str(error).strip()}"}
    torch.save(answer, gave)


def _torchscript(path: Path) -> tuple[Callable[..., Any], Signature]:
    try:
        module = torch.jit.load(str(path))  # type: ignore[no-untyped-call]
    except RuntimeError as error:
        if "torchvision::" not in str(error):
            raise
        # Triton's libtorch backend is linked with torchvision's operators; in Python, the import registers them.
        __import__("torchvision")
        module = torch.jit.load(str(path))  # type: ignore[no-untyped-call]
    _self, *arguments = module.forward.schema.arguments
    return module, Signature([argument.name for argument in arguments], None)


def _onnx(path: Path) -> tuple[Callable[..., Sequence[Tensor]], Signature]:
    import onnxruntime  # noqa: PLC0415 - not needed for TorchScript

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    signature = Signature([one.name for one in session.get_inputs()], [one.name for one in session.get_outputs()])

    def run(*inputs: Tensor) -> Sequence[Tensor]:
        feed = {name: tensor.numpy() for name, tensor in zip(signature.inputs, inputs, strict=True)}
        return [torch.from_numpy(output) for output in session.run(None, feed)]

    return run, signature


if __name__ == "__main__":
    warnings.filterwarnings("ignore", message=r"`torch\.jit\.\w+` is deprecated")
    with torch.no_grad():
        _main(sys.argv[1], *map(Path, sys.argv[2:]))
