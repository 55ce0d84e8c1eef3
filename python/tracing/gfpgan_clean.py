"""The "clean" architecture of GFPGAN v1, used by GFPGANv1.2, v1.3 and v1.4: plain convolutions, bilinear resampling.

State-dict keys and shapes are those of the published files (channel multiplier 2). The order of the layers, the latents
and the spatial feature transforms are those of the original architecture.
"""

from __future__ import annotations

import math
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tracing.gfpgan import FaceRestorer, resolutions_to
from tracing.ops import NEGATIVE_SLOPE
from tracing.stylegan2 import CHANNELS, MAPPING_LAYERS, STYLE_FEATURES, ModulatedConv2d, StyleGAN2Decoder, ToRGB


def decoder_channels(multiplier: int) -> dict[int, int]:
    """Return the number of feature maps of the decoder at each resolution, times `multiplier` from 64 pixels on."""
    return {size: channels * multiplier if size >= 64 else channels for size, channels in CHANNELS.items()}


def resample(x: Tensor, factor: float) -> Tensor:
    """Scale height and width of [batch, channels, height, width] by `factor`, bilinearly."""
    return F.interpolate(x, scale_factor=factor, mode="bilinear", align_corners=False)


class CleanModulatedConv2d(ModulatedConv2d):
    """Like ModulatedConv2d, but weights are stored already scaled and upsampling is bilinear before the convolution."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: int, *, demodulate: bool = True, upsample: bool = False
    ) -> None:
        super().__init__(in_channels, out_channels, kernel_size, demodulate=demodulate)
        self.modulation = nn.Linear(STYLE_FEATURES, in_channels)
        with torch.no_grad():
            self.weight.mul_(self.scale)
            self.modulation.bias.fill_(1)
        self.scale = 1.0
        self.upsample = upsample

    def forward(self, x: Tensor, style: Tensor) -> Tensor:
        return super().forward(resample(x, 2) if self.upsample else x, style)


class CleanStyleConv(nn.Module):
    """Modulated 3x3 convolution, noise with a learned strength, bias and activation. Shapes as in ModulatedConv2d."""

    def __init__(self, in_channels: int, out_channels: int, *, upsample: bool = False) -> None:
        super().__init__()
        self.modulated_conv = CleanModulatedConv2d(in_channels, out_channels, 3, upsample=upsample)
        self.weight = nn.Parameter(torch.zeros(1))
        self.bias = nn.Parameter(torch.zeros(1, out_channels, 1, 1))

    def forward(self, x: Tensor, style: Tensor, noise: Tensor) -> Tensor:
        out: Tensor = self.modulated_conv(x, style) * math.sqrt(2)
        return F.leaky_relu(out + self.weight * noise + self.bias, NEGATIVE_SLOPE)


class CleanToRGB(ToRGB):
    """Features to an RGB image [batch, 3, height, width]."""

    convolution: ClassVar[type[ModulatedConv2d]] = CleanModulatedConv2d


class CleanToRGBWithSkip(CleanToRGB):
    """Features to RGB, added to the image of half the size, upsampled."""

    def forward(self, x: Tensor, style: Tensor, skip: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(x, style) + resample(skip, 2)


class CleanDecoder(StyleGAN2Decoder):
    """StyleGAN2's synthesis network with clean layers."""

    style_conv: ClassVar[type[nn.Module]] = CleanStyleConv
    to_rgb: ClassVar[type[nn.Module]] = CleanToRGB
    to_rgb_with_skip: ClassVar[type[nn.Module]] = CleanToRGBWithSkip

    @staticmethod
    def mapping_layers() -> list[nn.Module]:
        """As in the original, but activations are separate layers, which are numbered in the state-dict keys."""
        layers: list[nn.Module] = []
        for _ in range(MAPPING_LAYERS):
            layers += (nn.Linear(STYLE_FEATURES, STYLE_FEATURES), nn.LeakyReLU(NEGATIVE_SLOPE))
        return layers


class ResBlock(nn.Module):
    """[batch, in_channels, n, n] -> [batch, out_channels, factor * n, factor * n]."""

    def __init__(self, in_channels: int, out_channels: int, factor: float) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, in_channels, 3, padding=1)
        self.conv2 = nn.Conv2d(in_channels, out_channels, 3, padding=1)
        self.skip = nn.Conv2d(in_channels, out_channels, 1, bias=False)
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        out = resample(F.leaky_relu(self.conv1(x), NEGATIVE_SLOPE), self.factor)
        skip: Tensor = self.skip(resample(x, self.factor))
        return F.leaky_relu(self.conv2(out), NEGATIVE_SLOPE) + skip


def condition(channels: int) -> nn.Sequential:
    """Layers from features to the scale or shift of a spatial feature transform. The shape does not change."""
    return nn.Sequential(
        nn.Conv2d(channels, channels, 3, padding=1),
        nn.LeakyReLU(NEGATIVE_SLOPE),
        nn.Conv2d(channels, channels, 3, padding=1),
    )


class GFPGANv1Clean(FaceRestorer):
    """Restores a face: RGB in [-1, 1], [batch, 3, size, size] -> the same shape, about [-1, 1], not clamped.

    size: one of SIZES; the published weights are for 512 and have channel multiplier 2.
    Raises ValueError for another size.
    """

    def __init__(self, size: int, channel_multiplier: int = 2) -> None:
        super().__init__()
        resolutions = resolutions_to(size)
        decoder = decoder_channels(channel_multiplier)
        channels = {resolution: maps // 2 for resolution, maps in decoder.items()}
        self.conv_body_first = nn.Conv2d(3, channels[size], 1)
        self.conv_body_down = nn.ModuleList(ResBlock(channels[r], channels[r // 2], 0.5) for r in reversed(resolutions))
        self.final_conv = nn.Conv2d(channels[4], channels[4], 3, padding=1)
        self.final_linear = nn.Linear(channels[4] * 4 * 4, (2 * len(resolutions) + 2) * STYLE_FEATURES)
        self.conv_body_up = nn.ModuleList(ResBlock(channels[r // 2], channels[r], 2) for r in resolutions)
        # Intermediate images, only for the training loss: in the published state dict, but never run here.
        self.toRGB = nn.ModuleList(nn.Conv2d(channels[r], 3, 1) for r in resolutions)
        self.condition_scale = nn.ModuleList(condition(channels[r]) for r in resolutions)
        self.condition_shift = nn.ModuleList(condition(channels[r]) for r in resolutions)
        self.stylegan_decoder = CleanDecoder(size, decoder)

    def activate(self, x: Tensor) -> Tensor:
        """Leaky ReLU, because the convolutions of this architecture do not include their activation."""
        return F.leaky_relu(x, NEGATIVE_SLOPE)
