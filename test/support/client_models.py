"""Writes the TorchScript files that triton-client.test.ts serves: `python client_models.py REPOSITORY`."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import torch
from torch import Tensor, nn


class EveryType(nn.Module):
    """Gives back each of 13 tensors [n], and then each as what PyTorch takes its elements for, in FP64 [n]."""

    def forward(  # noqa: PLR0917 - TorchScript knows no *args
        self,
        x0: Tensor,
        x1: Tensor,
        x2: Tensor,
        x3: Tensor,
        x4: Tensor,
        x5: Tensor,
        x6: Tensor,
        x7: Tensor,
        x8: Tensor,
        x9: Tensor,
        x10: Tensor,
        x11: Tensor,
        x12: Tensor,
    ) -> tuple[Tensor, ...]:
        return (
            *(x0.clone(), x1.clone(), x2.clone(), x3.clone(), x4.clone(), x5.clone(), x6.clone()),
            *(x7.clone(), x8.clone(), x9.clone(), x10.clone(), x11.clone(), x12.clone()),
            *(x0.double(), x1.double(), x2.double(), x3.double(), x4.double(), x5.double(), x6.double()),
            *(x7.double(), x8.double(), x9.double(), x10.double(), x11.double(), x12.double()),
        )


class Divide(nn.Module):
    """FP32 [rows, columns] twice -> difference and quotient; `whole` rounds the quotient down."""

    def __init__(self, whole: bool) -> None:
        super().__init__()
        self.whole = whole

    def forward(self, dividend: Tensor, divisor: Tensor) -> tuple[Tensor, Tensor]:
        if bool((divisor == 0).any()):
            raise ValueError("a divisor is zero")
        quotient = dividend / divisor
        return dividend - divisor, quotient.floor() if self.whole else quotient


class CountRows(nn.Module):
    """FP32 [batch, n] -> the batch's number of rows, INT64 [batch, 1], and each row's sum, FP32 [batch, 1]."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        if bool((x < 0).any()):
            raise ValueError("a value is negative")
        return torch.full([x.size(0), 1], x.size(0), dtype=torch.int64), x.sum(dim=1, keepdim=True)


class Identity(nn.Module):
    """Any tensor as it is."""

    def forward(self, x: Tensor) -> Tensor:
        return x


MODELS = {
    "every_type/1": EveryType(),
    "divide/1": Divide(whole=False),
    "divide/2": Divide(whole=True),
    "count_rows/1": CountRows(),
    "scores/1": Identity(),
}

if __name__ == "__main__":
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"torch\.jit\..*")
    for path, model in MODELS.items():
        folder = Path(sys.argv[1], path)
        folder.mkdir(parents=True, exist_ok=True)
        torch.jit.script(model).save(str(folder / "model.pt"))
