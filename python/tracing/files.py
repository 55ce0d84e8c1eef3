"""Files that appear whole or not at all."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

_PREFIX = ".tracing-"


def sha256_of(path: Path) -> str:
    """SHA-256 of a file's bytes, in hex."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def publish(source: Path, target: Path) -> None:
    """Renames `source` to `target`, on the same file system, once its bytes are on the disk. Replaces `target`."""
    _sync(source)
    target.parent.mkdir(parents=True, exist_ok=True)
    os.replace(source, target)
    _sync(target.parent)


def replace_matching(sources: Sequence[Path], folder: Path, pattern: str) -> None:
    """Puts `sources` into `folder`, and removes the other files there that match `pattern`."""
    wanted = {source.name for source in sources}
    for path in folder.glob(pattern):
        if path.name not in wanted:
            path.unlink()
    for source in sources:
        publish(source, folder / source.name)


@contextmanager
def scratch(folder: Path) -> Iterator[Path]:
    """A directory of this process in `folder`, removed at the end; those of processes that died go too.

    So is `folder` itself when nothing is in it: an empty version folder would be a version without a model.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for leftover in folder.glob(f"{_PREFIX}*"):
        if not _is_running(int(leftover.name.removeprefix(_PREFIX))):
            shutil.rmtree(leftover, ignore_errors=True)
    path = folder / f"{_PREFIX}{os.getpid()}"
    path.mkdir()
    (path / ".gitignore").write_text("*\n", encoding="utf-8")  # A process that is killed leaves the directory.
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        with suppress(OSError):  # it is not empty
            folder.rmdir()


def _is_running(pid: int) -> bool:
    if os.name != "posix":
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _sync(path: Path) -> None:
    if os.name != "posix" and path.is_dir():
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
