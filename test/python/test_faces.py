"""Pre- and postprocessing against numpy and OpenCV, to the pixel, on photographs of odd sizes."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from numpy.typing import NDArray

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


@pytest.fixture(params=["eager", "scripted"])
def preprocess(request: pytest.FixtureRequest) -> torch.nn.Module:
    return Preprocess() if request.param == "eager" else torch.jit.script(Preprocess())


@pytest.fixture(params=["eager", "scripted"])
def postprocess(request: pytest.FixtureRequest) -> torch.nn.Module:
    return Postprocess() if request.param == "eager" else torch.jit.script(Postprocess())


def test_the_photographs_have_odd_sizes() -> None:
    sizes = {photo.name: read(photo).shape[:2] for photo in PHOTOS}
    assert sizes == {
        "astronaut-213x187.jpg": (187, 213),
        "astronaut-301x407.jpg": (407, 301),
        "face-256.jpg": (256, 256),
    }


@pytest.mark.parametrize("photo", PHOTOS, ids=lambda photo: photo.stem)
def test_preprocess_equals_numpy_and_opencv(preprocess: torch.nn.Module, photo: Path) -> None:
    image = read(photo)
    result = preprocess(torch.from_numpy(image))
    expected = numpy_preprocess(image)
    assert result.is_contiguous()
    assert result.dtype == torch.float32
    assert result.shape == (1, 3, *image.shape[:2])
    np.testing.assert_array_equal(result.numpy(), expected)


@pytest.mark.parametrize("photo", PHOTOS, ids=lambda photo: photo.stem)
def test_postprocess_equals_numpy_and_opencv(postprocess: torch.nn.Module, photo: Path) -> None:
    # Noise and a gain, so that values lie outside [-1, 1] and between two grey levels.
    image = numpy_preprocess(read(photo))
    net_out = (image * 1.2 + np.random.default_rng(4).normal(size=image.shape) * 0.1).astype(np.float32)
    result = postprocess(torch.from_numpy(net_out))
    assert result.is_contiguous()
    assert result.dtype == torch.uint8
    np.testing.assert_array_equal(result.numpy(), numpy_postprocess(net_out))
    assert {0, 255} <= set(result.unique().tolist())


@pytest.mark.parametrize("photo", PHOTOS, ids=lambda photo: photo.stem)
def test_a_photograph_comes_back_as_it_was(photo: Path) -> None:
    image = torch.from_numpy(read(photo))
    assert torch.equal(Postprocess()(Preprocess()(image)), image)


def test_every_value_of_every_channel_comes_back_as_it_was() -> None:
    values = torch.arange(256, dtype=torch.uint8)
    image = torch.stack((values, values.flip(0), values.roll(100)), dim=1).reshape(16, 16, 3)
    assert torch.equal(Postprocess()(Preprocess()(image)), image)


def test_preprocess_swaps_the_colours_and_puts_black_at_minus_one() -> None:
    blue_green_red = torch.tensor([[[0, 51, 255]]], dtype=torch.uint8)
    assert Preprocess()(blue_green_red)[0, :, 0, 0].tolist() == pytest.approx([1.0, -0.6, -1.0])


def test_postprocess_clamps_swaps_and_takes_the_first_image() -> None:
    red_green_blue = torch.tensor([[-7.0, 0.2, 1.5], [0.0, 0.0, 0.0]]).reshape(2, 3, 1, 1)
    assert Postprocess()(red_green_blue).tolist() == [[[255, 153, 0]]]


def test_postprocess_rounds_halves_to_the_even_neighbour() -> None:
    # 127.5 exactly.
    assert Postprocess()(torch.zeros(1, 3, 1, 1)).tolist() == [[[128, 128, 128]]]
