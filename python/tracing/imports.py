"""Makes modules beside a trace.py and packages of its requirements.txt importable."""

from __future__ import annotations

import os
import sys
import trace  # noqa: F401 - the standard library's: else a module that imports it would get the model's trace.py
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from model_packages.install import REQUIREMENTS, InstallError, Uv, tracing_packages
from tracing.contract import TraceError
from tracing.repository import Model


@contextmanager
def importable(model: Model) -> Iterator[None]:
    """Make modules beside trace.py and the packages of requirements.txt importable, and unload them at the end.

    Raises TraceError if the packages cannot be installed.
    """
    folders = [model.folder.resolve(), *_packages(model.folder / REQUIREMENTS)]
    search_path, modules = sys.path.copy(), set(sys.modules)
    sys.path[:0] = map(str, folders)
    try:
        yield
    finally:
        sys.path[:] = search_path
        for name in sys.modules.keys() - modules:
            file = getattr(sys.modules[name], "__file__", None)
            if file is not None and any(folder in Path(file).parents for folder in folders):
                del sys.modules[name]


def _packages(requirements: Path) -> list[Path]:
    if not requirements.exists():
        return []
    try:
        # Set by src/local/trace/trace.ts.
        return [tracing_packages(requirements, sys.executable, Uv(os.environ.get("TRITON_SERVING_UV", "uv")))]
    except InstallError as error:
        raise TraceError(str(error), f"Correct {requirements}.") from None
