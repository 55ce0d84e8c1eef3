"""The config.pbtxt texts of our models, read with Triton's message definition from tritonclient."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

# The required content of each model: platform, max_batch_size, inputs and outputs as (name, type, dims).
MODELS: dict[str, tuple[str, int, list[tuple[str, str, list[int]]], list[tuple[str, str, list[int]]]]] = {
    "bert": (
        "pytorch_libtorch",
        8,
        [("input__0", "TYPE_INT64", [-1]), ("input__1", "TYPE_INT64", [-1])],
        [("output__0", "TYPE_FP32", [-1, 384]), ("output__1", "TYPE_FP32", [384])],
    ),
    "ens_face_restoration_v2.1": (
        "ensemble",
        0,
        [("raw_image", "TYPE_UINT8", [-1, -1, 3])],
        [("image_out", "TYPE_UINT8", [-1, -1, 3])],
    ),
    "gfpgan": (
        "pytorch_libtorch",
        8,
        [("input__0", "TYPE_FP32", [3, 256, 256])],
        [("output__0", "TYPE_FP32", [3, 256, 256])],
    ),
    "infer_face_restoration_v2.1": (
        "pytorch_libtorch",
        0,
        [("input__0", "TYPE_FP32", [1, 3, 256, 256])],
        [("output__0", "TYPE_FP32", [1, 3, 256, 256])],
    ),
    "post_gfpgan": (
        "pytorch_libtorch",
        0,
        [("input__0", "TYPE_FP32", [1, 3, -1, -1]), ("input__1", "TYPE_UINT8", [-1, -1, 3])],
        [("output__0", "TYPE_UINT8", [-1, -1, 3])],
    ),
    "pre_gfpgan": (
        "pytorch_libtorch",
        0,
        [("input__0", "TYPE_UINT8", [-1, -1, 3])],
        [("output__0", "TYPE_FP32", [1, 3, 256, 256])],
    ),
    "resnet": (
        "pytorch_libtorch",
        8,
        [("input__0", "TYPE_FP32", [3, 224, 224])],
        [("output__0", "TYPE_FP32", [1000])],
    ),
    "wav2vec_general_v1": (
        "tensorrt_plan",
        8,
        [("input_values", "TYPE_FP32", [-1])],
        [("logits", "TYPE_FP32", [-1, 32])],
    ),
    "wav2vec_general_v2": (
        "onnxruntime_onnx",
        8,
        [("input_values", "TYPE_FP32", [-1])],
        [("logits", "TYPE_FP32", [-1, 32])],
    ),
}

GOLDEN = Path(__file__).parent.parent / "data" / "config"


def read(name: str) -> Any:
    return text_format.Parse((GOLDEN / f"{name}.pbtxt").read_text(), model_config_pb2.ModelConfig())


def tensors(group: Any) -> list[tuple[str, str, list[int]]]:
    return [(one.name, model_config_pb2.DataType.Name(one.data_type), list(one.dims)) for one in group]


def test_every_text_is_checked() -> None:
    assert sorted(path.stem for path in GOLDEN.iterdir()) == sorted(MODELS)


@pytest.mark.parametrize("name", MODELS)
def test_triton_reads_the_text_as_it_is_meant(name: str) -> None:
    config = read(name)
    assert config.name == name
    assert (config.platform, config.max_batch_size, tensors(config.input), tensors(config.output)) == MODELS[name]
    assert list(config.version_policy.specific.versions) == [1]


def test_the_ensemble_is_wired() -> None:
    steps = read("ens_face_restoration_v2.1").ensemble_scheduling.step
    wiring = [(step.model_name, step.model_version, dict(step.input_map), dict(step.output_map)) for step in steps]
    assert wiring == [
        ("pre_gfpgan", -1, {"input__0": "raw_image"}, {"output__0": "preprocessed_image"}),
        ("infer_face_restoration_v2.1", -1, {"input__0": "preprocessed_image"}, {"output__0": "net_out"}),
        ("post_gfpgan", -1, {"input__0": "net_out", "input__1": "raw_image"}, {"output__0": "image_out"}),
    ]


def test_batches_are_dynamic_where_there_are_batches() -> None:
    dynamic = {name for name in MODELS if read(name).HasField("dynamic_batching")}
    assert dynamic == {name for name, (_, max_batch_size, _, _) in MODELS.items() if max_batch_size > 0}
