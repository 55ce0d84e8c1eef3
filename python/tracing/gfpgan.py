"""GFPGAN v1 ("original"): a U-Net that conditions a StyleGAN2 decoder, for inference.

Wang et al., "Towards Real-World Blind Face Restoration with Generative Facial Prior" (2021). State-dict keys and shapes
are those of the published GFPGANv1.pth: channel multiplier 1, latents straight from the encoder and one for each layer,
spatial feature transforms on half of the channels.
"""

from __future__ import annotations

import math

import torch.nn.functional as F
from torch import Tensor, nn

from tracing.ops import FusedLeakyReLU, ScaledLeakyReLU, UpFirDn2d
from tracing.stylegan2 import CHANNELS, RESAMPLE_TAPS, STYLE_FEATURES, EqualConv2d, EqualLinear, StyleGAN2Decoder

SIZES = tuple(size for size in CHANNELS if size >= 8)
# The U-Net has half of the decoder's channels at each resolution.
UNET_CHANNELS = {resolution: channels // 2 for resolution, channels in CHANNELS.items()}


def resolutions_to(size: int) -> list[int]:
    """Return the resolutions of the U-Net, from 8 pixels to `size`. Raises ValueError for a size not in SIZES."""
    if size not in SIZES:
        raise ValueError(f"size is {size}; GFPGAN exists for {', '.join(map(str, SIZES))} pixels")
    return [resolution for resolution in SIZES if resolution <= size]


def conv_layer(in_channels: int, out_channels: int, kernel_size: int) -> nn.Sequential:
    """Convolution, bias and activation, without a change of size."""
    conv = EqualConv2d(in_channels, out_channels, kernel_size, padding=kernel_size // 2, bias=None)
    return nn.Sequential(conv, FusedLeakyReLU(out_channels))


def blur_and_halve(in_channels: int, out_channels: int, kernel_size: int) -> list[nn.Module]:
    """Low-pass filter, then a convolution with stride 2: half the height and width."""
    pad = (kernel_size + 1) // 2
    blur = UpFirDn2d(RESAMPLE_TAPS, pad=(pad, pad, pad, pad))
    return [blur, EqualConv2d(in_channels, out_channels, kernel_size, stride=2, bias=None)]


class ResBlock(nn.Module):
    """[batch, in_channels, n, n] -> [batch, out_channels, n/2, n/2]."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.conv1 = conv_layer(in_channels, in_channels, 3)
        self.conv2 = nn.Sequential(*blur_and_halve(in_channels, out_channels, 3), FusedLeakyReLU(out_channels))
        self.skip = nn.Sequential(*blur_and_halve(in_channels, out_channels, 1))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.conv2(self.conv1(x)) + self.skip(x)
        return out / math.sqrt(2)


class UpConv(EqualConv2d):
    """Bilinear upsampling by 2, convolution and, unless it is a skip connection, bias and activation."""

    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, *, activate: bool) -> None:
        super().__init__(in_channels, out_channels, kernel_size, padding=kernel_size // 2, bias=None)
        self.activation = FusedLeakyReLU(out_channels) if activate else None

    def forward(self, x: Tensor) -> Tensor:
        x = super().forward(F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False))
        return x if self.activation is None else self.activation(x)


class ResUpBlock(nn.Module):
    """[batch, in_channels, n, n] -> [batch, out_channels, 2n, 2n]."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.conv1 = conv_layer(in_channels, in_channels, 3)
        self.conv2 = UpConv(in_channels, out_channels, 3, activate=True)
        self.skip = UpConv(in_channels, out_channels, 1, activate=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.conv2(self.conv1(x)) + self.skip(x)
        return out / math.sqrt(2)


def condition(channels: int, bias: float) -> nn.Sequential:
    """Layers from features to the scale (initially about 1) or shift (about 0) of a spatial feature transform.

    The shape does not change.
    """
    return nn.Sequential(
        EqualConv2d(channels, channels, 3, padding=1, bias=0.0),
        ScaledLeakyReLU(),
        EqualConv2d(channels, channels, 3, padding=1, bias=bias),
    )


class FaceRestorer(nn.Module):
    """Runs the layers of a GFPGAN, which subclasses create.

    RGB in [-1, 1], [batch, 3, size, size] -> the same shape, about [-1, 1], not clamped.
    """

    conv_body_first: nn.Module
    conv_body_down: nn.ModuleList
    final_conv: nn.Module
    final_linear: nn.Module
    conv_body_up: nn.ModuleList
    condition_scale: nn.ModuleList
    condition_shift: nn.ModuleList
    stylegan_decoder: StyleGAN2Decoder

    def activate(self, x: Tensor) -> Tensor:
        """The activation after the first and the last convolution of the encoder."""
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        features: Tensor = self.activate(self.conv_body_first(x))
        skips: list[Tensor] = []
        for down in self.conv_body_down:
            features = down(features)
            skips.append(features)
        features = self.activate(self.final_conv(features))
        latents = self.final_linear(features.flatten(1)).unflatten(1, (-1, STYLE_FEATURES))

        conditions: list[tuple[Tensor, Tensor]] = []
        blocks = zip(self.conv_body_up, self.condition_scale, self.condition_shift, reversed(skips), strict=True)
        for up, to_scale, to_shift, skip in blocks:
            features = up(features + skip)
            conditions.append((to_scale(features), to_shift(features)))
        image: Tensor = self.stylegan_decoder(latents, conditions)
        return image


class GFPGANv1(FaceRestorer):
    """Restores a face: RGB in [-1, 1], [batch, 3, size, size] -> the same shape, about [-1, 1], not clamped.

    size: one of SIZES; the published weights are for 512.
    Raises ValueError for another size.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        resolutions = resolutions_to(size)
        channels = UNET_CHANNELS
        levels = len(resolutions)
        self.conv_body_first = conv_layer(3, channels[size], 1)
        self.conv_body_down = nn.ModuleList(ResBlock(channels[r], channels[r // 2]) for r in reversed(resolutions))
        self.final_conv = conv_layer(channels[4], channels[4], 3)
        self.final_linear = EqualLinear(channels[4] * 4 * 4, (2 * levels + 2) * STYLE_FEATURES, bias=0.0)
        self.conv_body_up = nn.ModuleList(ResUpBlock(channels[r // 2], channels[r]) for r in resolutions)
        # Intermediate images, only for the training loss: in the published state dict, but never run here.
        self.toRGB = nn.ModuleList(EqualConv2d(channels[r], 3, 1, bias=0.0) for r in resolutions)
        self.condition_scale = nn.ModuleList(condition(channels[r], 1.0) for r in resolutions)
        self.condition_shift = nn.ModuleList(condition(channels[r], 0.0) for r in resolutions)
        self.stylegan_decoder = StyleGAN2Decoder(size)

    def activate(self, x: Tensor) -> Tensor:
        """Identity, because the convolutions of this architecture include their activation."""
        return x
