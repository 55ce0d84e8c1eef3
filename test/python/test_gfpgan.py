"""GFPGAN v1, original and clean, against the reference implementation; its weights and its exports.

`npm test -- --only python` and `npm test -- --all` fetch the reference, PyPI's `gfpgan` and `basicsr`
(python/requirements/gfpgan.txt), and name their folder in GFPGAN_REFERENCE. They are too old to be dependencies, so
that pytest alone skips these comparisons.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tracing.contract import TraceContext, TraceError
from tracing.gfpgan import SIZES, GFPGANv1
from tracing.gfpgan_clean import GFPGANv1Clean
from tracing.restoration import export_restoration
from tracing.weights import read_checkpoint

STATE_DICT_512 = Path(__file__).parents[1] / "data" / "gfpganv1-state-dict.json"
REFERENCE = os.environ.get("GFPGAN_REFERENCE")
SETTINGS: dict[str, Any] = {
    "num_style_feat": 512,
    "decoder_load_path": None,
    "fix_decoder": True,
    "num_mlp": 8,
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

Architecture = Literal["GFPGANv1", "GFPGANv1Clean"]
# As the published files have them.
ARCHITECTURES: dict[Architecture, tuple[Callable[[int], nn.Module], dict[str, Any]]] = {
    "GFPGANv1": (GFPGANv1, {**SETTINGS, "channel_multiplier": 1, "resample_kernel": (1, 3, 3, 1), "lr_mlp": 0.01}),
    "GFPGANv1Clean": (GFPGANv1Clean, {**SETTINGS, "channel_multiplier": 2}),
}
MODULES = {"GFPGANv1": "gfpgan.archs.gfpganv1_arch", "GFPGANv1Clean": "gfpgan.archs.gfpganv1_clean_arch"}

MakeReference = Callable[[Architecture, int], nn.Module]


@pytest.fixture(scope="module")
def reference() -> Iterator[MakeReference]:
    """The networks of PyPI gfpgan, with the C++ activation replaced by that operator's formula."""
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
    # Its module imports C++ as well; every parameter is drawn at random here.
    initialisation = ModuleType("basicsr.archs.arch_util")
    vars(initialisation).update(default_init_weights=lambda *_, **__: None)
    sys.modules[initialisation.__name__] = initialisation

    def make(architecture: Architecture, size: int) -> nn.Module:
        module = importlib.import_module(MODULES[architecture])
        network: nn.Module = getattr(module, architecture)(out_size=size, **ARCHITECTURES[architecture][1])
        return network

    yield make
    for name in [name for name in sys.modules if name.split(".")[0] in ("basicsr", "gfpgan")]:
        del sys.modules[name]


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("size", [8, 64, 256])
def test_state_dict_equals_the_reference(reference: MakeReference, architecture: Architecture, size: int) -> None:
    assert shapes(ARCHITECTURES[architecture][0](size)) == shapes(reference(architecture, size))


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_published_file_gives_the_output_of_the_reference(
    reference: MakeReference, architecture: Architecture, tmp_path: Path
) -> None:
    """In float64 the two agree to rounding, with every parameter random. Larger sizes repeat these layers."""
    theirs = reference(architecture, 128).eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            spread = 0.1 if parameter.numel() == 1 or parameter.std() == 0 else 0.1 * float(parameter.std())
            parameter.add_(torch.randn_like(parameter) * spread)
        torch.save({"params_ema": theirs.state_dict()}, tmp_path / "published.pth")
        checkpoint = read_checkpoint(tmp_path / "published.pth")
        assert checkpoint.size == 128
        model = checkpoint.model().double().eval()
        assert isinstance(model, ARCHITECTURES[architecture][0])  # type: ignore[arg-type]
        images = torch.rand(1, 3, 128, 128, dtype=torch.float64) * 2 - 1
        expected = theirs.double()(images, return_rgb=False, return_latents=False, randomize_noise=False)[0]
        assert expected.std() > 0.1
        assert (model(images) - expected).abs().max() <= 1e-12


# --- always


def test_state_dict_at_512_is_that_of_the_published_checkpoint() -> None:
    assert shapes(GFPGANv1(512)) == json.loads(STATE_DICT_512.read_text(encoding="utf-8"))


def test_sizes() -> None:
    assert SIZES == (8, 16, 32, 64, 128, 256, 512, 1024)
    with pytest.raises(ValueError, match=r"size is 300; GFPGAN exists for 8, 16, 32, 64, 128, 256, 512, 1024 pixels"):
        GFPGANv1(300)


# --- checkpoints


@pytest.fixture(scope="module")
def trained() -> GFPGANv1:
    torch.manual_seed(9)
    return GFPGANv1(8)


@pytest.mark.parametrize("entries", [["params", "params_ema"], ["params"], []])
def test_a_checkpoint_is_loaded_whole(tmp_path: Path, trained: GFPGANv1, entries: list[str]) -> None:
    """The moving average is preferred."""
    file = tmp_path / "GFPGANv1.pth"
    state = trained.state_dict()
    torch.save({name: state if name == entries[-1] else {} for name in entries} or state, file)
    loaded = read_checkpoint(file).model().state_dict()
    assert loaded.keys() == state.keys()
    assert all(torch.equal(loaded[name], state[name]) for name in state)


def test_checkpoints_that_do_not_fit(tmp_path: Path, trained: GFPGANv1) -> None:
    def save(name: str, content: object) -> Path:
        torch.save(content, tmp_path / name)
        return tmp_path / name

    incomplete = dict(trained.state_dict())
    del incomplete["final_linear.bias"]
    surplus = {**trained.state_dict(), "extra": torch.zeros(1)}
    (tmp_path / "text.pth").write_text("not a checkpoint")
    cases = [
        (tmp_path / "missing.pth", r"cannot read .*missing\.pth: FileNotFoundError"),
        (tmp_path / "text.pth", r"cannot read .*text\.pth: UnpicklingError"),
        (save("list.pth", [1, 2]), r"list\.pth does not contain GFPGAN v1"),
        (save("resnet.pth", {"fc.weight": torch.zeros(2)}), r"resnet\.pth does not contain GFPGAN v1"),
        (save("incomplete.pth", incomplete), r'Missing key\(s\) in state_dict: "final_linear\.bias"'),
        (save("surplus.pth", surplus), r'Unexpected key\(s\) in state_dict: "extra"'),
    ]
    for file, message in cases:
        with pytest.raises(TraceError, match=message):
            read_checkpoint(file).model()


def test_an_export_of_a_checkpoint(tmp_path: Path, trained: GFPGANv1) -> None:
    file = tmp_path / "GFPGANv1.pth"
    torch.save({"params_ema": trained.state_dict()}, file)
    weights = export_restoration(context([1, 3, 8, 8], 0, file), traced_batch=1, checked_batches=(1,)).weights
    assert (weights.kind, weights.description) == ("pretrained", "GFPGAN v1 from GFPGANv1.pth")
    with pytest.raises(TraceError) as raised:
        export_restoration(context([3, 16, 16], 8, file), traced_batch=1, checked_batches=(1,))
    assert raised.value.message == "GFPGANv1.pth is for images of 8 x 8, but model.yaml has 16 x 16"
    assert raised.value.hint == "In model.yaml, replace 16 by 8 in all dims, also in those of model_warmup."
