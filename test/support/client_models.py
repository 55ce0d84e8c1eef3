"""Writes the TorchScript files that triton-client.test.ts serves: `python client_models.py REPOSITORY`."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import torch
from torch import Tensor, nn

NUMERIC_TYPES = 9
"""Number of data types that NVIDIA's PyTorch backend converts, except BYTES."""


class EveryType(nn.Module):
    """Returns each input tensor [n] unchanged, then each converted to FP64 [n], which shows how PyTorch read it."""

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        return (*(x.clone() for x in tensors), *(x.double() for x in tensors))


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


def main(repository: Path) -> None:
    """Write the models. Those with branches on data are scripted; EveryType is traced, as TorchScript has no *args."""
    examples = tuple(torch.ones(1) for _ in range(NUMERIC_TYPES))
    models = {
        "every_type/1": torch.jit.trace(EveryType(), examples),
        "divide/1": torch.jit.script(Divide(whole=False)),
        "divide/2": torch.jit.script(Divide(whole=True)),
        "scores/1": torch.jit.script(nn.Identity()),
    }
    for path, model in models.items():
        folder = repository / path
        folder.mkdir(parents=True)
        model.save(str(folder / "model.pt"))


if __name__ == "__main__":
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"torch\.jit\..*")
    main(Path(sys.argv[1]))
