"""The config.pbtxt texts of our models, read with Triton's message definition from tritonclient."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from google.protobuf import json_format, text_format
from tritonclient.grpc import model_config_pb2

ROOT = Path(__file__).parents[2]
MODELS = sorted(path.parent.name for path in (ROOT / "model-repo").glob("*/model.yaml"))
TEXTS = ROOT / "test" / "data" / "config"


@pytest.mark.parametrize("name", MODELS)
def test_triton_reads_the_text_as_model_yaml_means_it(name: str) -> None:
    read: Any = text_format.Parse((TEXTS / f"{name}.pbtxt").read_text(), model_config_pb2.ModelConfig())
    config = yaml.safe_load((ROOT / "model-repo" / name / "model.yaml").read_text())
    meant = json_format.ParseDict({"name": name, **config}, model_config_pb2.ModelConfig())
    assert json_format.MessageToDict(read) == json_format.MessageToDict(meant)
