"""Weights for GFPGAN: random, or from a published checkpoint, whose keys and shapes identify the architecture."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tracing.contract import TraceError
from tracing.gfpgan import SIZES, UNET_CHANNELS, FaceRestorer, GFPGANv1
from tracing.gfpgan_clean import GFPGANv1Clean

# Entries of the training code's checkpoints, best first: the moving average (EMA) is published for inference.
_ENTRIES = ("params_ema", "params")
_NOISE = re.compile(r"stylegan_decoder\.noises\.noise\d+")
# The weights of the first convolution: in the original architecture inside a block with an activation, in clean alone.
_ORIGINAL, _CLEAN = "conv_body_first.0.weight", "conv_body_first.weight"
# The RGB images of all resolutions are summed. This scale keeps the sum of random weights mostly inside [-1, 1].
_RANDOM_RGB_SCALE = 0.15


def random_model(size: int) -> GFPGANv1:
    """Return GFPGAN v1 with the papers' random initialisation, from torch's seeded generator, with a scaled output."""
    model = GFPGANv1(size)
    decoder = model.stylegan_decoder
    with torch.no_grad():
        for to_rgb in (decoder.to_rgb1, *decoder.to_rgbs):
            to_rgb.get_parameter("modulated_conv.weight").mul_(_RANDOM_RGB_SCALE)
    return model


@dataclass(frozen=True)
class Checkpoint:
    """A file such as GFPGANv1.pth (original) or GFPGANv1.4.pth (clean). size: height and width of images, in pixels."""

    file: Path
    state: Mapping[str, Tensor]
    size: int

    @property
    def architecture(self) -> str:
        return "GFPGAN v1" if _ORIGINAL in self.state else "GFPGAN v1 clean"

    def model(self) -> FaceRestorer:
        """Return the network with these weights. Raises TraceError if keys or shapes do not fit its architecture."""
        model: FaceRestorer
        if _ORIGINAL in self.state:
            model = GFPGANv1(self.size)
        else:
            # max(), because below 64 pixels the number of channels does not depend on the multiplier.
            multiplier = max(1, self.state[_CLEAN].shape[0] // UNET_CHANNELS[self.size])
            model = GFPGANv1Clean(self.size, multiplier)
        try:
            model.load_state_dict(self.state, strict=True)
        except RuntimeError as error:
            raise TraceError(
                f"{self.file} does not fit {self.architecture} at {self.size} x {self.size}: {error}"
            ) from None
        return model


def read_checkpoint(file: Path) -> Checkpoint:
    """Read a checkpoint. Raises TraceError if the file is missing or does not contain GFPGAN v1."""
    state = read_state(file)
    noises = [state[name] for name in state if _NOISE.fullmatch(name)]
    size = max((noise.shape[-1] for noise in noises), default=0)
    if size not in SIZES or not (_ORIGINAL in state or _CLEAN in state):
        raise TraceError(
            f"{file} does not contain GFPGAN v1, because stylegan_decoder.noises or conv_body_first is missing",
            "Give a file such as GFPGANv1.pth, GFPGANv1.3.pth or GFPGANv1.4.pth.",
        )
    return Checkpoint(file, state, size)


def read_state(checkpoint: Path) -> Mapping[str, Tensor]:
    """Read the state dict of a checkpoint: `params_ema`, or `params`, or the whole file."""
    try:
        content: Any = torch.load(checkpoint, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises many types for files that are not checkpoints
        raise TraceError(
            f"cannot read {checkpoint}: {type(error).__name__}: {error}",
            "Give --weights the path of a file such as GFPGANv1.4.pth.",
        ) from None
    if not isinstance(content, dict):
        return {}
    content = next((content[entry] for entry in _ENTRIES if entry in content), content)
    return content if isinstance(content, dict) else {}
