from pathlib import Path

import torch
from torch import nn

from tracing import OnnxExport, TraceContext, Weights


class Celsius(nn.Module):
    """Degrees Fahrenheit [batch, 1] -> degrees Celsius [batch, 1]."""

    def forward(self, fahrenheit: torch.Tensor) -> torch.Tensor:
        return (fahrenheit - 32) * 5 / 9


def export(context: TraceContext) -> OnnxExport:
    """Describe how model.onnx is made from the network, and how it is compared with it."""
    network = Celsius()
    dims = context.input_dims("fahrenheit")  # as in model.yaml: [1]

    def save(path: Path) -> None:
        torch.onnx.export(
            network,
            (torch.rand(2, *dims),),
            str(path),
            input_names=["fahrenheit"],
            output_names=["celsius"],
            dynamic_axes={"fahrenheit": {0: "batch"}, "celsius": {0: "batch"}},
            dynamo=False,
        )

    return OnnxExport(
        eager=network,
        save=save,
        fresh_inputs=[(torch.rand(batch, *dims) * 100,) for batch in (1, 8)],
        tolerance=1e-4,
        weights=Weights.none(),
    )
