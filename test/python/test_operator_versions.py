"""A traced file stores the version of its operators, because PyTorch gives lower versions an older meaning."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import pytest
import torch

from conftest import AddModel, Run

OPERATORS = """
    import torch
    from torch import nn
    from tracing import TorchScriptExport, Weights

    class Operators(nn.Module):
        def forward(self, n):
            return {operators}

    def export(context):
        return TorchScriptExport(
            eager=Operators(),
            example_inputs={example},
            fresh_inputs=[(torch.tensor([[-7, -2, 0, 9]]),), (torch.tensor([[1, 2, 3, 4], [5, 6, 7, 9]]),)],
            tolerance=0,
            weights=Weights.none(),
        )
"""
EXAMPLE = "(torch.tensor([[2, 4, 6, 8]]),)"

DIVISION = "n / 2, 7 / (n.abs() + 1), n.sum(0, keepdim=True) / n.size(0)"
MEAN = "n.sum(0, keepdim=True), n.float().mean(0, keepdim=True)"
FLOOR = "n // 2, torch.div(n, 2, rounding_mode='trunc'), torch.floor_divide(n, 3)"

# Example (None: scripted), operators, their version, types of the results. Those that brought a new version, and others
# whose results would show an older one.
CASES = [
    (EXAMPLE, MEAN, 3, ["INT64", "FP32"]),
    (EXAMPLE, DIVISION, 4, ["FP32"] * 3),
    (None, DIVISION, 4, ["FP32"] * 3),
    (EXAMPLE, FLOOR, 4, ["INT64"] * 3),
    (EXAMPLE, "(n / 2).to(torch.float32)", 4, ["FP32"]),
    (EXAMPLE, "n + torch.full([4], 7)", 5, ["INT64"]),
    (EXAMPLE, "n + torch.linspace(0, 1, 4)", 8, ["FP32"]),
    (EXAMPLE, "n + torch.logspace(0, 1, 4)", 9, ["FP32"]),
    (EXAMPLE, "torch.nn.functional.gelu(n.float(), approximate='tanh')", 10, ["FP32"]),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[1]}, {'scripted' if case[0] is None else 'traced'}")
def test_a_traced_file_answers_as_pytorch(
    add_model: AddModel, run: Run, case: tuple[str | None, str, int, list[str]]
) -> None:
    example, operators, version, types = case
    outputs = [
        f"{{ name: output__{n}, data_type: TYPE_{data_type}, dims: [-1, 4] }}" for n, data_type in enumerate(types)
    ]
    config = f"input: [{{ name: input__0, data_type: TYPE_INT64, dims: [-1, 4] }}]\noutput: [{', '.join(outputs)}]"
    folder = add_model("operators", OPERATORS.format(operators=operators, example=example), config=config)
    status, events = run()
    assert (status, events[-1].get("error")) == (0, None)
    assert events[-1]["check"]["max_abs_diff"] == 0
    assert operator_version(folder / "1" / "model.pt") == version


def operator_version(path: Path) -> int:
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if name.endswith("/version")]
        assert len(names) == 1
        return int(archive.read(names[0]))


def test_the_cases_have_all_versions_that_pytorch_names() -> None:
    header = Path(torch.__file__).parent / "include" / "caffe2" / "serialize" / "versions.h"
    highest = re.search(r"kMaxSupportedFileFormatVersion = 0x([0-9A-F]+)L", header.read_text())
    assert highest is not None
    bumps = torch._C._get_operator_version_map().values()  # type: ignore[attr-defined]
    versions = {entry.bumped_at_version for entries in bumps for entry in entries}
    assert max(versions) == int(highest[1], 16)
    # 6 and 7 changed how an archive is written, and no operator.
    assert {version for _, _, version, _ in CASES} == {3} | versions
