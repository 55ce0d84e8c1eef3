"""Loads Hugging Face weights from a local directory or the hub, and rejects incomplete checkpoints."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any, TypeVar

from tokenizers import Tokenizer
from transformers import PreTrainedModel
from transformers.utils import logging
from transformers.utils.hub import cached_file, extract_commit_hash

from tracing import TraceError, Weights

Model = TypeVar("Model", bound=PreTrainedModel)


def load_pretrained(
    model_class: type[Model], source: str, *, training_only: Collection[str] = (), **options: Any
) -> Model:
    """Load the model in `source` (a directory, or a hub id such as owner/name@REVISION), in FP32 and eval mode.

    training_only: weights that inference does not use and that published checkpoints may lack.
    options: for the constructor of `model_class`.

    If a checkpoint lacks weights, transformers only warns and initialises them at random. This function raises
    TraceError instead.
    """
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    place, revision = _place(source)
    options = {"revision": revision, "output_loading_info": True, "dtype": "float32", **options}
    try:
        loaded: Any = model_class.from_pretrained(place, **options)
    except (OSError, ValueError, RuntimeError) as error:
        raise TraceError(
            f"cannot load {model_class.__name__} from '{source}': {first_line(error)}",
            "--weights takes a directory that contains config.json and model.safetensors, or a hub id such as "
            "'owner/name@REVISION'. If the hub cannot be reached, download the model elsewhere and give its directory.",
        ) from error
    model: Model
    model, report = loaded
    missing = sorted(set(report["missing_keys"]) - set(training_only))
    if missing:
        raise TraceError(
            f"'{source}' lacks {len(missing)} weights of {model_class.__name__}, the first of them '{missing[0]}'",
            f"Give a checkpoint of {model_class.__name__}; this one may have another architecture.",
        )
    return model


def load_tokenizer(source: str) -> Tokenizer:
    """Load the tokenizer in `source` (see load_pretrained), without padding and truncation, which clients decide."""
    try:
        path = find_file(source, "tokenizer.json")
    except OSError as error:
        raise TraceError(
            f"cannot read tokenizer.json from '{source}': {first_line(error)}",
            "Create it with AutoTokenizer.from_pretrained(...).save_pretrained(DIRECTORY), beside the weights.",
        ) from error
    tokenizer: Tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def load_letters(source: str, count: int, blank: int) -> dict[str, int]:
    """Load token -> index among the `count` logits of a speech recogniser from vocab.json in `source`.

    blank: the index of the CTC blank.
    """
    letters: dict[str, int] = json.loads(Path(str(find_file(source, "vocab.json"))).read_text(encoding="utf-8"))
    if max(letters.values(), default=count) >= count or blank not in letters.values():
        raise TraceError(
            f"vocab.json from '{source}' maps letters to indices up to {max(letters.values(), default=0)}, but the "
            f"network has {count} logits, of which {blank} is the blank",
            "Use the vocab.json that was published with these weights.",
        )
    return letters


def weights_from(name: str, source: str) -> Weights:
    """Describe `source` for the record and the release: a hub id with its commit, because a branch may change."""
    if Path(source).is_dir():
        return Weights("pretrained", f"{name} from {Path(source).name}", source)
    commit = extract_commit_hash(find_file(source, "config.json"), None)
    pinned = source if commit is None else f"{source.partition('@')[0]}@{commit}"
    return Weights("pretrained", f"{name} from {pinned}", pinned)


def _place(source: str) -> tuple[str, str]:
    """Return the directory or hub id without its revision, and the revision."""
    if Path(source).is_dir():
        return source, "main"
    name, _, revision = source.partition("@")
    return name, revision or "main"


def find_file(source: str, name: str, *, required: bool = True) -> str | None:
    """Return the path of one file of `source`; None if it is missing and not required."""
    place, revision = _place(source)
    path = cached_file(place, name, revision=revision, _raise_exceptions_for_missing_entries=required)
    return None if path is None else str(path)


def first_line(error: Exception) -> str:
    """Return the first line of an error's text."""
    return str(error).strip().partition("\n")[0]
