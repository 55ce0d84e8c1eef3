"""Rejects a module whose answer to one row depends on other rows of the batch."""

from __future__ import annotations

import pytest

from conftest import AddModel, Run

TRACE = """
    import torch
    from torch import nn
    from tracing import TorchScriptExport, Weights

    class Rows(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(4, track_running_stats={running})

        def forward(self, x):
            return {answer}

    def export(context):
        return TorchScriptExport(
            eager=Rows(),
            example_inputs=(torch.randn(2, 4),),
            fresh_inputs=[(torch.randn(1, 4),), (torch.randn(3, 4),)],
            tolerance=1e-5,
            weights=Weights.none(),
        )
"""
CONFIG = """
    max_batch_size: 3
    input: [{ name: input__0, data_type: TYPE_FP32, dims: [4] }]
    output: [{ name: output__0, data_type: TYPE_FP32, dims: [4] }]
"""


@pytest.mark.parametrize(
    ("answer", "row", "how"),
    [
        ("torch.softmax(x, dim=0)", 0, "is "),
        # Only rows behind the first one change.
        ("x.cumsum(0)", 1, "is "),
        ("x.masked_fill(x == x.amax(0, keepdim=True), -torch.inf)", 0, "has NaN or infinity in other places than "),
        ("self.norm(x[:, :, None].expand(-1, -1, 2))[:, :, 0]", 0, "is "),
        ("torch.softmax(x, dim=1)", None, ""),
    ],
)
def test_rows_of_a_batch(add_model: AddModel, run: Run, answer: str, row: int | None, how: str) -> None:
    folder = add_model("rows", TRACE.format(answer=answer, running="norm" not in answer), config=CONFIG)
    status, events = run()
    said = events[-1].get("error", "")
    if row is None:
        assert (status, said) == (0, "")
        return
    assert status == 1
    assert said.startswith(f"output 0: row {row} of a batch of 3 {how}")
    assert said.endswith(" the same row alone: the module mixes rows")
    assert "Triton puts requests of different clients into one batch" in events[-1]["hint"]
    assert not (folder / "1" / "model.pt").exists()
