import torch
from torch import nn

from tracing import ProgramExport, TraceContext, Weights


class Celsius(nn.Module):
    """Degrees Fahrenheit [batch, 1] -> degrees Celsius [batch, 1]."""

    def forward(self, fahrenheit: torch.Tensor) -> torch.Tensor:
        return (fahrenheit - 32) * 5 / 9


def export(context: TraceContext) -> ProgramExport:
    """Describe how model.pt2 is made from the network, and how it is compared with it."""
    dims = context.input_dims("INPUT__0")  # as in model.yaml: [1]
    return ProgramExport(
        eager=Celsius(),
        example_inputs=(torch.rand(2, *dims),),
        fresh_inputs=[(torch.rand(batch, *dims) * 100,) for batch in (1, 8)],
        tolerance=0,
        weights=Weights.none(),
    )
