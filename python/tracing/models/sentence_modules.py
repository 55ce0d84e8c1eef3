"""The modules that sentence-transformers runs after the network, read from the files of the checkpoint."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from tracing import TraceError
from tracing.models.pretrained import find_file, first_line

Pooling: TypeAlias = Literal["cls", "mean"]

_MODULES_FILE = "modules.json"
_SUPPORTED = (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"])
_ENCODER = "python/tracing/models/sentence_encoder.py"


@dataclass(frozen=True)
class SentenceModules:
    """How token states are pooled to one embedding, and whether the embedding is divided by its norm."""

    pooling: Pooling = "mean"
    normalize: bool = True


def load_sentence_modules(source: str) -> SentenceModules:
    """Read the modules that modules.json in `source` (a directory or a hub id) lists.

    A checkpoint without that file was not published for sentence-transformers. Its default is the normalized mean.
    """
    modules = _read(source, _MODULES_FILE)
    if modules is None:
        return SentenceModules(_pooling(source, "1_Pooling"))
    try:
        kinds = [str(module["type"]).rpartition(".")[2] for module in modules]
        folders = [str(module["path"]) for module in modules]
    except (TypeError, KeyError) as error:
        raise TraceError(f"{_MODULES_FILE} from '{source}' does not list modules with type and path") from error
    if kinds not in _SUPPORTED:
        raise TraceError(
            f"'{source}' has the modules {', '.join(kinds) or 'none'} ({_MODULES_FILE}); "
            "supported: Transformer, Pooling and optionally Normalize",
            f"Use another checkpoint, or add the module to {_ENCODER}.",
        )
    if folders[0]:
        raise TraceError(
            f"'{source}' has its network in the folder {folders[0]} ({_MODULES_FILE}), but it must be beside that file",
            "Load and save it once with sentence-transformers, which puts it there, and give that directory.",
        )
    return SentenceModules(_pooling(source, folders[1]), normalize="Normalize" in kinds)


def _pooling(source: str, folder: str) -> Pooling:
    """Read the pooling of the module in `folder`; the mean if it has no config.json."""
    file = f"{folder}/config.json"
    config = _read(source, file)
    if config is None:
        return "mean"
    if not isinstance(config, dict):
        raise TraceError(f"{file} from '{source}' is not a JSON object")
    match _pooling_modes(config):
        case ["cls" | "mean" as mode]:
            return mode
        case modes:
            raise TraceError(
                f"'{source}' pools by {' and '.join(modes) or 'nothing'} ({file}); supported: cls, mean",
                f"Use another checkpoint, or add this pooling to {_ENCODER}.",
            )


def _pooling_modes(config: dict[str, Any]) -> list[str]:
    """Return the names of the pooling modes, from flags, or in newer files from a string or list."""
    given = config.get("pooling_mode")
    if given is not None:
        return [given] if isinstance(given, str) else [str(mode) for mode in given]
    prefix = "pooling_mode_"
    names = [key.removeprefix(prefix) for key, value in config.items() if key.startswith(prefix) and value is True]
    return [{"cls_token": "cls", "mean_tokens": "mean"}.get(name, name) for name in names]


def _read(source: str, name: str) -> Any:
    """Read the JSON file `name`; None if `source` does not have it."""
    try:
        path = find_file(source, name, required=False)
        return None if path is None else json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise TraceError(f"cannot read {name} from '{source}': {first_line(error)}") from error
