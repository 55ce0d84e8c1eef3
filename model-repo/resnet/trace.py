"""Exports ResNet-50 of torchvision: seeded random weights, or `--weights resnet=FILE` or `resnet=IMAGENET1K_V2`."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn
from torchvision.models import ResNet50_Weights, resnet50

from tracing import TorchScriptExport, TraceContext, TraceError, Weights


def export(context: TraceContext) -> TorchScriptExport:
    """Export the classifier and the names of its classes in the order of the logits."""
    dims = context.input_dims(0)
    model = resnet50().eval()
    weights = load(model, context.weights) if context.weights is not None else Weights.random(context.seed)
    labels = ResNet50_Weights.IMAGENET1K_V2.meta["categories"]
    return TorchScriptExport(
        eager=model,
        example_inputs=(torch.randn(2, *dims),),
        fresh_inputs=[(torch.randn(batch, *dims),) for batch in (1, 3, 8)],
        # Random weights give logits of about 100, so this is a relative tolerance of about 1e-5.
        tolerance=1e-3,
        # An H100 differs by 0.052, with TF32 also in matrix products by 0.060 (docs/tracing.md#on-a-gpu).
        serving_tolerance=0.2,
        weights=weights,
        extra_files={"labels.txt": "".join(f"{label}\n" for label in labels).encode()},
    )


def load(model: nn.Module, source: str) -> Weights:
    """Load `source`, a file with a state dict or the name of torchvision weights, into `model`."""
    if Path(source).is_file():
        state = torch.load(source, map_location="cpu", weights_only=True)
        weights = Weights("pretrained", "ResNet-50, state dict", source)
    elif source in ResNet50_Weights.__members__:
        # From torchvision's cache, if it has them.
        state = ResNet50_Weights[source].get_state_dict(progress=False, check_hash=True)
        weights = Weights("pretrained", f"ResNet-50, torchvision {source}", source)
    else:
        names = ", ".join(ResNet50_Weights.__members__)
        raise TraceError(
            f"'{source}' is neither a file nor the name of torchvision weights for ResNet-50",
            f"Give --weights resnet=FILE with a state dict, or one of {names}.",
        )
    model.load_state_dict(state)
    return weights
