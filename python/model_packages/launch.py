"""Starts Triton's stub, the process of one model.py, with the Python environment that the model needs.

`launch.py SETTINGS ARGUMENT...`: SETTINGS is a file that src/local/install/triton.ts writes; the arguments are those
that Triton's python backend passes to the stub. To report an error, the stub gets a model that raises it: the
load fails, and the server reports the reason to its client.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from model_packages.install import REQUIREMENTS, InstallError, Uv, serving_environment

REASON = "TRITON_SERVING_REASON"

FACTS = """
import json, os, sys, sysconfig
from importlib.metadata import PackageNotFoundError, version
try:
    numpy = version("numpy")
except PackageNotFoundError:
    numpy = None
name = "libpython%d.%d.so.1.0" % sys.version_info[:2]
folder = sysconfig.get_config_var("LIBDIR") or ""
has_library = os.path.exists(os.path.join(folder, name))
print(json.dumps(["%d.%d" % sys.version_info[:2], numpy, folder if has_library else None]))
"""


@dataclass(frozen=True)
class Settings:
    """Settings with which the server was started."""

    stubs: str
    """Folder with one subfolder for each Python version, which contains the stub for that version."""
    server_python: str
    """First interpreter on PATH when the server started. Another first one belongs to an EXECUTION_ENV_PATH."""
    model_python: str | None
    """Interpreter from which environments of models are made; None if no interpreter has a build of NumPy 1."""
    uv: str
    install_variables: dict[str, str]
    """Environment variables for uv that a model's process lacks."""


@dataclass(frozen=True)
class Interpreter:
    """A Python that a stub can embed."""

    bin: Path
    version: str
    numpy: str | None
    libraries: str | None


def choose(settings: Settings, folder: Path) -> Interpreter:
    """Return the interpreter for the model in `folder`. Raises InstallError."""
    first = shutil.which("python3")
    if first is not None and Path(first) != Path(settings.server_python).with_name("python3"):
        # Triton has unpacked and activated the model's EXECUTION_ENV_PATH.
        interpreter = _inspect(Path(first))
        what = "the environment of EXECUTION_ENV_PATH"
    else:
        if settings.model_python is None:
            raise InstallError(
                "models of the Python backend need Python 3.10 to 3.12 with its shared library, because NumPy 1 has "
                "builds only for these versions: put one on PATH, or set EXECUTION_ENV_PATH"
            )
        uv = Uv(settings.uv, settings.install_variables)
        environment = serving_environment(folder / REQUIREMENTS, settings.model_python, uv)
        interpreter = _inspect(environment / "bin" / "python3")
        what = "its environment"
    if interpreter.numpy is None or int(interpreter.numpy.split(".")[0]) > 1:
        has = "no NumPy" if interpreter.numpy is None else f"NumPy {interpreter.numpy}"
        raise InstallError(f"{what} has {has}, and the local server, Triton 2.51, needs NumPy 1: install numpy<2 in it")
    if not _stub(settings, interpreter).exists():
        raise InstallError(f"{what} has Python {interpreter.version}, which the local server, Triton 2.51, lacks")
    return interpreter


def _inspect(python: Path) -> Interpreter:
    done = subprocess.run([python, "-I", "-c", FACTS], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise InstallError(f"{python} does not run: {done.stderr.strip()}")
    version, numpy, libraries = json.loads(done.stdout)
    return Interpreter(python.parent, version, numpy, libraries)


def _stub(settings: Settings, interpreter: Interpreter) -> Path:
    return Path(settings.stubs, interpreter.version, "triton_python_backend_stub")


def main(settings_file: str, model_file: str, *rest: str) -> None:
    """Replace this process with the stub."""
    settings = Settings(**json.loads(Path(settings_file).read_text(encoding="utf-8")))
    try:
        interpreter = choose(settings, Path(model_file).parents[1])
    except (InstallError, OSError) as error:
        os.environ[REASON] = str(error)
        model_file = str(Path(__file__).with_name("refusal.py"))
        interpreter = _inspect(Path(settings.server_python))
    search = [str(interpreter.bin), os.environ.get("PATH", "")]
    os.environ["PATH"] = os.pathsep.join(search)
    libraries = [os.environ.get("LD_LIBRARY_PATH", ""), interpreter.libraries or ""]
    os.environ["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, libraries))
    stub = str(_stub(settings, interpreter))
    os.execv(stub, [stub, model_file, *rest])


if __name__ == "__main__":
    main(*sys.argv[1:])
