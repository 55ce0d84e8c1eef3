"""Finds lines of the user's files for messages, and shortens messages of libraries."""

from __future__ import annotations

import sys
import sysconfig
import traceback
from pathlib import Path

from tracing.repository import Model


def user_line(model: Model, file: str, line: int | None) -> str | None:
    """Return `model-repo/NAME/trace.py:LINE`; None for installed packages and files outside the model repository."""
    repository = model.folder.resolve().parent
    path = Path(file).resolve()
    installed = [Path(sysconfig.get_path(kind)).resolve() for kind in ("stdlib", "purelib", "platlib")]
    if not path.is_relative_to(repository) or any(path.is_relative_to(folder) for folder in installed):
        return None
    return f"{path.relative_to(repository.parent).as_posix()}:{line}"


def deepest_user_line(model: Model, error: BaseException) -> str | None:
    """Return the deepest frame of `error` that is in the user's files; None if there is none."""
    if isinstance(error, SyntaxError) and error.filename is not None:
        return user_line(model, error.filename, error.lineno)
    return nearest_user_line(model, traceback.extract_tb(error.__traceback__))


def nearest_user_line(model: Model, frames: traceback.StackSummary) -> str | None:
    """Return the innermost of `frames` that is in the user's files; None if there is none."""
    lines = (user_line(model, frame.filename, frame.lineno) for frame in reversed(frames))
    return next((found for found in lines if found is not None), None)


MOST_LINES = 20


def shortened(text: str) -> str:
    """Return at most 20 lines: the first ones, and the last ones, which often have the cause. stderr gets all."""
    lines = text.strip().splitlines()
    if len(lines) <= MOST_LINES:
        return text.strip()
    print(text, file=sys.stderr)
    first, last = lines[: MOST_LINES // 2], lines[-(MOST_LINES // 2 - 1) :]
    return "\n".join([*first, f"... ({len(lines) - len(first) - len(last)} lines omitted)", *last])
