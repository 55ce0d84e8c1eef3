"""The modules that sentence-transformers runs after the network, read from the files of the checkpoint."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from tracing import TraceError
from tracing.models.pretrained import find_file

Pooling: TypeAlias = Literal["cls", "mean"]

_FLAGS = {"pooling_mode_cls_token": "cls", "pooling_mode_mean_tokens": "mean"}
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
    modules = _read(source, "modules.json")
    if modules is None:
        return SentenceModules(_pooling(source, "1_Pooling"))
    kinds = [module["type"].rpartition(".")[2] for module in modules]
    folders = [module["path"] for module in modules]
    if kinds not in _SUPPORTED or folders[0]:
        raise TraceError(
            f"'{source}' has the modules {', '.join(kinds) or 'none'} in the folders {folders} (modules.json); "
            "supported: Transformer beside that file, Pooling and optionally Normalize",
            f"Load and save it once with sentence-transformers, or add the module to {_ENCODER}.",
        )
    return SentenceModules(_pooling(source, folders[1]), normalize="Normalize" in kinds)


def _pooling(source: str, folder: str) -> Pooling:
    """Read the pooling of the module in `folder`; the mean if it has no config.json."""
    config = _read(source, f"{folder}/config.json")
    if config is None:
        return "mean"
    # A string or list, or in older files flags.
    flags = [key for key, value in config.items() if key.startswith("pooling_mode_") and value is True]
    given = config.get("pooling_mode") or [_FLAGS.get(flag, flag) for flag in flags]
    modes = [given] if isinstance(given, str) else given
    match modes:
        case ["cls" | "mean" as mode]:
            return mode
    raise TraceError(
        f"'{source}' pools by {' and '.join(modes) or 'nothing'} ({folder}/config.json); supported: cls, mean",
        f"Use another checkpoint, or add this pooling to {_ENCODER}.",
    )


def _read(source: str, name: str) -> Any:
    """Read the JSON file `name`; None if `source` does not have it."""
    path = find_file(source, name, required=False)
    return None if path is None else json.loads(Path(path).read_text(encoding="utf-8"))
