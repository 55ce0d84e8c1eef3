"""Writes files atomically."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

_PREFIX = ".tracing-"


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, in hex."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def replace_file(source: Path, target: Path) -> None:
    """Flush `source` to disk and rename it to `target`, which must be on the same file system and may exist."""
    _sync(source)
    target.parent.mkdir(parents=True, exist_ok=True)
    os.replace(source, target)
    _sync(target.parent)


def replace_matching(sources: Sequence[Path], folder: Path, pattern: str) -> None:
    """Move `sources` into `folder`, and delete the other files there that match `pattern`."""
    names = {source.name for source in sources}
    for path in folder.glob(pattern):
        if path.name not in names:
            path.unlink()
    for source in sources:
        replace_file(source, folder / source.name)


@contextmanager
def scratch(folder: Path) -> Iterator[Path]:
    """Create a temporary directory of this process in `folder` and delete it at the end.

    Also deletes directories of dead processes, and `folder` itself if it is empty at the end, because an empty version
    folder would be a version without a model.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for orphaned in folder.glob(f"{_PREFIX}*"):
        if not _is_running(int(orphaned.name.removeprefix(_PREFIX))):
            shutil.rmtree(orphaned, ignore_errors=True)
    path = folder / f"{_PREFIX}{os.getpid()}"
    path.mkdir()
    (path / ".gitignore").write_text("*\n", encoding="utf-8")  # A killed process leaves the directory behind.
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        with suppress(OSError):  # not empty
            folder.rmdir()


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
