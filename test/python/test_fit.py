"""`--fit-config`: weights of another size, and the edits of model.yaml."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from conftest import AddModel, Run
from tracing.fit import neighbours, set_dims
from tracing.gfpgan_clean import GFPGANv1Clean
from tracing.repository import Model

FACES = """
    from tracing.restoration import export_restoration

    def export(context):
        return export_restoration(context, traced_batch=2, checked_batches=(1, 3))
"""
CONFIG = """
    max_batch_size: 3
    input: [{ name: input__0, data_type: TYPE_FP32, dims: [3, 16, 16] }]  # pixels
    output:
      - name: output__0
        data_type: TYPE_FP32
        dims: [
          3, 16, 16 ]
    model_warmup:
      - name: first
        inputs: { input__0: { data_type: TYPE_FP32, dims: [3, 16, 16], zero_data: true } }
"""


def test_weights_of_another_size_are_served_after_one_command(add_model: AddModel, run: Run, tmp_path: Path) -> None:
    folder = add_model("faces", FACES, config=CONFIG)
    add_model("others", FACES, config=CONFIG)
    weights = tmp_path / "GFPGANv1.4.pth"
    torch.save({"params_ema": GFPGANv1Clean(8).state_dict()}, weights)
    before = (folder / "model.yaml").read_text()
    status, events = run("--models", "faces", "--weights", f"faces={weights}")
    assert status == 1
    assert events[-1]["error"] == "GFPGANv1.4.pth is for images of 8 x 8, but model.yaml has 16 x 16"
    assert events[-1]["hint"] == (
        "Run it again with --fit-config, which sets input[0].dims to [3, 8, 8], output[0].dims to [3, 8, 8], "
        "model_warmup[0].inputs.input__0.dims to [3, 8, 8] in model.yaml."
    )
    assert (folder / "model.yaml").read_text() == before

    status, events = run("--weights", f"faces={weights}", "--fit-config")
    assert status == 0
    assert [event["changes"] for event in events if event["event"] == "fitted"] == [
        [
            "input[0].dims: [3, 16, 16] -> [3, 8, 8]",
            "output[0].dims: [3, 16, 16] -> [3, 8, 8]",
            "model_warmup[0].inputs.input__0.dims: [3, 16, 16] -> [3, 8, 8]",
        ]
    ]
    assert (folder / "model.yaml").read_text() == before.replace("16, 16", "8, 8")
    done = {event["model"]: event["weights"]["description"] for event in events if event["event"] == "done"}
    assert done["faces"] == "GFPGAN v1 clean from GFPGANv1.4.pth"
    assert torch.jit.load(str(folder / "1" / "model.pt"))(torch.zeros(2, 3, 8, 8)).shape == (2, 3, 8, 8)


BEFORE = """
    import torch
    from tracing import TorchScriptExport, Weights
    from tracing.faces import Preprocess

    def export(context):
        *_, size = context.output_dims("output__0")
        pictures = [(torch.full((n, n + 3, 3), n, dtype=torch.uint8),) for n in (1, 20)]
        return TorchScriptExport(
            eager=Preprocess(size), example_inputs=None, fresh_inputs=pictures, tolerance=0, weights=Weights.none()
        )
"""
BEFORE_CONFIG = """
    input: [{ name: input__0, data_type: TYPE_UINT8, dims: [-1, -1, 3] }]
    output: [{ name: output__0, data_type: TYPE_FP32, dims: [1, 3, 16, 16] }]
"""
NETWORK_CONFIG = """
    input: [{ name: input__0, data_type: TYPE_FP32, dims: [1, 3, 16, 16] }]
    output: [{ name: output__0, data_type: TYPE_FP32, dims: [1, 3, 16, 16] }]
"""
ENSEMBLE = """platform: ensemble
ensemble_scheduling:
  step:
    - { model_name: before, input_map: { input__0: photo }, output_map: { output__0: image } }
    - { model_name: network, input_map: { input__0: image }, output_map: { output__0: restored } }
    - { model_name: own, input_map: { x: restored, y: photo }, output_map: { z: answer } }
"""


def test_the_other_models_of_an_ensemble_follow(add_model: AddModel, run: Run, tmp_path: Path) -> None:
    network = add_model(
        "network",
        FACES.replace("traced_batch=2, checked_batches=(1, 3)", "traced_batch=1, checked_batches=(1, 1)"),
        config=NETWORK_CONFIG,
    )
    before = add_model("before", BEFORE, config=BEFORE_CONFIG)
    own = add_model("own", "", config="input: [{ name: x, data_type: TYPE_FP32, dims: [1, 3, 16, 16] }]")
    (own / "trace.py").unlink()
    (network.parent / "ensemble").mkdir()
    (network.parent / "ensemble" / "model.yaml").write_text(ENSEMBLE)
    assert run("--models", "before")[0] == 0
    weights = tmp_path / "GFPGANv1.4.pth"
    torch.save({"params_ema": GFPGANv1Clean(8).state_dict()}, weights)

    status, events = run("--weights", f"network={weights}", "--fit-config")
    assert (status, [(event["event"], event["model"]) for event in events if event["event"] in {"fitted", "done"}]) == (
        0,
        [("fitted", "before"), ("fitted", "network"), ("done", "network"), ("done", "before")],
    )
    picture = torch.zeros(9, 4, 3, dtype=torch.uint8)
    assert torch.jit.load(str(before / "1" / "model.pt"))(picture).shape == (1, 3, 8, 8)
    # A file that is not made here stays as it is described.
    assert "[1, 3, 16, 16]" in (own / "model.yaml").read_text()
    assert neighbours(Model(network), {("input", 0, "dims"): [9]}) == {Model(before): {("output", 0, "dims"): [9]}}


def test_only_the_numbers_change(tmp_path: Path) -> None:
    file = tmp_path / "model.yaml"
    file.write_text("a: &shape [1, 2] # both\nb: *shape\nc:\n  - d:\n      - 3 # one\n      - 4\n\n  # the end\n")
    assert set_dims(file, {("a",): [5, 6], ("b",): [5, 6], ("c", 0, "d"): [7, 64]}) == [
        "a: [1, 2] -> [5, 6]",
        "b: [1, 2] -> [5, 6]",
        "c[0].d: [3, 4] -> [7, 64]",
    ]
    assert file.read_text() == (
        "a: &shape [5, 6] # both\nb: *shape\nc:\n  - d:\n      - 7 # one\n      - 64\n\n  # the end\n"
    )
    with pytest.raises(KeyError):
        set_dims(file, {("c", 1, "d"): [7]})
