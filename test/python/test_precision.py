"""`precision`, `channels_last` and `freeze` of an export, through the command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from conftest import AddModel, Run
from tracing import TorchScriptExport, Weights, precision_bench
from tracing.precision import in_precision

TRACE = """
    import torch
    from torch import nn
    from tracing import TorchScriptExport, Weights

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.convolution = nn.Conv2d(3, 16, 3, padding=1)
            self.norm = nn.BatchNorm2d(16)

        def forward(self, picture, index):
            return self.norm(self.convolution(picture)), index + 1

    def export(context):
        def case(batch):
            return torch.rand(batch, 3, 8, 8), torch.arange(batch * 2).reshape(batch, 2)
        return TorchScriptExport(
            eager=Network(),
            example_inputs=case(2),
            fresh_inputs=[case(1), case(4)],
            weights=Weights.random(context.seed),
            {options}
        )
"""
CONFIG = """
    max_batch_size: 4
    input:
      - {{ name: {picture}, data_type: TYPE_FP32, dims: [3, 8, 8] }}
      - {{ name: {index}, data_type: TYPE_INT64, dims: [2] }}
    output:
      - {{ name: output__0, data_type: TYPE_FP32, dims: [16, 8, 8] }}
      - {{ name: output__1, data_type: TYPE_INT64, dims: [2] }}
"""
TOLERANCES = 'tolerance={"fp32": 1e-6, "bf16": 0.05, "fp16": 5e-3}'


def golden_tolerance(repository: Path) -> float:
    request: dict[str, Any] = json.loads((repository / "golden/1/traced-0.json").read_text(encoding="utf-8"))
    tolerance: float = request["outputs"][0]["tolerance"]["absolute"]
    return tolerance


# Options of the export; the tolerance of the golden requests; the data type of the computation.
@pytest.mark.parametrize(
    ("options", "allowed", "dtype"),
    [
        ("", 1e-6, torch.float32),
        ('precision="bf16",', 0.05, torch.bfloat16),
        ('precision="fp16",', 5e-3, torch.float16),
        ('precision="fp16", serving_tolerance=0.5,', 0.5, torch.float16),
        ('precision="bf16", serving_tolerance=1e-3,', 0.05, torch.bfloat16),
        ("channels_last=True,", 1e-6, torch.float32),
        ("freeze=True,", 1e-6, None),
        ('precision="bf16", channels_last=True, freeze=True,', 0.05, None),
    ],
)
def test_an_export_computes_in_its_precision_and_is_served_in_fp32(
    add_model: AddModel, run: Run, options: str, allowed: float, dtype: torch.dtype | None
) -> None:
    config = CONFIG.format(picture="picture", index="index")
    folder = add_model("m", TRACE.replace("{options}", options + TOLERANCES), config=config)
    status, events = run("--force")
    assert status == 0, events
    assert golden_tolerance(folder) == allowed
    module = torch.jit.load(folder / "1" / "model.pt")  # type: ignore[no-untyped-call]
    picture, index = torch.rand(3, 3, 8, 8), torch.zeros(3, 2, dtype=torch.int64)
    with torch.inference_mode():
        answer, count = module(picture, index)
    assert (answer.dtype, answer.is_contiguous(), count.dtype) == (torch.float32, True, torch.int64)
    if dtype is None:
        assert list(module.parameters()) == []
        return
    assert {value.dtype for value in module.parameters()} == {dtype}
    is_nhwc = module.convolution.weight.is_contiguous(memory_format=torch.channels_last)
    assert is_nhwc == ("channels_last" in options)
    # The numbers are those of that precision: equal to the bit only where nothing was rounded.
    stored = np.load(folder / "golden/1/traced-0.output__0.npy")
    given = np.load(folder / "golden/1/traced-0.picture.npy"), np.load(folder / "golden/1/traced-0.index.npy")
    with torch.inference_mode():
        again, _ = module(*map(torch.from_numpy, given))
    difference = float(np.abs(again.numpy() - stored).max())
    assert (difference > 1e-5) == (dtype != torch.float32)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ('precision="bf16", tolerance={"fp32": 1e-6},', "exports in bf16, but has tolerances for fp32 only"),
        ('tolerance=float("nan"),', "a tolerance is nan; allowed: finite numbers from 0"),
        ('tolerance=0, serving_tolerance=float("inf"),', "a tolerance is inf; allowed: finite numbers from 0"),
        ('precision="bf16", tolerance=1e-6,', "from the eager module; the model's tolerance is 1e-06"),
    ],
)
def test_a_tolerance_is_finite_and_that_of_the_precision(
    add_model: AddModel, run: Run, options: str, said: str
) -> None:
    add_model("m", TRACE.replace("{options}", options), config=CONFIG.format(picture="input__0", index="input__1"))
    status, events = run()
    assert status == 1
    assert said in events[-1]["error"]


def test_a_scripted_module_has_no_precision(add_model: AddModel, run: Run) -> None:
    trace = TRACE.replace("example_inputs=case(2)", "example_inputs=None")
    add_model(
        "m",
        trace.replace("{options}", 'precision="fp16",' + TOLERANCES),
        config=CONFIG.format(picture="picture", index="index"),
    )
    status, events = run()
    assert status == 1
    assert "a scripted module (example_inputs=None) is served as it is" in events[-1]["error"]


def test_in_precision_leaves_the_module_as_it_was() -> None:
    module = nn.Linear(4, 4).eval()
    low = in_precision(module, "bf16")
    assert (module.weight.dtype, low.weight.dtype) == (torch.float32, torch.bfloat16)
    assert in_precision(module, "fp32") is module


@pytest.mark.parametrize("way", precision_bench.WAYS, ids=str)
def test_the_benchmark_moves_a_copy_to_the_device(way: precision_bench.Way) -> None:
    # If the eager module shared its weights, they would move to the GPU with it, and the next trace would fail.
    eager = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)).eval().requires_grad_(False)
    picture = (torch.rand(1, 3, 8, 8),)
    export = TorchScriptExport(
        eager=eager, example_inputs=picture, fresh_inputs=[picture], tolerance=1.0, weights=Weights.none()
    )
    network = precision_bench._network(export, way, torch.device("cpu"))
    shared = {value.data_ptr() for value in network.parameters()} & {value.data_ptr() for value in eager.parameters()}
    assert shared == set()
