"""What stands before and after the restoration network, as modules that TorchScript holds at any height and width."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Preprocess(nn.Module):
    """A photograph as OpenCV reads it, made ready for the network.

    UINT8 [height, width, 3], BGR -> FP32 [1, 3, height, width], RGB in [-1, 1]: (value / 255 - 0.5) / 0.5.
    """

    def forward(self, image: Tensor) -> Tensor:
        rgb = image.flip(2).permute(2, 0, 1).unsqueeze(0)
        # contiguous: a server hands on the memory as it lies.
        return ((rgb.to(torch.float32) / 255.0 - 0.5) / 0.5).contiguous()


class Postprocess(nn.Module):
    """The network's first image as OpenCV writes it.

    FP32 [batch, 3, height, width], RGB -> UINT8 [height, width, 3], BGR: clamped to [-1, 1], then
    round((value + 1) / 2 * 255) with halves to the even neighbour, as numpy rounds. Images after the first are dropped.
    """

    def forward(self, images: Tensor) -> Tensor:
        pixels = ((images[0].clamp(-1.0, 1.0) + 1.0) / 2.0 * 255.0).round().to(torch.uint8)
        return pixels.permute(1, 2, 0).flip(2).contiguous()
