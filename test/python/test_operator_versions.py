"""A traced file stores the version of its operators, because PyTorch gives lower versions an older meaning."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from tracing import TorchScriptExport, Weights
from tracing.check import answers, compare
from tracing.make import _write


class Mean(nn.Module):
    def forward(self, n: Tensor) -> tuple[Tensor, Tensor]:
        return n.sum(0, keepdim=True), n.float().mean(0, keepdim=True)


class Divide(nn.Module):
    def forward(self, n: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return n / 2, 7 / (n.abs() + 1), torch.div(n, 2, rounding_mode="trunc")


class Full(nn.Module):
    def forward(self, n: Tensor) -> Tensor:
        return n + torch.full([4], 7)


class Gelu(nn.Module):
    def forward(self, n: Tensor) -> Tensor:
        return functional.gelu(n.float(), approximate="tanh")


@pytest.mark.parametrize("scripted", [False, True])
@pytest.mark.parametrize(("module", "version"), [(Mean, 3), (Divide, 4), (Full, 5), (Gelu, 10)])
def test_a_traced_file_answers_as_pytorch(
    tmp_path: Path, module: Callable[[], nn.Module], version: int, scripted: bool
) -> None:
    eager = module().eval()
    inputs = [(torch.tensor([[-7, -2, 0, 9]]),), (torch.tensor([[1, 2, 3, 4], [5, 6, 7, 9]]),)]
    example = None if scripted else (torch.tensor([[2, 4, 6, 8]]),)
    export = TorchScriptExport(
        eager=eager, example_inputs=example, fresh_inputs=inputs, tolerance=0, weights=Weights.none()
    )
    path = tmp_path / "model.pt"
    _write(export, path, tmp_path, check_trace=True)
    loaded = torch.jit.load(path)  # type: ignore[no-untyped-call]
    assert compare(inputs, answers(eager, inputs), answers(loaded, inputs), 0).max_abs_diff == 0
    with zipfile.ZipFile(path) as archive:
        versions = [archive.read(name) for name in archive.namelist() if name.endswith("/version")]
    assert [int(text) for text in versions] == [version]
