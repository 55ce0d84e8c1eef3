"""The StyleGAN2 parts of GFPGAN v1 ("original"): equalised layers, modulated convolutions and the decoder.

Attribute names are those of the published checkpoint's state dict.
Sources: Karras et al., "Analyzing and Improving the Image Quality of StyleGAN" (2020); equalised learning rate and
the mapping network: Karras et al. (2018, 2019); spatial feature transform: Wang et al., "GFP-GAN" (2021).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tracing.ops import FusedLeakyReLU, UpFirDn2d

STYLE_FEATURES = 512
MAPPING_LAYERS = 8
RESAMPLE_TAPS = (1.0, 3.0, 3.0, 1.0)
DEMODULATION_EPSILON = 1e-8
# Feature maps of the decoder at each resolution (channel multiplier 1).
CHANNELS = {4: 512, 8: 512, 16: 512, 32: 512, 64: 256, 128: 128, 256: 64, 512: 32, 1024: 16}


class EqualConv2d(nn.Module):
    """A convolution whose weights are stored with variance 1 and scaled by 1/sqrt(fan in) when used.

    [batch, in_channels, height, width] -> [batch, out_channels, ...]. bias: its initial value; None for no bias.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        *,
        stride: int = 1,
        padding: int = 0,
        bias: float | None,
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(out_channels, in_channels, kernel_size, kernel_size))
        self.bias = None if bias is None else nn.Parameter(torch.full((out_channels,), bias))
        self.scale = 1 / math.sqrt(in_channels * kernel_size**2)
        self.stride = stride
        self.padding = padding

    def forward(self, x: Tensor) -> Tensor:
        return F.conv2d(x, self.weight * self.scale, self.bias, self.stride, self.padding)


class EqualLinear(nn.Module):
    """Like EqualConv2d for a fully connected layer: [batch, in_features] -> [batch, out_features]."""

    def __init__(self, in_features: int, out_features: int, *, bias: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(out_features, in_features))
        self.bias = nn.Parameter(torch.full((out_features,), bias))
        self.scale = 1 / math.sqrt(in_features)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight * self.scale, self.bias)


class ModulatedConv2d(nn.Module):
    """A convolution whose input channels are scaled by a style, separately for each sample.

    The paper scales the weights, w'[b,o,i] = w[o,i] * s[b,i], and demodulates each output channel by
    1/sqrt(sum over i and taps of w'^2 + eps). This class scales the input by s and the output by the same factor, which
    is equal because a convolution is linear. All samples share one convolution, so any batch size works and there are
    no weights per sample.

    x: [batch, in_channels, height, width], where batch may be 1 for an x shared by all samples; style: [batch, 512].
    Returns [batch, out_channels, height, width], with `upsample` twice the height and width.
    """

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: int, *, demodulate: bool = True, upsample: bool = False
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(1, out_channels, in_channels, kernel_size, kernel_size))
        self.modulation: nn.Module = EqualLinear(STYLE_FEATURES, in_channels, bias=1.0)
        self.scale = 1 / math.sqrt(in_channels * kernel_size**2)
        self.padding = kernel_size // 2
        self.demodulate = demodulate
        # The transposed convolution gives one row and one column too many, which 4 taps with padding 1 remove.
        self.smooth = UpFirDn2d(RESAMPLE_TAPS, pad=(1, 1, 1, 1), gain=4) if upsample else None

    def forward(self, x: Tensor, style: Tensor) -> Tensor:
        # Apply the equalising scale to the style, which has about a thousand times fewer elements than the weights.
        modulation: Tensor = self.modulation(style) * self.scale
        weight = self.weight.squeeze(0)
        x = x * modulation[:, :, None, None]
        if self.smooth is None:
            x = F.conv2d(x, weight, padding=self.padding)
        else:
            x = self.smooth(F.conv_transpose2d(x, weight.transpose(0, 1), stride=2))
        if self.demodulate:
            energy = F.linear(modulation.square(), weight.square().sum((2, 3)))
            x = x * torch.rsqrt(energy + DEMODULATION_EPSILON)[:, :, None, None]
        return x


class StyleConv(nn.Module):
    """Modulated 3x3 convolution, noise with a learned strength, bias and activation. Shapes as in ModulatedConv2d."""

    def __init__(self, in_channels: int, out_channels: int, *, upsample: bool = False) -> None:
        super().__init__()
        self.modulated_conv = ModulatedConv2d(in_channels, out_channels, 3, upsample=upsample)
        self.weight = nn.Parameter(torch.zeros(1))
        self.activate = FusedLeakyReLU(out_channels)

    def forward(self, x: Tensor, style: Tensor, noise: Tensor) -> Tensor:
        out: Tensor = self.modulated_conv(x, style)
        activated: Tensor = self.activate(out + self.weight * noise)
        return activated


class ToRGB(nn.Module):
    """Features to an RGB image [batch, 3, height, width]."""

    convolution: ClassVar[type[ModulatedConv2d]] = ModulatedConv2d

    def __init__(self, in_channels: int) -> None:
        super().__init__()
        self.modulated_conv = self.convolution(in_channels, 3, 1, demodulate=False)
        self.bias = nn.Parameter(torch.zeros(1, 3, 1, 1))

    def forward(self, x: Tensor, style: Tensor) -> Tensor:
        out: Tensor = self.modulated_conv(x, style)
        return out + self.bias


class ToRGBWithSkip(ToRGB):
    """Features to RGB, added to the image of half the size, upsampled."""

    def __init__(self, in_channels: int) -> None:
        super().__init__(in_channels)
        self.upsample = UpFirDn2d(RESAMPLE_TAPS, up=(2, 2), pad=(2, 1, 2, 1), gain=4)

    def forward(self, x: Tensor, style: Tensor, skip: Tensor) -> Tensor:  # type: ignore[override]
        upsampled: Tensor = self.upsample(skip)
        return super().forward(x, style) + upsampled


class ConstantInput(nn.Module):
    """The learned constant from which every image starts: [1, channels, 4, 4]."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(1, channels, 4, 4))

    def forward(self) -> Tensor:
        return self.weight


class StyleGAN2Decoder(nn.Module):
    """StyleGAN2's synthesis network, conditioned by spatial feature transforms on half of the channels.

    At 8, 16, ... up to `size` pixels the second half of the feature maps becomes half * scale + shift.
    latents: [batch, 2 * log2(size) - 2, 512], one for each modulated layer (neighbouring layers share);
    conditions: for each of these resolutions (scale, shift), both [batch, channels / 2, resolution, resolution].
    Returns the image [batch, 3, size, size]. The noise is stored in `noises`, so the result depends only on the input.

    channels: feature maps at each resolution. Architectures differ in the layers, which are class attributes.
    """

    style_conv: ClassVar[type[nn.Module]] = StyleConv
    to_rgb: ClassVar[type[nn.Module]] = ToRGB
    to_rgb_with_skip: ClassVar[type[nn.Module]] = ToRGBWithSkip

    def __init__(self, size: int, channels: Mapping[int, int] = CHANNELS) -> None:
        super().__init__()
        resolutions = [2**n for n in range(3, int(math.log2(size)) + 1)]
        # The mapping network belongs to the published state dict. It never runs: the encoder predicts the latents.
        self.style_mlp = nn.Sequential(nn.Identity(), *self.mapping_layers())
        self.constant_input = ConstantInput(channels[4])
        self.style_conv1 = self.style_conv(channels[4], channels[4])
        self.to_rgb1 = self.to_rgb(channels[4])
        self.style_convs = nn.ModuleList()
        self.to_rgbs = nn.ModuleList()
        self.noises = nn.Module()
        self.noises.register_buffer("noise0", torch.randn(1, 1, 4, 4))
        for level, resolution in enumerate(resolutions):
            here = channels[resolution]
            self.style_convs.append(self.style_conv(channels[resolution // 2], here, upsample=True))
            self.style_convs.append(self.style_conv(here, here))
            self.to_rgbs.append(self.to_rgb_with_skip(here))
            for layer in (2 * level + 1, 2 * level + 2):
                self.noises.register_buffer(f"noise{layer}", torch.randn(1, 1, resolution, resolution))

    @staticmethod
    def mapping_layers() -> list[nn.Module]:
        """Return the layers of the mapping network, except the first one, which has no weights."""
        return [EqualLinear(STYLE_FEATURES, STYLE_FEATURES, bias=0.0) for _ in range(MAPPING_LAYERS)]

    def forward(self, latents: Tensor, conditions: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
        features: Tensor = self.style_conv1(self.constant_input(), latents[:, 0], self.noises.noise0)
        image: Tensor = self.to_rgb1(features, latents[:, 1])
        for level, (scale, shift) in enumerate(conditions):
            layer = 2 * level + 1
            features = self.style_convs[layer - 1](features, latents[:, layer], getattr(self.noises, f"noise{layer}"))
            same, transformed = features.chunk(2, dim=1)
            features = torch.cat((same, transformed * scale + shift), dim=1)
            noise = getattr(self.noises, f"noise{layer + 1}")
            features = self.style_convs[layer](features, latents[:, layer + 1], noise)
            image = self.to_rgbs[level](features, latents[:, layer + 2], image)
        return image
