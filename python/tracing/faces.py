"""Preprocessing and postprocessing of the restoration network, as scriptable modules for any height and width."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


def resized(images: Tensor, height: int, width: int) -> Tensor:
    """Resize FP32 [batch, channels, height, width] bilinearly; downscaling uses antialiasing like Pillow.

    Images that already have this size are returned unchanged. There is no branch for them, because torch.export would
    fix it.
    """
    return functional.interpolate(images, size=[height, width], mode="bilinear", antialias=True)


class Preprocess(nn.Module):
    """Converts a photograph as OpenCV reads it to the input of the network. size: height and width of that input.

    UINT8 [height, width, 3], BGR -> FP32 [1, 3, size, size], RGB in [-1, 1]: (value / 255 - 0.5) / 0.5, then resized.
    Raises ValueError for a picture without pixels.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(self, image: Tensor) -> Tensor:
        if image.numel() == 0:
            raise ValueError(f"the picture has shape {image.shape}: its height and width must be 1 or more")
        rgb = image.flip(2).permute(2, 0, 1).unsqueeze(0)
        normalized = (rgb.to(torch.float32) / 255.0 - 0.5) / 0.5
        # contiguous(), because a server passes on the memory without regard to strides.
        return resized(normalized, self.size, self.size).contiguous()


class Postprocess(nn.Module):
    """Converts the first image of the network to a picture as OpenCV writes it, in the size of the photograph.

    FP32 [batch, 3, height, width], RGB, and the photograph, UINT8 [photo height, photo width, 3], of which only the
    size is used -> UINT8 [photo height, photo width, 3], BGR: clamped to [-1, 1], resized, then
    round((value + 1) / 2 * 255) with halves rounded to even, like numpy. Images after the first are dropped.
    """

    def forward(self, images: Tensor, photo: Tensor) -> Tensor:
        image = resized(images[:1].clamp(-1.0, 1.0), photo.size(0), photo.size(1))[0]
        pixels = ((image + 1.0) / 2.0 * 255.0).round().to(torch.uint8)
        return pixels.permute(1, 2, 0).flip(2).contiguous()
