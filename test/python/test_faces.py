"""Pre- and postprocessing against numpy, OpenCV and Pillow on photographs of odd sizes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image as Picture
from PIL.Image import Resampling
from torch import nn

from tracing.faces import Postprocess, Preprocess

PHOTOS = sorted((Path(__file__).parents[1] / "data" / "photos").glob("*.jpg"))

Image = NDArray[np.uint8]
Tensor = NDArray[np.float32]


def read(photo: Path) -> Image:
    image = cv2.imread(str(photo))
    assert image is not None
    return image


def numpy_preprocess(image: Image) -> Tensor:
    rgb = cv2.cvtColor(image, cv2.COLOR_BGR2RGB).astype(np.float32) / 255
    return np.expand_dims(np.transpose((rgb - np.float32(0.5)) / np.float32(0.5), (2, 0, 1)), 0)


def numpy_postprocess(net_out: Tensor) -> Image:
    image = np.transpose(net_out[0], (1, 2, 0)).clip(-1, 1)
    pixels = ((image + 1) / 2 * 255).round().astype(np.uint8)
    return cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR)


def pillow_resize(image: Tensor, height: int, width: int) -> Tensor:
    """FP32 [1, channels, height, width], by Pillow."""
    channels = [Picture.fromarray(channel).resize((width, height), Resampling.BILINEAR) for channel in image[0]]
    return np.stack([np.asarray(channel) for channel in channels])[None]


Make = Callable[[nn.Module], nn.Module]


@pytest.fixture(params=["eager", "scripted"])
def made(request: pytest.FixtureRequest) -> Make:
    return torch.jit.script if request.param == "scripted" else lambda module: module


@pytest.mark.parametrize("photo", PHOTOS, ids=lambda photo: photo.stem)
@pytest.mark.parametrize("size", [256, 300])
def test_preprocess_equals_opencv_and_pillow(made: Make, photo: Path, size: int) -> None:
    image = read(photo)
    result = made(Preprocess(size))(torch.from_numpy(image))
    normalized = numpy_preprocess(image)
    assert result.is_contiguous()
    assert result.dtype == torch.float32
    assert result.shape == (1, 3, size, size)
    if image.shape[:2] == (size, size):
        np.testing.assert_array_equal(result.numpy(), normalized)
    else:
        np.testing.assert_allclose(result.numpy(), pillow_resize(normalized, size, size), rtol=0, atol=1e-4)


@pytest.mark.parametrize("photo", PHOTOS, ids=lambda photo: photo.stem)
@pytest.mark.parametrize("size", [256, 300])
def test_postprocess_equals_pillow_and_opencv(made: Make, photo: Path, size: int) -> None:
    # Noise and a gain, so that values lie outside [-1, 1] and between two grey levels.
    image = read(photo)
    noise = np.random.default_rng(4).normal(size=(1, 3, size, size)) * 0.1
    net_out = (pillow_resize(numpy_preprocess(image), size, size) * 1.2 + noise).astype(np.float32)
    result = made(Postprocess())(torch.from_numpy(net_out), torch.from_numpy(image))
    assert result.is_contiguous()
    assert result.dtype == torch.uint8
    assert result.shape == image.shape
    assert {0, 255} <= set(result.unique().tolist())
    if image.shape[:2] == (size, size):
        np.testing.assert_array_equal(result.numpy(), numpy_postprocess(net_out))
    else:
        expected = numpy_postprocess(pillow_resize(net_out.clip(-1, 1), *image.shape[:2]))
        difference = np.abs(result.numpy().astype(int) - expected)
        # A value between two grey levels may be rounded to the other one.
        assert difference.max() <= 1
        assert (difference > 0).mean() < 1e-3


def test_pictures_without_pixels_are_refused(made: Make) -> None:
    with pytest.raises(Exception, match=r"the picture has shape .*0, 5, 3.*: its height and width must be 1 or more"):
        made(Preprocess(16))(torch.zeros(0, 5, 3, dtype=torch.uint8))


def test_every_value_of_every_channel_comes_back_as_it_was() -> None:
    values = torch.arange(256, dtype=torch.uint8)
    image = torch.stack((values, values.flip(0), values.roll(100)), dim=1).reshape(16, 16, 3)
    assert torch.equal(Postprocess()(Preprocess(16)(image), image), image)
