"""The output of the command: one JSON object per line for programs, or one sentence per line for people."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import asdict
from typing import Any, TypeAlias

from tracing.record import Record
from tracing.repository import Model

Event: TypeAlias = dict[str, Any]
Report: TypeAlias = Callable[[Event], None]

_STEPS = {
    "build": "building the model",
    "trace": "tracing",
    "check": "checking against PyTorch",
    "save": "saving",
}


def started(model: Model) -> Event:
    return {"event": "start", "model": model.name, "version": model.version}


def progressed(model: Model, step: str) -> Event:
    return {"event": "progress", "model": model.name, "step": step}


def warned(model: Model, text: str) -> Event:
    """A possible mistake that does not stop the trace."""
    return {"event": "warning", "model": model.name, "text": text}


def done(model: Model, record: Record, seconds: float) -> Event:
    return {"event": "done", **_facts(model, record), "seconds": round(seconds, 3)}


def up_to_date(model: Model, record: Record) -> Event:
    return {"event": "up-to-date", **_facts(model, record)}


def fitted(model: Model, changes: Sequence[str]) -> Event:
    """Fields that were set in model.yaml, one phrase for each."""
    return {"event": "fitted", "model": model.name, "changes": [*changes]}


def explained(model: Model, record: Record | None, reasons: Sequence[str]) -> Event:
    """Reasons to make a model; without reasons the model is up to date."""
    files = 0 if record is None else len(record.sources)
    packages = 0 if record is None else len(record.packages)
    return {"event": "explain", "model": model.name, "reasons": [*reasons], "files": files, "packages": packages}


def explanation(event: Event) -> str:
    if event["reasons"]:
        return f"{event['model']}: would be traced: {'; '.join(event['reasons'])}"
    return (
        f"{event['model']}: up to date: {event['files']} source files, {event['packages']} packages, "
        "the seed and the weights are unchanged"
    )


def nothing(model: str, own: str | None) -> Event:
    """A model without a trace.py. own: the model's own file, if there is one."""
    return {"event": "nothing", "model": model, "file": own}


def failed(model: str, error: str, hint: str | None) -> Event:
    return {"event": "failed", "model": model, "error": error, "hint": hint}


@contextmanager
def json_lines() -> Iterator[Report]:
    """Print one line of JSON per event on stdout, and redirect all other output of the process to stderr."""
    sys.stdout.flush()
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as stream, redirect_stdout(sys.stderr):
        os.dup2(2, 1)  # for output that is not printed by Python
        try:
            yield lambda event: print(json.dumps(event), file=stream, flush=True)
        finally:
            os.dup2(stream.fileno(), 1)


@contextmanager
def text_lines() -> Iterator[Report]:
    """Print one sentence per event, for people."""
    yield as_text


def as_text(event: Event) -> None:
    """Print one sentence: results on stdout, progress and failures on stderr."""
    match event["event"]:
        case "start":
            return
        case "progress":
            print(f"{event['model']}: {_STEPS[event['step']]} ...", file=sys.stderr, flush=True)
        case "warning":
            print(f"{event['model']}: warning: {event['text']}", file=sys.stderr, flush=True)
        case "explain":
            print(explanation(event), flush=True)
        case "fitted":
            print(f"{event['model']}: model.yaml was changed: {'; '.join(event['changes'])}", flush=True)
        case "nothing":
            has = "has no trace.py" if event["file"] is None else f"has its own {event['file']}"
            print(f"{event['model']} {has}, so nothing is traced", flush=True)
        case "failed":
            hint = "" if event["hint"] is None else f"\n    -> {event['hint']}"
            print(f"{event['model']}: failed: {event['error']}{hint}", file=sys.stderr, flush=True)
        case "done":
            print(f"{_sentence(event)}; made in {event['seconds']:.1f} s", flush=True)
        case "up-to-date":
            print(f"{_sentence(event)}; up to date", flush=True)


def _facts(model: Model, record: Record) -> Event:
    return {
        "model": model.name,
        "version": model.version,
        "artifact": str(model.folder / record.artifact.path),
        "bytes": record.artifact.bytes,
        "sha256": record.artifact.sha256,
        "weights": asdict(record.weights),
        "checked": record.checked,
        "check": asdict(record.check),
    }


def _sentence(event: Event) -> str:
    check = event["check"]
    empty = "".join(
        f"; no value of output {output} was compared, because it had no elements" for output in check["empty_outputs"]
    )
    return (
        f"{event['model']}/{event['version']}: {event['bytes'] / 2**20:.1f} MiB; "
        f"largest difference from PyTorch {check['max_abs_diff']:.3g} (allowed {check['tolerance']:g}), "
        f"{check['exceeding']:,} of {check['elements']:,} elements exceed rtol = atol = {check['rtol']:g}; "
        f"{event['weights']['description']}{empty}"
    )
