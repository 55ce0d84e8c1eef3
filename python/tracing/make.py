"""Makes one artifact: build, trace, check, save. Imports torch.

Fixed settings: no gradients, eval mode, parameters without gradients, the CPU, the seed set just before `export` is
called; `torch.jit.trace(module, example_inputs, strict=False, check_trace=True)` or `torch.jit.script(module)`.
The check uses the file that will be served, loaded by another process.
"""

from __future__ import annotations

import importlib.util
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import Literal, TextIO, TypeAlias

import torch
from torch.jit._trace import TracerWarning, TracingCheckError

from model_packages.install import REQUIREMENTS
from tracing import golden
from tracing.activations import measured
from tracing.check import Tensors, answers, compare, require_content, require_repeatable
from tracing.contract import Export, OnnxExport, ProgramExport, TorchScriptExport, TraceContext, TraceError, Weights
from tracing.files import replace_file, replace_matching, scratch, sha256_of
from tracing.interface import (
    Interface,
    Signature,
    argument_names,
    compare_with_config,
    is_comparable,
    network_dims,
    program_signature,
    require_variety,
)
from tracing.record import Check, File, Record, other_artifacts, read_record, record_path
from tracing.repository import Model
from tracing.rows import make_probes, require_separate_rows
from tracing.served import ask, require_stateless
from tracing.sources import (
    PACKAGES,
    forget_bytecode,
    given_weights,
    imported_files,
    imported_packages,
    package_versions,
    source_files,
)
from tracing.user_lines import user_line

# torch.jit.trace compares two answers with torch.testing, which would import torch.distributed and sympy for that. This
# takes seconds in each process.
torch.testing._comparison._HAS_DTENSOR = False

# Files in a model's folder that no trace writes.
_CONFIGURATION = ("model.yaml", "config.pbtxt", "weights.yaml", REQUIREMENTS, ".gitignore")

Step: TypeAlias = Literal["build", "trace", "check", "save"]


def make(
    model: Model,
    weights: str | None,
    seed: int,
    *,
    thorough: bool,
    progress: Callable[[Step], None],
    warn: Callable[[str], None],
) -> Record:
    """Write the model's artifact, golden requests, extra files and record, each file atomically.

    thorough: check all fresh inputs, repeated calls, other rows of a batch, and that a second trace gives the same
        graph. Otherwise only the fresh inputs that become golden requests are checked; the artifact is the same.
    warn: called with the warnings of the trace, once for each line of the user's files.

    Raises TraceError or any exception of trace.py; no file is replaced then.
    """
    artifact = model.artifact()
    progress("build")
    before = read_record(artifact)
    sources, modules = source_files(model), set(sys.modules)
    forget_bytecode(model, {*sources, *([] if before is None else before.sources)})
    context = TraceContext(model.name, model.version, model.folder, model.config(), seed, weights)
    # torch.jit is deprecated in favour of torch.export. docs/decisions.md gives the reasons to use TorchScript anyway.
    with torch.no_grad(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"`torch\.jit\.\w+` is deprecated", category=FutureWarning)
        warnings.filterwarnings("ignore", message=r"`torch\.jit\.\w+` is deprecated", category=DeprecationWarning)
        _report_tracer_warnings(model, warn)
        export = load_export(model, context)
        kind = model.kind()
        _validate(export, context, kind, artifact)
        for parameter in export.eager.eval().parameters():  # Module.requires_grad_ does not work on a scripted module
            parameter.requires_grad_(False)
        interface = None
        if kind != "model.onnx":
            # Before the trace, which may take minutes. Only one input, so that quick and thorough checks trace a module
            # in the same state. The names in an ONNX file are known only after the export.
            smallest = min(map(tuple, export.fresh_inputs), key=lambda case: sum(tensor.numel() for tensor in case))
            outputs = answers(export.eager, [smallest])
            interface = match(context, export, _names(export, kind, smallest), [smallest], outputs, kind=kind)
        with scratch(model.version_folder) as folder:
            made = folder / "version" / artifact.name
            made.parent.mkdir()
            progress("trace")
            if kind == "model.pt2":
                _write_program(export, context, interface, made, warn)
            else:
                _write(export, made, folder, check_trace=thorough)
            progress("check")
            checked = _check(export, context, kind, made, folder, thorough=thorough, warn=warn)
            progress("save")
            # The artifact is written after its data files, so that an incomplete version has no artifact.
            written = sorted(path for path in made.parent.rglob("*") if path.is_file() and path != made)
            data = [_describe(path, f"{model.version}/{path.relative_to(made.parent).as_posix()}") for path in written]
            extra = [
                _stage(folder / f"extra-{n}", path, data) for n, (path, data) in enumerate(export.extra_files.items())
            ]
            # For files that changed during the trace, record the digests from before it.
            sources = {**source_files(model, imported_files(model, modules)), **sources}
            sources = {name: digest for name, digest in sources.items() if name not in export.extra_files}
            record = Record(
                model=model.name,
                version=model.version,
                artifact=_describe(made, f"{model.version}/{artifact.name}"),
                data_files=data,
                extra_files=extra,
                golden=[_describe(path, f"golden/{model.version}/{path.name}") for path in checked.golden],
                weights=_publishable(export.weights),
                given_weights=given_weights(weights),
                seed=seed,
                checked="thorough" if thorough else "quick",
                check=checked.comparison,
                activation_bytes=checked.activation_bytes,
                max_batch_size=context.max_batch_size,
                input_dims=[list(map(int, network_dims(tensor))) for tensor in context.config.get("input") or []],
                packages=package_versions(sorted({*PACKAGES, *imported_packages(model, sources)})),
                sources=sources,
            )
            for n, file in enumerate(extra):
                replace_file(folder / f"extra-{n}", model.folder / file.path)
            replace_matching(checked.golden, model.golden_folder, "traced-*")
            for path, file in zip(written, data, strict=True):
                replace_file(path, model.folder / file.path)
            replace_file(made, artifact)
            note = folder / "record"
            note.write_text(record.to_json(), encoding="utf-8")
            replace_file(note, record_path(artifact))
            for file in [] if before is None else [*before.data_files, *before.extra_files]:
                if file.path not in {one.path for one in (*data, *extra)}:
                    (model.folder / file.path).unlink(missing_ok=True)
            for other in other_artifacts(artifact):
                # A file that the user has written since stays.
                former = read_record(other)
                if former is not None and other.is_file() and sha256_of(other) == former.artifact.sha256:
                    other.unlink()
                record_path(other).unlink()
    return record


@dataclass(frozen=True)
class _Expected:
    """Fresh inputs, the answers of the eager module, and the peak bytes of its tensors in one call."""

    inputs: list[Tensors]
    outputs: list[Tensors]
    activation_bytes: int


def _expect(export: Export, *, thorough: bool) -> _Expected:
    """Run the eager module on the fresh inputs; unless `thorough`, on those that become golden requests."""
    fresh = [tuple(case) for case in export.fresh_inputs]
    inputs = fresh if thorough else [fresh[case] for case in golden.representative(fresh)]
    outputs, peak = measured(lambda case: answers(export.eager, [case])[0], inputs)
    if len(inputs) < len(fresh) and any(tensor.numel() == 0 for answer in outputs for tensor in answer):
        # Another input may give elements to compare, and is then the golden request.
        return _expect(export, thorough=True)
    return _Expected(inputs, outputs, peak)


def match(
    context: TraceContext,
    export: Export,
    signature: Signature,
    inputs: Sequence[Tensors],
    outputs: Sequence[Tensors],
    *,
    kind: str,
) -> Interface | None:
    """Match the tensors of model.yaml with those of the network; None if they cannot be compared.

    inputs: fresh inputs; outputs: the answers to these. Raises one TraceError with all differences.
    """
    if not is_comparable(context.config):
        return None
    fresh = [tuple(case) for case in export.fresh_inputs]
    example = export.example_inputs if isinstance(export, ProgramExport) else None
    given = [*inputs, *fresh, *([] if example is None else [example])]
    interface = compare_with_config(context.config, signature, kind, given, outputs)
    require_variety(interface, fresh, example, context.max_batch_size)
    return interface


@dataclass(frozen=True)
class _Checked:
    comparison: Check
    activation_bytes: int
    golden: list[Path]


def _check(
    export: Export,
    context: TraceContext,
    kind: str,
    made: Path,
    folder: Path,
    *,
    thorough: bool,
    warn: Callable[[str], None],
) -> _Checked:
    """Compare the artifact `made` with the eager module and model.yaml, and write golden requests to `folder`.

    Raises TraceError for the first difference.
    """
    expected = _expect(export, thorough=thorough)
    inputs, outputs = expected.inputs, expected.outputs
    probes = []
    if thorough:
        require_repeatable(export.eager, inputs, outputs, export.tolerance)
        if context.max_batch_size > 0 and is_comparable(context.config):
            probes = make_probes(inputs)
    served = ask(made, kind, inputs, [probe.inputs for probe in probes], folder, repeat=thorough)
    for text in require_stateless(served, made.name, inputs, export.tolerance):
        warn(text)
    comparison = compare(inputs, outputs, served.outputs, export.tolerance)
    for text in require_content(outputs, export.allowed_served) if thorough else []:
        warn(text)
    interface = match(context, export, served.signature, inputs, outputs, kind=kind)
    requests = []
    if interface is not None:
        served_outputs = {slot.position for slot in interface.outputs}
        for position in sorted(set(range(len(outputs[0]))) - served_outputs):
            warn(f"output {position} of forward() is not in model.yaml, so clients do not get it")
        for text in require_separate_rows(probes, served.probed, served.outputs, interface, export.tolerance):
            warn(text)
        requests = _golden(folder / "golden", interface, export, inputs, outputs)
    peak = expected.activation_bytes if served.activation_bytes is None else served.activation_bytes
    return _Checked(comparison, peak, requests)


def _report_tracer_warnings(model: Model, warn: Callable[[str], None]) -> None:
    """Pass TracerWarnings of the user's files to `warn`, until the caller's `warnings.catch_warnings` ends.

    Those of libraries, which are rarely mistakes, are dropped.
    """
    show = warnings.showwarning
    warnings.filterwarnings("always", category=TracerWarning)  # PyTorch ignores those of its own modules
    seen: list[str] = []

    def report(  # noqa: PLR0917 - as warnings calls it
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if not issubclass(category, TracerWarning):
            show(message, category, filename, lineno, file, line)
            return
        at = user_line(model, filename, lineno)
        if at is not None and at not in seen:
            seen.append(at)
            warn(f"{at}: {str(message).strip()}")

    warnings.showwarning = report


def _publishable(weights: Weights) -> Weights:
    """Remove local folders from the source, because the record is published."""
    if weights.source is None or not Path(weights.source).exists():
        return weights
    return replace(weights, source=Path(weights.source).name)


def load_export(model: Model, context: TraceContext) -> Export:
    """Call `export` of the model's trace.py."""
    module = _import(model)
    torch.manual_seed(context.seed)
    try:
        export = module.export
    except AttributeError:
        raise TraceError(f"{model.trace_file} does not define export(context)") from None
    result = export(context)
    if not isinstance(result, ProgramExport | OnnxExport):
        raise TraceError(f"export in {model.trace_file} returned {type(result).__name__}, not an Export")
    return result


def _import(model: Model) -> ModuleType:
    """Load trace.py by its path, because a model name need not be a Python identifier."""
    name = f"trace_{model.name}"
    spec = importlib.util.spec_from_file_location(name, model.trace_file)
    assert spec is not None  # a .py file has a loader
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _validate(export: Export, context: TraceContext, kind: str, artifact: Path) -> None:
    made = "model.onnx" if isinstance(export, OnnxExport) else "model.pt"
    if kind not in (made, "model.pt2"):  # a program needs only the module and its inputs
        raise TraceError(
            f"trace.py exports a {made}, but platform in model.yaml requires a {kind}",
            "Change platform in model.yaml, or the kind of export in trace.py.",
        )
    if context.weights is not None and export.weights.kind != "pretrained":
        raise TraceError(
            f"--weights {context.model}={context.weights} was given, but {context.model} does not load weights",
            "Omit --weights, or load context.weights in trace.py.",
        )
    _require_tensors(export)
    _require_free(export, context, artifact)


def _require_tensors(export: Export) -> None:
    """Raise TraceError if the eager module or its inputs have other types than those of the contract."""
    cases = export.fresh_inputs if isinstance(export.fresh_inputs, list | tuple) else []
    example = getattr(export, "example_inputs", None)
    given = [*cases, *([] if example is None else [example])]
    tuples = all(isinstance(case, list | tuple) and all(isinstance(x, torch.Tensor) for x in case) for case in given)
    if not (isinstance(export.eager, torch.nn.Module) and cases and tuples):
        raise TraceError(
            "in trace.py, eager must be a torch.nn.Module, example_inputs a tuple of tensors, and fresh_inputs a list "
            "of one or more tuples of tensors",
            "Give one tuple for each call of forward(), also if it has one argument: fresh_inputs=[(x,), (y,)].",
        )


def _require_free(export: Export, context: TraceContext, artifact: Path) -> None:
    """Raise TraceError if extra files would replace sources, the artifact or its record, or files of other versions."""
    for path in export.extra_files:
        first, *others = PurePosixPath(path).parts or ("",)
        plain = PurePosixPath(path).as_posix() == path
        in_version = (
            first == str(context.version) and len(others) > 0 and not path.startswith(f"{first}/{artifact.name}")
        )
        in_folder = not first.isdecimal() and first not in {*_CONFIGURATION, "golden", "/", ""}
        if not plain or ".." in (first, *others) or path.endswith(".py") or not (in_version or in_folder):
            raise TraceError(
                f"extra_files cannot have {path!r}: it must be inside the model's folder, of versions only in "
                f"{context.version}, and must not replace a source of the model, its artifact or a golden request",
                "Give the file another name in trace.py, such as labels.txt or 1/vocab.txt.",
            )


def _names(export: Export, kind: str, example: Tensors) -> Signature:
    """Return the names that the artifact will have."""
    if kind == "model.pt":
        return Signature(argument_names(export.eager), None)
    returned = export.eager(*(tensor.clone() for tensor in example))
    if isinstance(returned, tuple) and type(returned) is not tuple:
        raise TraceError(
            f"forward() returns a {type(returned).__name__}, which Triton refuses for a program",
            "Return tuple(...) of it.",
        )
    return program_signature(example, returned)


def _generality(case: Tensors) -> tuple[bool, int]:
    """Return a key that is largest for the best example: no size of 0 or 1, which torch.export would fix, and large."""
    sizes = [size for tensor in case for size in tensor.shape]
    return min(sizes, default=0) > 1, sum(tensor.numel() for tensor in case)


def _write_program(
    export: Export,
    context: TraceContext,
    interface: Interface | None,
    path: Path,
    warn: Callable[[str], None],
) -> None:
    """Write an exported program to `path`."""
    from tracing.program import export_program, save_program  # noqa: PLC0415 - imports sympy

    if interface is None:
        raise TraceError(
            "Triton serves no sequences and ragged batches with platform torch_aoti",
            "Use platform: pytorch_libtorch in model.yaml.",
        )
    given = export.example_inputs if isinstance(export, ProgramExport) else None
    example = given or max(export.fresh_inputs, key=_generality)
    save_program(export_program(export.eager, tuple(example), interface, context.max_batch_size, warn), path)


def _write(export: Export, path: Path, folder: Path, *, check_trace: bool) -> None:
    """Write the artifact to `path`; an ONNX export may write other files beside it. folder: for temporary files."""
    if isinstance(export, OnnxExport):
        export.save(path)
        if not path.is_file():
            raise TraceError(f"save in trace.py did not write {path.name}, the path that it was given")
        return
    try:
        module = torchscript(export, check_trace=check_trace)
    except TracingCheckError as error:
        print(error, file=sys.stderr)  # two graphs with their lines
        raise TraceError(
            "forward() uses another number when it is traced again",
            "A clock such as time.time(), a random number of Python or NumPy, a counter or other state causes that. "
            "Keep such a number in a buffer, or make it an input.",
        ) from None
    raw = folder / "with-debug-files"
    raw.mkdir()
    torch.jit.save(module, str(raw / path.name))
    _without_debug_files(raw / path.name, path)


def torchscript(export: ProgramExport, *, check_trace: bool = True) -> torch.jit.ScriptModule:
    """Return the TorchScript module to save."""
    if export.example_inputs is None:
        module: torch.jit.ScriptModule = torch.jit.script(export.eager)
    else:
        module = torch.jit.trace(  # type: ignore[no-untyped-call]
            export.eager, export.example_inputs, strict=False, check_trace=check_trace
        )
    return torch.jit.freeze(module.eval()) if isinstance(export, TorchScriptExport) and export.freeze else module


def _without_debug_files(source: Path, target: Path) -> None:
    """Copy a TorchScript archive without its `.debug_pkl` records, which only give source lines for error messages.

    They contain absolute paths of the tracing machine, which are private and make the bytes depend on the checkout.
    """
    # The writer creates these records itself. `version` is copied: the writer would write its lowest version, and a
    # reader would apply the old meaning of operators, such as an integer division that truncates.
    generated = {"byteorder", ".data/serialization_id"}
    reader = torch._C.PyTorchFileReader(str(source))
    writer = torch._C.PyTorchFileWriter(str(target))
    for name in reader.get_all_records():
        if name not in generated and not name.endswith(".debug_pkl"):
            data = reader.get_record(name)
            writer.write_record(name, data, len(data))
    writer.write_end_of_file()
    source.unlink()


def _golden(
    folder: Path, interface: Interface, export: Export, inputs: Sequence[Tensors], outputs: Sequence[Tensors]
) -> list[Path]:
    """Write golden requests to `folder` and return their files."""
    folder.mkdir()
    cases = [(inputs[case], outputs[case]) for case in golden.choose(inputs, outputs)]
    return golden.write(folder, interface, cases, export.allowed_served)


def _stage(path: Path, name: str, data: bytes) -> File:
    path.write_bytes(data)
    return _describe(path, name)


def _describe(path: Path, name: str) -> File:
    return File(name, path.stat().st_size, sha256_of(path))
