"""The operators against independent references: scipy's convolution and the formula."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.signal import convolve2d

from tracing.ops import FusedLeakyReLU, ScaledLeakyReLU, upfirdn2d

Image = NDArray[np.float64]
Pair = tuple[int, int]
Pad = tuple[int, int, int, int]

KERNELS: list[Pair] = [(1, 1), (2, 3), (4, 4), (5, 2)]
RATES: list[tuple[Pair, Pair]] = [
    ((1, 1), (1, 1)),
    ((2, 2), (1, 1)),
    ((1, 1), (2, 2)),
    ((2, 2), (2, 2)),
    ((3, 1), (1, 2)),
    ((1, 2), (3, 1)),
    ((2, 3), (3, 2)),
]
PADS: list[Pad] = [
    (0, 0, 0, 0),
    (2, 1, 2, 1),
    (1, 0, 3, 2),
    (-1, 0, 0, -1),
    (-1, 2, 3, -2),
    (-2, -1, -1, -2),
    (6, 7, 8, 5),
]


def with_scipy(image: Image, kernel: Image, up: Pair, down: Pair, pad: Pad) -> Image:
    """upfirdn2d of one channel; scipy's convolution flips the kernel by itself."""
    (height, width), (up_x, up_y), (left, right, top, bottom) = image.shape, up, pad
    spread = np.zeros((height * up_y, width * up_x))
    spread[::up_y, ::up_x] = image
    spread = np.pad(spread, ((max(top, 0), max(bottom, 0)), (max(left, 0), max(right, 0))))
    spread = spread[max(-top, 0) : spread.shape[0] - max(-bottom, 0), max(-left, 0) : spread.shape[1] - max(-right, 0)]
    filtered: Image = convolve2d(spread, kernel, mode="valid")
    return filtered[:: down[1], :: down[0]]


@pytest.mark.parametrize("pad", PADS, ids=str)
def test_upfirdn2d_equals_scipy(pad: Pad) -> None:
    random = np.random.default_rng(1)
    images = random.normal(size=(2, 3, 9, 11))
    for kernel_size, (up, down) in product(KERNELS, RATES):
        kernel = random.normal(size=kernel_size)
        result = upfirdn2d(torch.from_numpy(images), torch.from_numpy(kernel), up, down, pad).numpy()
        expected = [[with_scipy(channel, kernel, up, down, pad) for channel in image] for image in images]
        np.testing.assert_allclose(result, np.array(expected), rtol=0, atol=1e-12, err_msg=f"{kernel_size} {up} {down}")


@pytest.mark.parametrize("shape", [(2, 5), (2, 5, 3), (2, 5, 3, 4)], ids=str)
def test_fused_leaky_relu_is_its_formula(shape: tuple[int, ...]) -> None:
    module = FusedLeakyReLU(5).double()
    with torch.no_grad():
        module.bias.copy_(torch.linspace(-1, 1, 5))
    x = np.random.default_rng(3).normal(size=shape)
    shifted = x + np.linspace(-1, 1, 5).reshape(1, 5, *[1] * (len(shape) - 2))
    expected = np.where(shifted >= 0, shifted, 0.2 * shifted) * math.sqrt(2)
    np.testing.assert_allclose(module(torch.from_numpy(x)).detach().numpy(), expected, rtol=1e-15, atol=1e-15)


def test_scaled_leaky_relu_is_its_formula() -> None:
    x = torch.tensor([-5.0, 0.0, 3.0], dtype=torch.float64)
    expected = [-math.sqrt(2), 0.0, 3 * math.sqrt(2)]
    np.testing.assert_allclose(ScaledLeakyReLU()(x).numpy(), expected, rtol=1e-15)
