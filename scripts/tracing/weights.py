"""Weights for GFPGAN v1: a published checkpoint, or random ones."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tracing.contract import TraceError
from tracing.gfpgan import GFPGANv1

# A checkpoint of the training code holds one of these, best first: the moving average is what is published for use.
_ENTRIES = ("params_ema", "params")
_NOISE = re.compile(r"stylegan_decoder\.noises\.noise\d+")
# The RGB images of all resolutions add up; this keeps the sum of an untrained network mostly inside [-1, 1].
_RANDOM_RGB_SCALE = 0.15


def random_model(size: int) -> GFPGANv1:
    """GFPGAN v1 with the papers' random initialisation, from torch's seeded generator; its output is of sane size."""
    model = GFPGANv1(size)
    decoder = model.stylegan_decoder
    with torch.no_grad():
        for to_rgb in (decoder.to_rgb1, *decoder.to_rgbs):
            to_rgb.get_parameter("modulated_conv.weight").mul_(_RANDOM_RGB_SCALE)
    return model


def pretrained_model(size: int, checkpoint: Path) -> GFPGANv1:
    """GFPGAN v1 with the weights of a checkpoint such as GFPGANv1.pth.

    Raises TraceError when the file is missing, is no GFPGAN v1 checkpoint, or is for another size.
    """
    state = read_state(checkpoint)
    there = checkpoint_size(state)
    if there is None:
        raise TraceError(
            f"{checkpoint} does not hold GFPGAN v1: it has no stylegan_decoder.noises",
            'Needed are weights of the "original" architecture, GFPGANv1.pth; GFPGANv1.2 to v1.4 are another one.',
        )
    if there != size:
        raise TraceError(
            f"{checkpoint} is for {there} x {there} images, but model.yaml asks for {size} x {size}",
            f"Set height and width in dims of input__0 and output__0 in model.yaml to {there}.",
        )
    model = GFPGANv1(size)
    try:
        model.load_state_dict(state, strict=True)
    except RuntimeError as error:
        raise TraceError(f"{checkpoint} does not fit GFPGAN v1 at {size} x {size}: {error}") from None
    return model


def read_state(checkpoint: Path) -> Mapping[str, Tensor]:
    """The state dict in a checkpoint: `params_ema`, else `params`, else the whole file."""
    if not checkpoint.is_file():
        raise TraceError(f"there is no file {checkpoint}", "Give --weights the path of GFPGANv1.pth.")
    try:
        content: Any = torch.load(checkpoint, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises many kinds for files that are not checkpoints
        raise TraceError(f"{checkpoint} is not a PyTorch checkpoint: {type(error).__name__}: {error}") from None
    if isinstance(content, dict):
        content = next((content[entry] for entry in _ENTRIES if entry in content), content)
    if not isinstance(content, dict) or not all(isinstance(value, Tensor) for value in content.values()):
        raise TraceError(f"{checkpoint} holds no state dict: neither {' nor '.join(_ENTRIES)}, nor tensors by name")
    return content


def checkpoint_size(state: Mapping[str, Tensor]) -> int | None:
    """Height of the images that a state dict is for, in pixels; None when it is not GFPGAN v1's."""
    return max(
        (value.shape[-1] for name, value in state.items() if _NOISE.fullmatch(name) and value.dim()), default=None
    )
