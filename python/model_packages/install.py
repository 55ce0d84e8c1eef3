"""Installs what a requirements.txt names with uv, once for each content, into the cache that all checkouts share.

A model.py gets an environment of its own with nothing but NumPy and its packages, like Triton's container image. A
trace.py gets a folder that is put in front of the environment it is traced in, which has PyTorch already.
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
"""File in a model's folder, for all of its versions."""

NUMPY = "numpy<2"
"""Triton 2.51 is built for the memory layout of NumPy 1: with NumPy 2 tensors are empty or hold other values."""


class InstallError(Exception):
    """Packages cannot be installed, in words for the person who wrote the file."""


@dataclass(frozen=True)
class Uv:
    """The installer."""

    program: str
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables on top of ours: a server's process has no proxies, certificates or package indices in its own."""

    def run(self, arguments: list[str], requirements: Path) -> str:
        """What it prints. Raises InstallError."""
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
    """The virtual environment of a model.py; `requirements` need not exist.

    `python` is the interpreter that it is made from. Raises InstallError.
    """

    def build(target: Path) -> None:
        uv.run(["venv", "--quiet", "--python", python, str(target)], requirements)
        named = ["-r", str(requirements)] if requirements.exists() else []
        uv.run(["pip", "install", "--quiet", "--python", f"{target}/bin/python", NUMPY, *named], requirements)

    return _once("model-python", [python, NUMPY, *_content(requirements)], build)


def tracing_packages(requirements: Path, python: str, uv: Uv) -> Path:
    """A folder for sys.path with what `requirements` names and the environment of `python` does not have.

    Where the installed version of a package will do it is used. Raises InstallError.
    """
    installed = uv.run(["pip", "freeze", "--quiet", "--python", python], requirements)

    def build(target: Path) -> None:
        target.mkdir()
        lock = target / ".lock.txt"
        # uv keeps to the versions in the file that it is to write.
        lock.write_text(installed, encoding="utf-8")
        quiet = ["--quiet", "--no-header", "--no-annotate", "--python", python]
        uv.run(["pip", "compile", *quiet, str(requirements), "--output-file", str(lock)], requirements)
        present = set(installed.splitlines())
        missing = [line for line in lock.read_text(encoding="utf-8").splitlines() if line not in present]
        if missing:
            lock.write_text("\n".join(missing) + "\n", encoding="utf-8")
            where = ["--quiet", "--python", python, "--target", str(target)]
            uv.run(["pip", "install", *where, "--no-deps", "-r", str(lock)], requirements)

    return _once("trace-packages", [python, installed, *_content(requirements)], build)


def _content(requirements: Path) -> list[str]:
    return [requirements.read_text(encoding="utf-8")] if requirements.exists() else []


def _once(kind: str, identity: list[str], build: Callable[[Path], None]) -> Path:
    """The folder of the cache for `identity`, which one process builds and others wait for."""
    key = hashlib.sha256("\0".join(identity).encode()).hexdigest()[:12]
    folder = cache_root() / f"{kind}-{key}"
    complete = folder / ".complete"
    if complete.exists():
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
    """As in src/install/cache.ts."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "triton-serving")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    # The file stays: one that waits for it must not wait for another file than the next one.
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _name(requirements: Path) -> str:
    """MODEL/requirements.txt: a server reads a copy of the repository in some other place."""
    return f"{requirements.parent.name}/{requirements.name}"


def _reason(said: str) -> str:
    """What uv says, which draws it as a tree over several lines, in one."""
    return re.sub(r"[\s╰─▶×│├]+", " ", said).strip() or "uv said nothing"


def main(arguments: list[str]) -> int:
    """`install.py PYTHON UV FILE...`: makes the environment of each requirements.txt before a server asks for it."""
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
