"""Makes one artifact: build, trace, check, save. Imports torch.

Fixed settings: no gradients, eval mode, parameters that need no gradient, the CPU, the seed set just before `export` is
called; `torch.jit.trace(module, example_inputs, strict=False, check_trace=True)` or `torch.jit.script(module)`.
The check runs on the file as it will be served, loaded again.
"""

from __future__ import annotations

import importlib.util
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from tracing.check import Tensors, compare
from tracing.contract import Export, OnnxExport, TorchScriptExport, TraceContext, TraceError, Weights
from tracing.files import publish, scratch, sha256_of
from tracing.fingerprint import given_weights, package_versions
from tracing.record import File, Record, record_path
from tracing.repository import Model

Step: TypeAlias = Literal["build", "trace", "check", "save"]


def make(model: Model, weights: str | None, seed: int, fingerprint: str, progress: Callable[[Step], None]) -> Record:
    """Writes the model's artifact, its extra files and its record, each whole or not at all.

    Raises TraceError, or whatever trace.py raises; then nothing was replaced.
    """
    artifact = model.artifact()
    progress("build")
    context = TraceContext(model.name, model.version, model.folder, model.config(), seed, weights)
    # torch.jit is deprecated in favour of torch.export, which Triton's libtorch backend cannot load.
    with torch.no_grad(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"`torch\.jit\.\w+` is deprecated", category=FutureWarning)
        warnings.filterwarnings("ignore", message=r"`torch\.jit\.\w+` is deprecated", category=DeprecationWarning)
        export = _export(model, context)
        _validate(export, context, artifact)
        export.eager.eval().requires_grad_(False)
        with scratch(model.version_folder) as folder:
            progress("trace")
            made = folder / artifact.name
            _write(export, made)
            progress("check")
            check = compare(export.eager, _load(export, made), export.fresh_inputs, export.tolerance)
            progress("save")
            extra = [
                _stage(folder / f"extra-{n}", path, data) for n, (path, data) in enumerate(export.extra_files.items())
            ]
            record = Record(
                model=model.name,
                version=model.version,
                artifact=_describe(made, f"{model.version}/{artifact.name}"),
                extra_files=extra,
                weights=_publishable(export.weights),
                given_weights=given_weights(weights),
                seed=seed,
                check=check,
                packages=package_versions(),
                fingerprint=fingerprint,
            )
            for n, file in enumerate(extra):
                publish(folder / f"extra-{n}", model.folder / file.path)
            publish(made, artifact)
            note = folder / "record"
            note.write_text(record.to_json(), encoding="utf-8")
            publish(note, record_path(artifact))
    return record


def _publishable(weights: Weights) -> Weights:
    """The same without folders of this machine: the record is published."""
    if weights.source is None or not Path(weights.source).exists():
        return weights
    return replace(weights, source=Path(weights.source).name)


def _export(model: Model, context: TraceContext) -> Export:
    """Calls `export` of the model's trace.py."""
    module = _import(model)
    torch.manual_seed(context.seed)
    try:
        export = module.export
    except AttributeError:
        raise TraceError(f"{model.trace_file} does not define export(context)") from None
    result = export(context)
    if not isinstance(result, TorchScriptExport | OnnxExport):
        raise TraceError(f"export in {model.trace_file} returned {type(result).__name__}, not an Export")
    return result


def _import(model: Model) -> ModuleType:
    """Loads trace.py by its path: model names are no Python names."""
    name = f"trace_{model.name}"
    spec = importlib.util.spec_from_file_location(name, model.trace_file)
    assert spec is not None  # a .py file has a loader
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _validate(export: Export, context: TraceContext, artifact: Path) -> None:
    kind = ".pt" if isinstance(export, TorchScriptExport) else ".onnx"
    if artifact.suffix != kind:
        raise TraceError(
            f"trace.py makes a {kind} file, but by its platform the model is served from {artifact.name}",
            "Make platform in model.yaml and the kind of export in trace.py agree.",
        )
    if context.weights is not None and export.weights.kind != "pretrained":
        raise TraceError(
            f"--weights {context.model}={context.weights} was given, but {context.model} does not load weights"
        )
    for path in export.extra_files:
        if Path(path).is_absolute() or ".." in Path(path).parts:
            raise TraceError(f"extra file {path!r} is outside the model's folder")


def _write(export: Export, path: Path) -> None:
    if isinstance(export, OnnxExport):
        export.save(path)
        return
    if export.example_inputs is None:
        module = torch.jit.script(export.eager)
    else:
        module = torch.jit.trace(  # type: ignore[no-untyped-call]
            export.eager, export.example_inputs, strict=False, check_trace=True
        )
    raw = path.with_name("with-debug-files")
    raw.mkdir()
    torch.jit.save(module, str(raw / path.name))
    _without_debug_files(raw / path.name, path)


def _without_debug_files(source: Path, target: Path) -> None:
    """Copies a TorchScript archive but for its `.debug_pkl` records, which only name source lines for error messages.

    They hold absolute paths of the machine that traced: private, and different bytes in every checkout.
    """
    # The writer makes these itself.
    generated = {"version", "byteorder", ".data/serialization_id"}
    reader = torch._C.PyTorchFileReader(str(source))
    writer = torch._C.PyTorchFileWriter(str(target))
    for name in reader.get_all_records():
        if name not in generated and not name.endswith(".debug_pkl"):
            data = reader.get_record(name)
            writer.write_record(name, data, len(data))
    writer.write_end_of_file()
    source.unlink()


def _load(export: Export, path: Path) -> Callable[..., Tensor | Sequence[Tensor]]:
    """The artifact as a function of tensors."""
    if isinstance(export, TorchScriptExport):
        module: Callable[..., Any] = torch.jit.load(str(path))  # type: ignore[no-untyped-call]
        return module
    import onnxruntime  # noqa: PLC0415 - not needed for TorchScript

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [tensor.name for tensor in session.get_inputs()]

    def run(*inputs: Tensor) -> Tensors:
        feed = {name: tensor.numpy() for name, tensor in zip(names, inputs, strict=True)}
        return tuple(torch.from_numpy(output) for output in session.run(None, feed))

    return run


def _stage(path: Path, name: str, data: bytes) -> File:
    path.write_bytes(data)
    return _describe(path, name)


def _describe(path: Path, name: str) -> File:
    return File(name, path.stat().st_size, sha256_of(path))
