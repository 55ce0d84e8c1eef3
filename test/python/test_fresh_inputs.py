"""Rejects inputs of the check that cannot reveal values which the trace froze."""

from __future__ import annotations

import pytest

from conftest import AddModel, Run

# Divides by the length of the traced example, which the check finds only with another length.
MEAN = """
    import torch
    from torch import nn
    from tracing import TorchScriptExport, Weights

    class Mean(nn.Module):
        def forward(self, x):
            return x.sum(-1, keepdim=True) / len(x[0].tolist())

    def export(context):
        example = torch.rand(2, 4)
        return TorchScriptExport(
            eager=Mean(), example_inputs=(example,), fresh_inputs={fresh}, tolerance=0, weights=Weights.none()
        )
"""
TENSORS = """
    max_batch_size: {batch}
    input: [{{ name: input__0, data_type: TYPE_FP32, dims: [{length}] }}]
    output: [{{ name: output__0, data_type: TYPE_FP32, dims: [1] }}]
"""


@pytest.mark.parametrize(
    ("fresh", "batch", "length", "error"),
    [
        (
            "[(example,), (torch.rand(1, 4),)]",
            2,
            4,
            "fresh_inputs[0] are the same as example_inputs, so they check nothing new",
        ),
        (
            "[(torch.ones(2, 4),), (torch.ones(2, 4),), (torch.rand(1, 4),)]",
            2,
            4,
            "fresh_inputs[1] are the same as fresh_inputs[0], so they check nothing new",
        ),
        (
            "[(torch.rand(2, 4),)]",
            8,
            4,
            "fresh_inputs have no batch of 1; max_batch_size in model.yaml allows 1 to 8",
        ),
        (
            "[(torch.rand(1, 4),), (torch.rand(3, 4),)]",
            8,
            4,
            "fresh_inputs have no batch of 8; max_batch_size in model.yaml allows 1 to 8",
        ),
        (
            "[(torch.rand(1, 4),), (torch.rand(2, 4),)]",
            2,
            -1,
            "fresh_inputs have sizes 4 where dims[0] of 'input__0' is -1 in model.yaml, and the example has 4",
        ),
        (
            "[(torch.rand(1, 5),), (torch.rand(2, 6),)]",
            2,
            -1,
            "fresh_inputs have sizes 5, 6 where dims[0] of 'input__0' is -1 in model.yaml, and the example has 4",
        ),
        ("[(torch.rand(1, 4),), (torch.rand(2, 4),)]", 2, 4, None),
    ],
)
def test_fresh_inputs(add_model: AddModel, run: Run, fresh: str, batch: int, length: int, error: str | None) -> None:  # noqa: PLR0917 - a table
    folder = add_model("mean", MEAN.format(fresh=fresh), config=TENSORS.format(batch=batch, length=length))
    status, events = run()
    said = events[-1].get("error")
    assert (status, (said or "")[: len(error or "")]) == (0 if error is None else 1, error or "")
    assert (folder / "1").exists() == (error is None)
    assert ("trace" in [event.get("step") for event in events]) == (error is None)


def test_infinity_and_nan_on_purpose(add_model: AddModel, run: Run) -> None:
    masked = MEAN.replace(
        "x.sum(-1, keepdim=True) / len(x[0].tolist())", "x[:, :1].masked_fill(x[:, :1] < 2, -torch.inf)"
    )
    fresh = "[(torch.rand(1, 4),), (torch.rand(2, 4) * 4,)]"
    add_model("mean", masked.format(fresh=fresh), config=TENSORS.format(batch=2, length=4))
    status, events = run()
    assert (status, events[-1].get("error")) == (0, None)
    assert 0 < events[-1]["check"]["not_finite"] < 3
