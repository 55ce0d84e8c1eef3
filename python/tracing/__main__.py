"""Makes the artifacts of the model repository: `python -m tracing --help`."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from model_packages.install import REQUIREMENTS
from tracing import report
from tracing.child import child_environment, end_with_parent
from tracing.contract import TraceError
from tracing.imports import importable
from tracing.record import Record, read_record
from tracing.report import Report
from tracing.repository import Model, find_models, untraced_models
from tracing.sources import given_weights, is_current, mark_verified
from tracing.user_lines import deepest_user_line, nearest_user_line

EXIT_OK, EXIT_FAILED, EXIT_USAGE = 0, 1, 2
# Interval of the reports about a step that takes long.
REPORT_S = 10
# Exit codes of a process that was told to end, which is no failure of the model.
STOPPED = (-signal.SIGINT, -signal.SIGTERM, 128 + signal.SIGTERM)


@dataclass(frozen=True)
class Options:
    """The command line, and its fields."""

    arguments: Sequence[str]
    repo: Path
    version: int | None
    models: list[str] | None
    exclude: list[str]
    weights: Mapping[str, str]
    seed: int
    force: bool
    quick: bool
    background: bool
    limit: int | None
    jobs: int


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0 if every chosen model was made or is up to date, 1 if one failed, 2 if the command line is wrong."""
    options = _parse(sys.argv[1:] if arguments is None else arguments)
    if options.background:
        os.nice(19)
    try:
        models = _choose(find_models(options.repo, options.version), options)
    except TraceError as error:
        print(error.message if error.hint is None else f"{error.message}\n    -> {error.hint}", file=sys.stderr)
        return EXIT_USAGE
    with report.json_lines() as emit:
        for name in options.models or []:
            if name in untraced_models(options.repo) and name not in options.exclude:
                emit(report.nothing(name))
        return EXIT_OK if _make_all(models, options, emit) else EXIT_FAILED


def _make_all(models: Sequence[Model], options: Options, emit: Report) -> bool:
    """Make all stale models. Return False if a model failed; the others are still made."""
    ok, stale = _find_stale(models, options, emit)
    if len(stale) == 1:
        return _make_in_this_process(stale[0], options, emit) and ok
    return _make_in_processes(stale, options, emit) and ok


def _find_stale(models: Sequence[Model], options: Options, emit: Report) -> tuple[bool, list[Model]]:
    """Return the models that have to be made, and False if the check failed for one of them."""
    stale: list[Model] = []
    ok = True
    for model in models:
        try:
            if options.force or not _report_if_up_to_date(model, options, emit):
                stale.append(model)
        except (TraceError, OSError) as error:
            ok = _fail(model, error, emit)
    return ok, stale


def _make_in_processes(models: Sequence[Model], options: Options, emit: Report) -> bool:
    """Make each model in a separate process, `options.jobs` of them in parallel.

    TorchScript numbers its classes per process, so in one process the bytes of a model would depend on the models
    traced before. Separate processes also free the memory of each model.
    """
    lock = threading.Lock()
    children: list[subprocess.Popen[str]] = []

    def emit_whole(event: report.Event) -> None:
        with lock:
            emit(event)

    with ThreadPoolExecutor(options.jobs) as pool:
        try:
            return all(list(pool.map(lambda model: _make_in_new_process(model, options, emit_whole, children), models)))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for child in children:
                child.terminate()
            raise


def _parse(arguments: Sequence[str]) -> Options:
    """Parse the flags of `npm run trace` and `npm run local`; src/local/trace/trace.ts is the only caller."""
    parser = argparse.ArgumentParser(prog="python -m tracing", description=__doc__)
    parser.add_argument("--repo", type=Path, default=Path(__file__).parents[2] / "model-repo")
    parser.add_argument("--version", type=_positive)
    parser.add_argument("--models", type=_names, metavar="A,B")
    parser.add_argument("--exclude", type=_names, default=[], metavar="A,B")
    parser.add_argument("--weights", type=_assignment, action="append", default=[], metavar="MODEL=WEIGHTS")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--force", action="store_true")
    parser.add_argument("--quick", action="store_true", help="check only the golden requests")
    parser.add_argument("--background", action="store_true", help="leave the processors to other programs")
    parser.add_argument("--limit", type=_positive, metavar="SECONDS", help="time for one model, which then fails")
    parser.add_argument("--jobs", type=_positive, default=_default_jobs(), metavar="N")
    values = vars(parser.parse_args(arguments))
    return Options(arguments, **{**values, "weights": dict(values["weights"])})


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}; allowed: 1, 2, 3 and so on")
    return int(text)


def _default_jobs() -> int:
    """Return 2 if there is enough memory, else 1. The largest model takes 3 GB; much of the work uses one core."""
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return 2 if (os.cpu_count() or 1) > 1 and memory_bytes > 12e9 else 1


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _assignment(text: str) -> tuple[str, str]:
    model, equals, weights = text.partition("=")
    if not (model and equals and weights):
        raise argparse.ArgumentTypeError(f"{text!r} is not MODEL=WEIGHTS")
    return model, weights


def _choose(models: Mapping[str, Model], options: Options) -> list[Model]:
    """Return the selected models that have a trace.py. Raises TraceError for an unknown name."""
    chosen = list(models) if options.models is None else options.models
    untraced = untraced_models(options.repo)
    named = {name: [*models, *untraced] for name in (*chosen, *options.exclude)}
    for name, allowed in [*named.items(), *((name, [*models]) for name in options.weights)]:
        if name not in allowed:
            close = get_close_matches(name, allowed, n=1)
            raise TraceError(
                f'{options.repo} has no model "{name}"; allowed: {", ".join(sorted(allowed)) or "none"}',
                f"did you mean {close[0]}?" if close else None,
            )
    return [models[name] for name in dict.fromkeys(chosen) if name in models and name not in options.exclude]


def _report_if_up_to_date(model: Model, options: Options, emit: Report) -> bool:
    record = read_record(model.artifact())
    if record is None or not _is_up_to_date(model, record, options):
        return False
    mark_verified(model, record)
    emit(report.up_to_date(model, record))
    return True


def _is_up_to_date(model: Model, record: Record, options: Options) -> bool:
    """Return whether making the model again would change nothing.

    Raises TraceError if it would replace the user's own weights with others.
    """
    same_sources = is_current(model, record, options.seed) and (record.checked == "thorough" or options.quick)
    given = given_weights(options.weights.get(model.name))
    if given is None and record.given_weights is not None and not same_sources:
        # Without --weights the artifact is kept: the user's own weights are never replaced with others.
        raise TraceError(
            f"it was traced with --weights {model.name}={record.given_weights.name}, and has to be made again",
            "Give --weights again, or name them in weights.yaml. --force uses the model's own weights instead.",
        )
    return same_sources and given in (None, record.given_weights)


def _make_in_this_process(model: Model, options: Options, emit: Report) -> bool:
    """Make one model in this process. Report a failure and return False."""
    began = time.monotonic()
    try:
        emit(report.started(model))
        record = _make(model, options, emit)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        hint = (
            f"Add the package that contains {package} to {model.folder / REQUIREMENTS}, or the module to that folder."
        )
        return _fail(model, error, emit, hint)
    except Exception as error:
        return _fail(model, error, emit)
    emit(report.done(model, record, time.monotonic() - began))
    return True


def _make(model: Model, options: Options, emit: Report) -> Record:
    with importable(model):
        from tracing.make import make  # noqa: PLC0415 - torch, which takes seconds to import

        weights = options.weights.get(model.name)
        with _watched(model, options, emit) as progress:
            return make(
                model,
                weights,
                options.seed,
                thorough=not options.quick,
                progress=progress,
                warn=lambda text: emit(report.warned(model, text)),
            )


@contextmanager
def _watched(model: Model, options: Options, emit: Report) -> Iterator[Callable[[str], None]]:
    """Yield a function that reports a step. A step that takes long is reported with the user's line that runs.

    At `options.limit` the model fails, and the process is ended.
    """
    steps, ended, began = ["start"], threading.Event(), time.monotonic()
    maker = threading.get_ident()

    def progress(step: str) -> None:
        steps.append(step)
        emit(report.progressed(model, step))

    def watch() -> None:
        while not ended.wait(REPORT_S if options.limit is None else min(REPORT_S, options.limit)):
            at = nearest_user_line(model, traceback.extract_stack(sys._current_frames()[maker]))
            seconds = time.monotonic() - began
            step = f"{steps[-1]}{'' if at is None else f' at {at}'}"
            if options.limit is None or seconds < options.limit:
                emit(report.progressed(model, f"{step}, {seconds:.0f} s so far"))
                continue
            message = f"the trace did not end within {options.limit} s; last step: {step}"
            emit(report.failed(model.name, message, "npm run trace has no limit, and reports each 10 s what it does."))
            signal.pthread_kill(maker, signal.SIGTERM)
            if not ended.wait(REPORT_S):  # code that receives no signal, or catches SystemExit
                os._exit(EXIT_FAILED)

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield progress
    finally:
        ended.set()


def _make_in_new_process(model: Model, options: Options, emit: Report, children: list[subprocess.Popen[str]]) -> bool:
    """Make one model in a separate process, which is added to `children`, and pass its events to `emit`."""
    command = [sys.executable, "-m", "tracing", *options.arguments, "--force", "--models", model.name]
    reported = False
    with subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8", env=child_environment()) as child:
        children.append(child)
        assert child.stdout is not None  # PIPE above
        try:
            for line in child.stdout:
                event = json.loads(line)
                emit(event)
                reported = reported or event["event"] == "failed"
        except BaseException:
            child.terminate()
            raise
    if child.returncode not in (EXIT_OK, *STOPPED) and not reported:
        reason = (
            f"was terminated by signal {-child.returncode}"
            if child.returncode < 0
            else f"exited with {child.returncode}"
        )
        emit(
            report.failed(
                model.name,
                f"the tracing process {reason}",
                "Its output is above. If the machine ran out of memory, trace with --jobs 1.",
            )
        )
    return child.returncode == EXIT_OK


def _fail(model: Model, error: Exception, emit: Report, hint: str | None = None) -> bool:
    if isinstance(error, TraceError):
        for one in (error, *error.others):
            emit(report.failed(model.name, one.message, one.hint))
    else:
        if not isinstance(error, OSError):
            traceback.print_exception(error)
        at = deepest_user_line(model, error)
        emit(report.failed(model.name, f"{'' if at is None else f'{at}: '}{type(error).__name__}: {error}", hint))
    return False


if __name__ == "__main__":
    # SIGTERM raises SystemExit, so that a terminated process cleans up like an interrupted one.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    end_with_parent()
    sys.exit(main())
