"""trace warns of a file that the server's PyTorch cannot read; the table has the release of the Dockerfile."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from conftest import AddModel, Run
from tracing import releases

GELU = """
    import torch
    from torch import nn
    from tracing import TorchScriptExport, Weights

    class Gelu(nn.Module):
        def forward(self, x):
            return torch.nn.functional.gelu(x, approximate="tanh")

    def export(context):
        return TorchScriptExport(
            eager=Gelu(),
            example_inputs=(torch.ones(2, 4),),
            fresh_inputs=[(torch.rand(1, 4),), (torch.rand(3, 4),)],
            tolerance=0,
            weights=Weights.none(),
        )
"""


def test_trace_warns_where_the_server_reads_older_versions_only(
    add_model: AddModel, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_model("m", GELU)
    table, dockerfile = tmp_path / "table.json", tmp_path / "Dockerfile"
    dockerfile.write_text("ARG TRITON_RELEASE=99.01\n", encoding="utf-8")
    monkeypatch.setattr(releases.unreadable_by_server, "__defaults__", (table, dockerfile))
    said = []
    for reads in (10, 9):
        table.write_text(json.dumps({"releases": [{"release": "99.01", "torchScript": reads}]}), encoding="utf-8")
        status, events = run("--force")
        assert status == 0
        said.append([event["text"] for event in events if event["event"] == "warning"])
    assert said[0] == []
    assert len(said[1]) == 1
    assert "the file has TorchScript version 10, but Triton 99.01 reads up to 9" in said[1][0]


def test_a_release_that_the_table_lacks_is_named(tmp_path: Path) -> None:
    dockerfile = tmp_path / "Dockerfile"
    dockerfile.write_text("ARG TRITON_RELEASE=99.01\n", encoding="utf-8")
    assert "Triton 99.01" in str(releases.unreadable_by_server(tmp_path / "unused", dockerfile=dockerfile))


def test_the_table_has_the_release_of_the_dockerfile(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    torch.jit.save(torch.jit.script(torch.nn.Identity()), str(path))  # type: ignore[no-untyped-call]
    assert releases.unreadable_by_server(path) is None
