"""The models of a repository that this package makes: the folders with a trace.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tracing.contract import TraceError

# Triton's platform or backend -> the default file in a version directory, which also identifies the kind of artifact.
ARTIFACTS = {
    "pytorch_libtorch": "model.pt",
    "pytorch": "model.pt",
    "torch_aoti": "model.pt2",
    "onnxruntime_onnx": "model.onnx",
    "onnxruntime": "model.onnx",
    # npm run build makes the plan of it.
    "tensorrt_plan": "model.onnx",
}


@dataclass(frozen=True)
class Model:
    """One model folder. given: the version to make, from --version, or None."""

    folder: Path
    given: int | None = None

    @property
    def name(self) -> str:
        """The name of the folder, which is the name of the model in Triton."""
        return self.folder.name

    @property
    def version(self) -> int:
        """The version directory to write: the given one, or the newest that version_policy names, or 1.

        Files of older versions do not change: a new trace.py is for the new version.
        """
        if self.given is not None:
            return self.given
        return max(_named_versions(self.config()), default=1)

    @property
    def trace_file(self) -> Path:
        return self.folder / "trace.py"

    @property
    def version_folder(self) -> Path:
        return self.folder / str(self.version)

    @property
    def golden_folder(self) -> Path:
        return self.folder / "golden" / str(self.version)

    def config(self) -> Mapping[str, Any]:
        """Read model.yaml. Raises TraceError if the file is missing or is not a mapping."""
        path = self.folder / "model.yaml"
        try:
            config = yaml.safe_load(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise TraceError(f"{path} is missing", "Every model needs one: Triton's ModelConfig in YAML.") from None
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise TraceError(f"{path} is not valid YAML: {error}", "Correct the syntax.") from None
        if not isinstance(config, dict):
            raise TraceError(f"{path} must be a mapping of Triton's ModelConfig fields, got {type(config).__name__}")
        return config

    def artifact(self) -> Path:
        """Return the file to make: `default_model_filename` of model.yaml, or the default name of its kind."""
        kind = self.kind()
        if self.config().get("platform") == "tensorrt_plan":
            return self.version_folder / kind
        return self.version_folder / (self.config().get("default_model_filename") or kind)

    def kind(self) -> str:
        """Return model.pt, model.pt2 or model.onnx, according to `platform` (or `backend`) in model.yaml."""
        config = self.config()
        backend = config.get("platform") or config.get("backend")
        if backend not in ARTIFACTS:
            raise TraceError(
                f"{self.folder / 'model.yaml'}: platform is {backend!r}, which npm run trace does not support",
                f"Allowed with a trace.py: {', '.join(ARTIFACTS)}.",
            )
        return ARTIFACTS[backend]


def _named_versions(config: Mapping[str, Any]) -> list[int]:
    """Return the versions of a specific version_policy. `npm run validate` reports invalid versions."""
    try:
        named = config["version_policy"]["specific"]["versions"]
        return [version for version in named if isinstance(version, int) and version > 0]
    except (KeyError, TypeError):
        return []


def find_models(repository: Path, version: int | None) -> dict[str, Model]:
    """Return name -> model, sorted by name. version: the version to make, or None.

    Raises TraceError if `repository` is not a directory.
    """
    if not repository.is_dir():
        raise TraceError(f"model repository {repository} is not a directory", "Give an existing directory with --repo.")
    folders = sorted(trace.parent for trace in repository.glob("*/trace.py"))
    return {folder.name: Model(folder, version) for folder in folders}


def untraced_models(repository: Path) -> list[str]:
    """Return names of the models without a trace.py: other folders with a configuration or a version folder."""
    of_models = ("*/model.yaml", "*/config.pbtxt", "*/[1-9]*/")
    folders = {path.parent for pattern in of_models for path in repository.glob(pattern)}
    return sorted(folder.name for folder in folders if not (folder / "trace.py").exists())
