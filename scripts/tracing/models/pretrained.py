"""Hugging Face weights, from a local directory or the hub, complete or not at all."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, TypeVar

from tokenizers import Tokenizer
from transformers import PreTrainedModel
from transformers.utils import logging
from transformers.utils.hub import cached_file

from tracing import TraceError

Model = TypeVar("Model", bound=PreTrainedModel)


def load_pretrained(
    model_class: type[Model], source: str, *, training_only: Collection[str] = (), **options: Any
) -> Model:
    """The model in `source` (a directory or a hub id), FP32, in eval mode.

    training_only: weights that inference does not use and that published checkpoints may lack.
    options: for the constructor of `model_class`.

    transformers only warns where a checkpoint lacks weights, and draws them at random: here that is an error.
    """
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        loaded: Any = model_class.from_pretrained(source, output_loading_info=True, dtype="float32", **options)
    except (OSError, ValueError, RuntimeError) as error:
        raise TraceError(
            f"cannot load {model_class.__name__} from '{source}': {_first_line(error)}",
            "--weights takes a directory that holds config.json and model.safetensors, or a hub id such as "
            "'owner/name'. Without a way to the hub, download the model elsewhere and give its directory.",
        ) from error
    model: Model
    model, report = loaded
    missing = sorted(set(report["missing_keys"]) - set(training_only))
    if missing:
        raise TraceError(
            f"'{source}' lacks {len(missing)} weights of {model_class.__name__}, the first of them '{missing[0]}'",
            f"It may hold another architecture: a checkpoint of {model_class.__name__} is needed.",
        )
    return model


def load_tokenizer(source: str) -> Tokenizer:
    """The tokenizer in `source` (a directory or a hub id), which neither pads nor cuts: that is left to its user."""
    try:
        path = cached_file(source, "tokenizer.json")
    except OSError as error:
        raise TraceError(
            f"cannot read tokenizer.json from '{source}': {_first_line(error)}",
            "Make it with AutoTokenizer.from_pretrained(...).save_pretrained(DIRECTORY) and put it beside the weights.",
        ) from error
    tokenizer: Tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
