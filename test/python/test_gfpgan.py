"""GFPGAN v1 against the reference implementation, its weights and its exports.

The comparisons with the running reference need PyPI's `gfpgan` and `basicsr` unpacked in one directory:
`pip install --no-deps --target DIR gfpgan==1.3.8 basicsr==1.4.2`, then GFPGAN_REFERENCE=DIR. They are too old to be
dependencies, so without that directory these tests skip; the reference's state dict is checked in and always compared.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tracing.contract import TraceContext, TraceError
from tracing.gfpgan import SIZES, GFPGANv1
from tracing.restoration import export_restoration, image_size
from tracing.weights import pretrained_model, random_model

STATE_DICT_512 = Path(__file__).parents[1] / "data" / "gfpganv1-state-dict.json"
REFERENCE = os.environ.get("GFPGAN_REFERENCE")
PUBLISHED_SETTINGS: dict[str, Any] = {
    "num_style_feat": 512,
    "channel_multiplier": 1,
    "resample_kernel": (1, 3, 3, 1),
    "decoder_load_path": None,
    "fix_decoder": True,
    "num_mlp": 8,
    "lr_mlp": 0.01,
    "input_is_latent": True,
    "different_w": True,
    "narrow": 1,
    "sft_half": True,
}


def shapes(module: nn.Module) -> dict[str, list[int]]:
    return {name: list(tensor.shape) for name, tensor in module.state_dict().items()}


def context(dims: list[int], max_batch_size: int, weights: Path | None = None) -> TraceContext:
    config = {"max_batch_size": max_batch_size, "input": [{"name": "input__0", "dims": dims}]}
    return TraceContext("face", 1, Path("repo/face"), config, 0, None if weights is None else str(weights))


# --- the reference implementation


@pytest.fixture(scope="module")
def reference() -> Iterator[Any]:
    """The class GFPGANv1 of PyPI gfpgan, with its C++ activation replaced by that operator's formula."""
    if REFERENCE is None:
        pytest.skip("GFPGAN_REFERENCE does not name a directory with PyPI's gfpgan and basicsr")
    # Packages without their __init__, which import training code for other versions of torchvision.
    for name in ("basicsr", "basicsr.archs", "basicsr.utils", "basicsr.ops", "gfpgan", "gfpgan.archs"):
        package = ModuleType(name)
        package.__path__ = [str(Path(REFERENCE, *name.split(".")))]
        sys.modules[name] = package

    def fused_leaky_relu(x: Tensor, bias: Tensor) -> Tensor:
        return F.leaky_relu(x + bias.reshape(1, -1, *[1] * (x.ndim - 2)), 0.2) * 2**0.5

    class FusedLeakyReLU(nn.Module):
        def __init__(self, channels: int) -> None:
            super().__init__()
            self.bias = nn.Parameter(torch.zeros(channels))

        def forward(self, x: Tensor) -> Tensor:
            return fused_leaky_relu(x, self.bias)

    activation = ModuleType("basicsr.ops.fused_act")
    vars(activation).update(FusedLeakyReLU=FusedLeakyReLU, fused_leaky_relu=fused_leaky_relu)
    sys.modules[activation.__name__] = activation
    yield importlib.import_module("gfpgan.archs.gfpganv1_arch").GFPGANv1
    for name in [name for name in sys.modules if name.split(".")[0] in ("basicsr", "gfpgan")]:
        del sys.modules[name]


@pytest.mark.parametrize("size", [8, 64, 256, 512])
def test_state_dict_equals_the_reference(reference: Any, size: int) -> None:
    assert shapes(GFPGANv1(size)) == shapes(reference(out_size=size, **PUBLISHED_SETTINGS))


@pytest.mark.parametrize("size", [32, 128])
def test_output_equals_the_reference(reference: Any, size: int) -> None:
    """In float64 the two agree to rounding, with every parameter random, biases and noise strengths included."""
    theirs = reference(out_size=size, **PUBLISHED_SETTINGS).double().eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
        model = GFPGANv1(size).double().eval()
        model.load_state_dict(theirs.state_dict(), strict=True)
        images = torch.rand(2, 3, size, size, dtype=torch.float64) * 2 - 1
        expected = theirs(images, return_rgb=False, return_latents=False, randomize_noise=False)[0]
        assert expected.std() > 0.1
        assert (model(images) - expected).abs().max() < 1e-11


# --- always


def test_state_dict_at_512_is_that_of_the_published_checkpoint() -> None:
    assert shapes(GFPGANv1(512)) == json.loads(STATE_DICT_512.read_text(encoding="utf-8"))


def test_sizes() -> None:
    assert SIZES == (8, 16, 32, 64, 128, 256, 512, 1024)
    with pytest.raises(
        ValueError, match=r"size is 300; GFPGAN v1 exists for 8, 16, 32, 64, 128, 256, 512, 1024 pixels"
    ):
        GFPGANv1(300)


def test_one_image_in_one_image_out_and_the_same_each_time() -> None:
    model = random_model(32).eval()
    images = torch.rand(3, 3, 32, 32) * 2 - 1
    with torch.no_grad():
        first, second = model(images), model(images)
        alone = model(images[1:2])
    assert isinstance(first, Tensor)
    assert first.shape == images.shape
    assert torch.equal(first, second)
    assert (first[1:2] - alone).abs().max() < 1e-4


def test_stored_noise_is_what_is_added() -> None:
    model = random_model(16).eval()
    images = torch.zeros(1, 3, 16, 16)
    with torch.no_grad():
        before = model(images)
        model.stylegan_decoder.style_conv1.weight.fill_(1)
        assert not torch.equal(model(images), before)
        for noise in model.stylegan_decoder.noises.buffers():
            noise.zero_()
        assert torch.equal(model(images), before)


def test_training_outputs_and_mapping_network_never_run() -> None:
    model = random_model(16).eval()
    images = torch.rand(1, 3, 16, 16)
    with torch.no_grad():
        before = model(images)
        for unused in (model.toRGB, model.stylegan_decoder.style_mlp):
            for parameter in unused.parameters():
                parameter.fill_(float("nan"))
        assert torch.equal(model(images), before)


@pytest.mark.parametrize("seed", range(3))
def test_random_weights_give_an_image(seed: int) -> None:
    torch.manual_seed(seed)
    model = random_model(128).eval()
    with torch.no_grad():
        image = model(torch.rand(1, 3, 128, 128) * 2 - 1)
        other = model(torch.rand(1, 3, 128, 128) * 2 - 1)
    assert 0.05 < image.std() < 1
    assert (image.abs() > 1).float().mean() < 0.3
    assert not torch.allclose(image, other, atol=0.01)


def test_random_weights_are_the_seed_s() -> None:
    torch.manual_seed(5)
    first = random_model(8).state_dict()
    torch.manual_seed(5)
    second = random_model(8).state_dict()
    torch.manual_seed(6)
    third = random_model(8).state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not torch.equal(first["conv_body_first.0.weight"], third["conv_body_first.0.weight"])


def test_trace_serves_other_batch_sizes_and_warns_of_nothing() -> None:
    export = export_restoration(context([3, 32, 32], 8), traced_batch=2, checked_batches=(1, 3))
    assert [tuple(x.shape) for (x,) in export.fresh_inputs] == [(1, 3, 32, 32), (3, 3, 32, 32)]
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error", torch.jit.TracerWarning)
        traced = torch.jit.trace(export.eager, export.example_inputs, strict=False, check_trace=True)
        for inputs in (*export.fresh_inputs, (torch.rand(8, 3, 32, 32),)):
            assert (traced(*inputs) - export.eager(*inputs)).abs().max() < 1e-5


# --- checkpoints


@pytest.fixture(scope="module")
def trained() -> GFPGANv1:
    torch.manual_seed(9)
    return GFPGANv1(8)


@pytest.mark.parametrize("entry", ["params_ema", "params", None])
def test_a_checkpoint_is_loaded_whole(tmp_path: Path, trained: GFPGANv1, entry: str | None) -> None:
    file = tmp_path / "GFPGANv1.pth"
    state = trained.state_dict()
    torch.save(state if entry is None else {entry: state}, file)
    loaded = pretrained_model(8, file).state_dict()
    assert loaded.keys() == state.keys()
    assert all(torch.equal(loaded[name], state[name]) for name in state)


def test_the_moving_average_is_preferred(tmp_path: Path, trained: GFPGANv1) -> None:
    file = tmp_path / "both.pth"
    raw = {name: tensor + 1 for name, tensor in trained.state_dict().items()}
    torch.save({"params": raw, "params_ema": trained.state_dict()}, file)
    loaded = pretrained_model(8, file)
    assert torch.equal(loaded.final_linear.weight, trained.final_linear.weight)


def test_checkpoints_that_do_not_fit(tmp_path: Path, trained: GFPGANv1) -> None:
    def save(name: str, content: object) -> Path:
        torch.save(content, tmp_path / name)
        return tmp_path / name

    incomplete = dict(trained.state_dict())
    del incomplete["final_linear.bias"]
    surplus = {**trained.state_dict(), "extra": torch.zeros(1)}
    (tmp_path / "text.pth").write_text("not a checkpoint")
    cases = [
        (tmp_path / "missing.pth", r"there is no file .*missing\.pth"),
        (tmp_path / "text.pth", r"text\.pth is not a PyTorch checkpoint: "),
        (save("list.pth", [1, 2]), r"list\.pth holds no state dict"),
        (save("resnet.pth", {"fc.weight": torch.zeros(2)}), r"resnet\.pth does not hold GFPGAN v1"),
        (save("incomplete.pth", incomplete), r'Missing key\(s\) in state_dict: "final_linear\.bias"'),
        (save("surplus.pth", surplus), r'Unexpected key\(s\) in state_dict: "extra"'),
    ]
    for file, message in cases:
        with pytest.raises(TraceError, match=message):
            pretrained_model(8, file)


def test_a_checkpoint_of_another_size_names_both_sizes_and_the_field(tmp_path: Path, trained: GFPGANv1) -> None:
    file = tmp_path / "GFPGANv1.pth"
    torch.save({"params_ema": trained.state_dict()}, file)
    with pytest.raises(TraceError) as raised:
        export_restoration(context([3, 16, 16], 8, file), traced_batch=1, checked_batches=(1,))
    assert raised.value.message == f"{file} is for 8 x 8 images, but model.yaml asks for 16 x 16"
    assert raised.value.hint == "Set height and width in dims of input__0 and output__0 in model.yaml to 8."


def test_where_weights_come_from_is_said(tmp_path: Path, trained: GFPGANv1) -> None:
    file = tmp_path / "GFPGANv1.pth"
    torch.save({"params_ema": trained.state_dict()}, file)
    pretrained = export_restoration(context([1, 3, 8, 8], 0, file), traced_batch=1, checked_batches=(1,)).weights
    random = export_restoration(context([1, 3, 8, 8], 0), traced_batch=1, checked_batches=(1,)).weights
    assert (pretrained.kind, pretrained.description) == ("pretrained", "GFPGAN v1 from GFPGANv1.pth")
    assert (random.kind, random.description) == ("random", "seeded random weights (seed 0), not pretrained")


# --- model.yaml


@pytest.mark.parametrize(("dims", "max_batch_size", "size"), [([1, 3, 256, 256], 0, 256), ([3, 512, 512], 8, 512)])
def test_the_size_comes_from_the_dims(dims: list[int], max_batch_size: int, size: int) -> None:
    assert image_size(context(dims, max_batch_size)) == size


@pytest.mark.parametrize(
    ("dims", "max_batch_size"),
    [
        ([3, 256, 256], 0),
        ([2, 3, 256, 256], 0),
        ([1, 3, 256, 256], 8),
        ([3, 256, 512], 8),
        ([3, 300, 300], 8),
        ([3, -1, -1], 8),
        ([1, 256, 256], 8),
        ([], 0),
    ],
)
def test_dims_that_do_not_fit(dims: list[int], max_batch_size: int) -> None:
    with pytest.raises(TraceError, match=re.escape(f"dims of input__0 are {dims}; GFPGAN v1 takes [")) as raised:
        image_size(context(dims, max_batch_size))
    assert raised.value.hint is not None
    assert "8, 16, 32, 64, 128, 256, 512, 1024" in raised.value.hint
