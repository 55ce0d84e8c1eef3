"""Installs the packages of a requirements.txt with uv, once for each content, into a cache that all checkouts share.

A model.py gets its own environment with only NumPy and its packages, like in Triton's container image. A trace.py gets
a folder that is searched before the environment that traces, which already has PyTorch.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

REQUIREMENTS = "requirements.txt"
"""File in a model's folder; applies to all versions."""

NUMPY = "numpy<2"
"""Triton 2.51 is built for the memory layout of NumPy 1. With NumPy 2, tensors are empty or have wrong values."""


OLDEST_TORCH = (2, 3)
"""The first PyTorch with unsigned integers of 16 to 64 bits, which the check of a trace compares."""


class InstallError(Exception):
    """Packages cannot be installed. The message is for the person who wrote requirements.txt."""


@dataclass(frozen=True)
class Uv:
    """The installer."""

    program: str
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables added to ours, because a server's process lacks those for proxies, certificates and package indices."""

    def run(self, arguments: list[str], requirements: Path) -> str:
        """Run uv and return its stdout. Raises InstallError."""
        environment = {**os.environ, **self.environment}
        command = [self.program, *arguments]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        except OSError as error:
            raise InstallError(f"cannot install the packages of {_name(requirements)}: {error}") from None
        if done.returncode != 0:
            raise InstallError(f"cannot install the packages of {_name(requirements)}: {_reason(done.stderr)}")
        return done.stdout


def serving_environment(requirements: Path, python: str, uv: Uv) -> Path:
    """Return the virtual environment for a model.py. `requirements` need not exist.

    python: the interpreter from which the environment is made. Raises InstallError.
    """

    def build(target: Path) -> None:
        uv.run(["venv", "--quiet", "--python", python, str(target)], requirements)
        named = ["-r", str(requirements)] if requirements.exists() else []
        uv.run(["pip", "install", "--quiet", "--python", f"{target}/bin/python", NUMPY, *named], requirements)

    return _once("model-python", [python, NUMPY, *_content(requirements)], build)


def tracing_packages(requirements: Path, python: str, uv: Uv) -> Path:
    """Return a folder for sys.path with the packages of `requirements` that the environment of `python` lacks.

    An installed package is used if its version satisfies `requirements`. Raises InstallError.
    """
    installed = uv.run(["pip", "freeze", "--quiet", "--python", python], requirements)

    def build(target: Path) -> None:
        target.mkdir()
        lock = target / ".lock.txt"
        # uv prefers the versions in an existing output file.
        lock.write_text(installed, encoding="utf-8")
        quiet = ["--quiet", "--no-header", "--annotation-style", "line", "--python", python]
        uv.run(["pip", "compile", *quiet, str(requirements), "--output-file", str(lock)], requirements)
        resolved = lock.read_text(encoding="utf-8").splitlines()
        _require_torch(resolved, requirements)
        present = set(installed.splitlines())
        missing = [line for line in resolved if line.partition(" ")[0] not in present]
        if missing:
            lock.write_text("\n".join(missing) + "\n", encoding="utf-8")
            where = ["--quiet", "--python", python, "--target", str(target)]
            uv.run(["pip", "install", *where, "--no-deps", "-r", str(lock)], requirements)

    return _once("trace-packages", [python, installed, *_content(requirements)], build)


def _require_torch(resolved: list[str], requirements: Path) -> None:
    """Raise InstallError if `resolved`, lines of NAME==VERSION # via NAME, ..., have a PyTorch older than ours allows.

    Called before the download, which is several gigabytes.
    """
    matches = (re.match(r"torch==((\d+)\.(\d+)[^\s+]*)\S*(?: *# via (.*))?", line) for line in resolved)
    found = next(filter(None, matches), None)
    if found is None or (int(found[2]), int(found[3])) >= OLDEST_TORCH:
        return
    versions = dict(line.partition(" ")[0].split("==", 1) for line in resolved if "==" in line)
    users = [f"{name} {versions[name]}" for name in (found[4] or "").split(", ") if name in versions]
    why = f", required by {' and '.join(users)}" if users else ""
    oldest = ".".join(map(str, OLDEST_TORCH))
    raise InstallError(f"{_name(requirements)} brings PyTorch {found[1]}{why}; tracing needs {oldest} or newer")


def _content(requirements: Path) -> list[str]:
    return [requirements.read_text(encoding="utf-8")] if requirements.exists() else []


def _once(kind: str, identity: list[str], build: Callable[[Path], None]) -> Path:
    """Return the cache folder for `identity`. One process builds it while others wait."""
    key = hashlib.sha256("\0".join(identity).encode()).hexdigest()[:12]
    folder = cache_root() / f"{kind}-{key}"
    complete = folder / ".complete"
    if complete.exists():
        complete.touch()  # `npm run clean` deletes what was not used.
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _locked(folder.with_name(f"{folder.name}.lock")):
        if not complete.exists():
            shutil.rmtree(folder, ignore_errors=True)
            try:
                build(folder)
            except InstallError:
                shutil.rmtree(folder, ignore_errors=True)
                raise
            complete.touch()
    return folder


def cache_root() -> Path:
    """Return the cache folder; the same as in src/install/cache.ts."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "triton-serving")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    # The lock file is not deleted: otherwise a waiting process would hold a lock on another file than later processes.
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _name(requirements: Path) -> str:
    """Return MODEL/requirements.txt without the folder, because the server reads a copy of the repository."""
    return f"{requirements.parent.name}/{requirements.name}"


def _reason(output: str) -> str:
    """Join the error of uv, which is a tree over several lines, into one line."""
    return re.sub(r"[\s╰─▶×│├]+", " ", output).strip() or "uv printed no reason"


def main(arguments: list[str]) -> int:
    """`install.py PYTHON UV FILE...`: makes the environment for each requirements.txt before the server starts."""
    python, uv, *files = arguments
    try:
        for file in files:
            serving_environment(Path(file), python, Uv(uv))
    except InstallError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
