"""The two C++/CUDA operators of StyleGAN2 networks, in native PyTorch, so that TorchScript can contain them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

NEGATIVE_SLOPE = 0.2
GAIN = math.sqrt(2)


class ScaledLeakyReLU(nn.Module):
    """leaky_relu(x, 0.2) * sqrt(2): the gain keeps the variance of a normally distributed input. Any shape."""

    def forward(self, x: Tensor) -> Tensor:
        return F.leaky_relu(x, NEGATIVE_SLOPE) * GAIN


class FusedLeakyReLU(nn.Module):
    """leaky_relu(x + bias, 0.2) * sqrt(2), with one bias for each channel.

    Input and output: [batch, channels, ...].
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        bias = self.bias.view(-1, *(1,) * (x.dim() - 2))
        return F.leaky_relu(x + bias, NEGATIVE_SLOPE) * GAIN


def upfirdn2d(
    x: Tensor,
    kernel: Tensor,
    up: tuple[int, int] = (1, 1),
    down: tuple[int, int] = (1, 1),
    pad: tuple[int, int, int, int] = (0, 0, 0, 0),
) -> Tensor:
    """Upsample, filter and downsample each channel separately: scipy.signal.upfirdn in two dimensions, with padding.

    1. Insert up - 1 zeros after each sample. 2. Pad with zeros; a negative pad crops. 3. Convolve with `kernel` (a true
    convolution, so the kernel is flipped), only where the kernel lies entirely inside. 4. Take every down-th sample.

    x: [batch, channels, height, width]; kernel: [kernel_height, kernel_width], of x's dtype and device.
    up, down: (x, y). pad: (left, right, top, bottom), counted in upsampled samples.
    Returns [batch, channels, out_height, out_width], with
    out_width = (width * up_x + left + right - kernel_width) // down_x + 1, and out_height likewise.
    """
    up_x, up_y = up
    if up != (1, 1):
        x = F.pad(x[:, :, :, None, :, None], (0, up_x - 1, 0, 0, 0, up_y - 1)).flatten(4, 5).flatten(2, 3)
    if any(pad):
        x = F.pad(x, pad)
    # One group per channel is many times faster on a CPU than channels folded into the batch. A trace freezes the
    # number of groups, so of channels; batch, height and width stay free.
    channels = x.shape[1]
    return F.conv2d(x, kernel.flip(0, 1).expand(channels, 1, -1, -1), stride=(down[1], down[0]), groups=channels)


class UpFirDn2d(nn.Module):
    """`upfirdn2d` with a fixed separable kernel.

    taps: the one-dimensional filter; the kernel is its outer product with itself, normalised to the sum `gain`
    (up_x * up_y keeps the mean of an upsampled signal).
    """

    kernel: Tensor

    def __init__(
        self,
        taps: Sequence[float],
        up: tuple[int, int] = (1, 1),
        down: tuple[int, int] = (1, 1),
        pad: tuple[int, int, int, int] = (0, 0, 0, 0),
        gain: float = 1.0,
    ) -> None:
        super().__init__()
        row = torch.tensor(taps, dtype=torch.float32)
        kernel = torch.outer(row, row)
        # A buffer moves with .to(device) and into TorchScript. Not persistent, because published checkpoints lack it.
        self.register_buffer("kernel", kernel / kernel.sum() * gain, persistent=False)
        self.up = up
        self.down = down
        self.pad = pad

    def forward(self, x: Tensor) -> Tensor:
        return upfirdn2d(x, self.kernel, self.up, self.down, self.pad)
