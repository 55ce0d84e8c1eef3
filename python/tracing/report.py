"""The output of the command: one JSON object per line, which src/local/trace/trace.ts reads."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import asdict
from typing import Any, TypeAlias

from tracing.record import Record
from tracing.repository import Model
from tracing.user_lines import shortened

Event: TypeAlias = dict[str, Any]
Report: TypeAlias = Callable[[Event], None]


def started(model: Model) -> Event:
    return {"event": "start", "model": model.name, "version": model.version}


def progressed(model: Model, step: str) -> Event:
    return {"event": "progress", "model": model.name, "step": step}


def warned(model: Model, text: str) -> Event:
    """A possible mistake that does not stop the trace."""
    return {"event": "warning", "model": model.name, "text": shortened(text)}


def done(model: Model, record: Record, seconds: float) -> Event:
    return {"event": "done", **_facts(model, record), "seconds": round(seconds, 3)}


def up_to_date(model: Model, record: Record) -> Event:
    return {"event": "up-to-date", **_facts(model, record)}


def nothing(model: str) -> Event:
    """A model without a trace.py."""
    return {"event": "nothing", "model": model}


def failed(model: str, error: str, hint: str | None) -> Event:
    return {"event": "failed", "model": model, "error": shortened(error), "hint": hint}


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
