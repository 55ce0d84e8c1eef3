"""Runs an artifact like a server: in a process that has imported neither trace.py nor the eager module.

`python -m tracing.served KIND ARTIFACT INPUTS ANSWERS` is that process; `ask` starts it.
"""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor

from tracing.activations import measured
from tracing.check import REPEATABLE, Tensors, as_tuple, describe_difference
from tracing.child import child_environment, end_with_parent
from tracing.contract import TraceError
from tracing.interface import Signature, shapes_of

Run: TypeAlias = Callable[[Tensors], Tensors]
# Digests of the attributes that calls have changed, by their path in the module.
State: TypeAlias = Callable[[], dict[str, str]]

GUARDS = (
    "torch.export kept the branch that the example took, and the program refuses sizes that would take another one. "
    "Compute both cases with the same operations (torch.where, torch.sym_min), or serve the module as TorchScript."
)

# Begins the name of a tensor that became a constant of the trace. Attributes have no space in their names.
CONSTANT = "constant "


@dataclass(frozen=True)
class Served:
    """An artifact in a process of its own.

    outputs: for each set of inputs.  activation_bytes: peak bytes of tensors in one call; None for ONNX, because ONNX
    Runtime does not report it.  again: number and answer of the inputs that were sent again after all others.
    probed: the answers to the probes. An error of a call stands in place of its answer.
    random: whether a call took random numbers from PyTorch's generator.
    written: attributes of the TorchScript module that a call changes even if the call before had the same inputs, and
    constants that calls change.
    kept: attributes that depend on the inputs of the last call.
    """

    signature: Signature
    outputs: list[Tensors]
    activation_bytes: int | None
    again: list[tuple[int, Tensors | str]]
    probed: list[Tensors | str]
    random: bool
    written: list[str]
    kept: list[str]


def ask(
    artifact: Path, kind: str, inputs: Sequence[Tensors], probes: Sequence[Tensors], folder: Path, *, repeat: bool
) -> Served:
    """Run the artifact on the inputs, on some of these again if `repeat` is set, and on the probes.

    kind: model.pt, model.pt2 or model.onnx, because a configuration may name the file otherwise. folder: for the files
    that the two processes exchange.

    Raises TraceError with the artifact's error if it cannot be loaded, or run on the inputs.
    """
    inputs_file, answers_file = folder / "inputs", folder / "answers"
    torch.save((list(inputs), list(probes), repeat), inputs_file)
    command = [sys.executable, "-m", "tracing.served", kind, str(artifact), str(inputs_file), str(answers_file)]
    done = subprocess.run(command, env=child_environment(), check=False)
    inputs_file.unlink()
    if done.returncode != 0 or not answers_file.is_file():
        raise TraceError(
            f"the process that runs the saved {artifact.name} ended with {done.returncode}",
            "Its output is above. If the machine ran out of memory, trace with --jobs 1.",
        )
    answer: dict[str, Any] = torch.load(answers_file)
    answers_file.unlink()
    if "error" in answer:
        text = f"the saved {artifact.name} fails in a process of its own: {answer['error']}"
        is_guard = "Guard failed" in text or "Runtime assertion failed" in text
        raise TraceError(text, GUARDS if is_guard else None)
    return Served(Signature(answer.pop("input_names"), answer.pop("output_names")), **answer)


def require_stateless(served: Served, artifact: str, inputs: Sequence[Tensors], tolerance: float) -> list[str]:
    """Raise TraceError if an answer of the artifact depends on random numbers or on earlier calls. Return warnings."""
    if served.random:
        raise TraceError(
            f"the saved {artifact} draws random numbers, so its answers differ from call to call", REPEATABLE
        )
    for case, answer in served.again:
        how = (
            f"it fails: {answer}"
            if isinstance(answer, str)
            else describe_difference(served.outputs[case], answer, tolerance)
        )
        if how is not None:
            raise TraceError(
                f"the saved {artifact} returns another answer when it is called again with the same inputs, of shape "
                f"{shapes_of(inputs[case])}: {how}",
                REPEATABLE,
            )
    if served.written:
        raise TraceError(
            f"calls of the saved {artifact} change {', '.join(served.written)}, so later answers may differ",
            REPEATABLE,
        )
    return [
        f"the saved {artifact} keeps data of the last request in {name}. If a call reads {name} before it is written, "
        "a client may get an answer from the data of another: use a local variable"
        for name in served.kept
    ]


def _main(kind: str, artifact: Path, inputs_file: Path, answers_file: Path) -> None:
    answer: dict[str, Any]
    try:
        load = {"model.pt": _torchscript, "model.pt2": _program}.get(kind, _onnx)
        run, signature, state = load(artifact)
        inputs, probes, repeat = torch.load(inputs_file)
        # Copies, because `forward` may change its inputs. Made before the call, whose memory is measured.
        copies = [_copied(case) for case in inputs]
        generator = torch.get_rng_state()
        outputs, peak = measured(run, copies)
        repeated = _repeat(run, state, inputs, probes) if repeat else _Repeated([], [], [], [])
        answer = {
            "input_names": signature.inputs,
            "output_names": signature.outputs,
            "outputs": outputs,
            "activation_bytes": None if load is _onnx else peak,
            "random": not torch.equal(generator, torch.get_rng_state()),
            **vars(repeated),
        }
    except TraceError as error:
        answer = {"error": error.message}
    except Exception as error:
        answer = {"error": _text(error)}
    torch.save(answer, answers_file)


@dataclass
class _Repeated:
    """Fields of `Served` about calls after the first ones."""

    again: list[tuple[int, Tensors | str]]
    probed: list[Tensors | str]
    written: list[str]
    kept: list[str]


def _repeat(
    run: Run, state: Callable[[], dict[str, str]], inputs: Sequence[Tensors], probes: Sequence[Tensors]
) -> _Repeated:
    """Run the smallest inputs again before, between and after the probes, and the largest at the end."""
    sizes = [sum(tensor.numel() for tensor in case) for case in inputs]
    smallest, largest = sizes.index(min(sizes)), sizes.index(max(sizes))
    again: list[tuple[int, Tensors | str]] = []
    probed: list[Tensors | str] = []

    def ask_again(case: int) -> None:
        again.append((case, _outcome(run, inputs[case])))

    # Twice in a row, because two states may alternate.
    ask_again(smallest)
    before = state()
    ask_again(smallest)
    after = state()
    for case in probes:
        probed.append(_outcome(run, case))
        # A row of NaN or very large numbers may leave a state that no other input leaves.
        ask_again(smallest)
    first = state() if probes else after
    # A branch may need the largest inputs. They leave another state if the module keeps data of a request.
    if largest != smallest:
        ask_again(largest)
    kept = _changed(first, state())
    # A constant is refused although it may be scratch only: clients cannot be told whose data it holds.
    constants = {name for name in kept if name.startswith(CONSTANT)}
    return _Repeated(
        again,
        probed,
        sorted(constants.union(_changed(before, after))),
        [name for name in kept if name not in constants],
    )


def _changed(before: dict[str, str], after: dict[str, str]) -> list[str]:
    return sorted(name for name in after if after[name] != before.get(name))


def _copied(tensors: Tensors) -> Tensors:
    return tuple(tensor.clone() for tensor in tensors)


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip()}"


def _outcome(run: Run, case: Tensors) -> Tensors | str:
    """Return the answer, or the error of the call."""
    try:
        return run(_copied(case))
    except Exception as error:
        return _text(error)


def _torchscript(path: Path) -> tuple[Run, Signature, State]:
    try:
        module = torch.jit.load(str(path))  # type: ignore[no-untyped-call]
    except RuntimeError as error:
        if "torchvision::" not in str(error):
            raise
        # Triton's libtorch backend is linked with torchvision's operators; in Python, the import registers them.
        __import__("torchvision")
        module = torch.jit.load(str(path))  # type: ignore[no-untyped-call]
    _self, *arguments = module.forward.schema.arguments
    signature = Signature([argument.name for argument in arguments], None)
    return lambda case: _copied(as_tuple(module(*case))), signature, partial(_written, module, module.inlined_graph)


def _written(module: Any, graph: Any) -> dict[str, str]:
    """Return the path and a digest of each attribute that `forward` may write: those assigned, and tensors written.

    Values are compared, not the graph, so a module may fill a cache in the first call or use a buffer as scratch.
    graph: the inlined graph, whose constants are the tensors that calls write.
    """
    assignments = graph.findAllNodes("prim::SetAttr")
    assigned = {node.s("name") for node in assignments}
    objects = [node.inputsAt(0).node() for node in assignments]
    owners = {node.s("name") for node in objects if node.kind() == "prim::GetAttr"}
    names = assigned | {node.s("name") for node in graph.findAllNodes("prim::GetAttr")}
    digests = {}
    for path, part in module.named_modules():
        for name in names:
            try:
                value = getattr(part, name, None)
            except RuntimeError:
                # Python cannot read an object of a TorchScript class, such as torchvision's BoxCoder. If `forward`
                # assigns to its attributes, each call counts as a change.
                if name in owners:
                    digests[f"{path}.{name}".lstrip(".")] = os.urandom(8).hex()
                continue
            if isinstance(value, torch.nn.Module | torch._C.ScriptObject):
                continue
            # PyTorch counts the writes to a tensor in _version. A tensor without writes need not be read.
            if not isinstance(value, Tensor) or value._version > 0 or name in assigned:
                digests[f"{path}.{name}".lstrip(".")] = _digest(value)
    for number, node in enumerate(graph.findAllNodes("prim::Constant")):
        value = node.output().toIValue()
        if isinstance(value, Tensor) and value._version > 0:
            digests[f"{CONSTANT}{number} (a tensor of shape {list(value.shape)} in a dict, list or global)"] = _digest(
                value
            )
    return digests


def _digest(value: object) -> str:
    data = io.BytesIO()
    torch.save(value, data)
    return hashlib.sha256(data.getvalue()).hexdigest()


def _program(path: Path) -> tuple[Run, Signature, State]:
    from tracing.program import load_program  # noqa: PLC0415 - imports sympy

    module, signature = load_program(path)

    def state() -> dict[str, str]:
        # PyTorch counts the writes to a tensor in _version.
        tensors = [
            (f"{path}.{name}", value) for path, part in module.named_modules() for name, value in vars(part).items()
        ]
        named = [*module.named_parameters(), *module.named_buffers(), *tensors]
        return {name: _digest(value) for name, value in named if isinstance(value, Tensor) and value._version > 0}

    return lambda case: _copied(as_tuple(module(*case))), signature, state


def _onnx(path: Path) -> tuple[Run, Signature, State]:
    import onnxruntime  # noqa: PLC0415 - not needed for TorchScript

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_inputs()]
    signature = Signature(names, [one.name for one in session.get_outputs()])

    def run(inputs: Tensors) -> Tensors:
        feed = {name: tensor.numpy() for name, tensor in zip(names, inputs, strict=True)}
        return tuple(torch.from_numpy(output) for output in session.run(None, feed))

    return run, signature, dict  # an ONNX graph has no state


if __name__ == "__main__":
    end_with_parent()
    warnings.filterwarnings("ignore", message=r"`torch\.jit\.\w+` is deprecated")
    with torch.no_grad():
        _main(sys.argv[1], *map(Path, sys.argv[2:]))
