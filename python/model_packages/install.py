"""Installs the packages of a requirements.txt with uv, once for each content, into a cache that all checkouts share.

A model.py gets its own environment with only NumPy and its packages, like in Triton's container image. A trace.py gets
a folder that is searched before the environment that traces, which already has PyTorch.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from model_packages.cache import SetupError, cached, digest

REQUIREMENTS = "requirements.txt"
"""File in a model's folder; applies to all versions."""

NUMPY = "numpy<2"
"""Triton 2.51 is built for the memory layout of NumPy 1. With NumPy 2, tensors are empty or have wrong values."""


OLDEST_TORCH = "torch>=2.3"
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
        uv.run(["venv", "--quiet", "--clear", "--python", python, str(target)], requirements)
        named = ["-r", str(requirements)] if requirements.exists() else []
        uv.run(["pip", "install", "--quiet", "--python", f"{target}/bin/python", NUMPY, *named], requirements)

    return _once("model-python", [python, NUMPY, *_content(requirements)], build)


def tracing_packages(requirements: Path, python: str, uv: Uv) -> Path:
    """Return a folder for sys.path with the packages of `requirements` that the environment of `python` lacks.

    An installed package is used if its version satisfies `requirements`. Raises InstallError.
    """
    installed = uv.run(["pip", "freeze", "--quiet", "--python", python], requirements)

    def build(target: Path) -> None:
        lock = target / ".lock.txt"
        # uv prefers the versions in an existing output file.
        lock.write_text(installed, encoding="utf-8")
        oldest = target / ".oldest.txt"
        oldest.write_text(OLDEST_TORCH, encoding="utf-8")
        options = ["--quiet", "--no-header", "--no-annotate", "--python", python, "--constraints", str(oldest)]
        uv.run(["pip", "compile", *options, str(requirements), "--output-file", str(lock)], requirements)
        resolved = lock.read_text(encoding="utf-8").splitlines()
        present = set(installed.splitlines())
        missing = [line for line in resolved if line not in present]
        if missing:
            lock.write_text("\n".join(missing) + "\n", encoding="utf-8")
            where = ["--quiet", "--python", python, "--target", str(target)]
            uv.run(["pip", "install", *where, "--no-deps", "-r", str(lock)], requirements)

    return _once("trace-packages", [python, installed, *_content(requirements)], build)


def _content(requirements: Path) -> list[str]:
    return [requirements.read_text(encoding="utf-8")] if requirements.exists() else []


def _once(kind: str, identity: list[str], build: Callable[[Path], None]) -> Path:
    """Return the cache folder for `identity`. One process builds it while others wait."""
    try:
        return cached(f"{kind}-{digest(*(part.encode() for part in identity))}", build)
    except SetupError as error:
        raise InstallError(f"{error}: {error.hint}") from error


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
