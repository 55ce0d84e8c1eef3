"""Folders of the cache, which all checkouts share. Runs with every Python from 3.9."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

COMPLETE = ".complete"


class SetupError(Exception):
    """A failure that the user can act on."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def cache_root() -> Path:
    """Return the cache folder; the same as in src/local/install/cache.ts."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "triton-serving")


def cached(
    name: str,
    build: Callable[[Path], None],
    mark: str = COMPLETE,
    *,
    clear: bool = True,
    wait: Callable[[str], object] = lambda text: print(text, file=sys.stderr),
) -> Path:
    """Return the folder `name` of the cache, which `build` creates if it is missing.

    An interrupted build leaves no completion mark, so the next caller builds again. The system releases the lock of a
    process that ends. wait: called with the reason of a wait for another process.
    """
    root = cache_root()
    directory = root / name
    if (directory / mark).exists():
        with suppress(OSError):  # a read-only cache
            (directory / mark).touch()  # `npm run clean` deletes what was not used
        return directory
    try:
        root.mkdir(parents=True, exist_ok=True)
        lock = (root / f"{name}.lock").open("a+")
    except OSError as error:
        raise SetupError(
            f"cannot write {root}: {error}",
            "check the permissions and free space of the cache folder, or choose another with XDG_CACHE_HOME",
        ) from error
    with lock:
        _acquire(lock, name, wait)
        if (directory / mark).exists():
            return directory
        if clear:
            shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(exist_ok=True)
        build(directory)
        (directory / mark).touch()
    return directory


def _acquire(lock: Any, name: str, wait: Callable[[str], object]) -> None:
    """Lock the file; report the process that we wait for."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.seek(0)
        wait(f"waiting for process {lock.read()}, which prepares {name}")
        fcntl.flock(lock, fcntl.LOCK_EX)
    lock.truncate(0)
    lock.write(str(os.getpid()))
    lock.flush()


def digest(*parts: bytes) -> str:
    """Return a short digest of `parts`."""
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:12]
