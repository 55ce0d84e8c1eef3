"""The committed protocol.json against the tritonclient that it was made from."""

from __future__ import annotations

import importlib.util
import json
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
PROTOCOL = ROOT / "src" / "triton" / "protocol.json"


def generator() -> ModuleType:
    """The script; its name is no module name."""
    spec = importlib.util.spec_from_file_location("generate_protocol", ROOT / "tools" / "generate-protocol.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_committed_file_is_up_to_date() -> None:
    committed = json.loads(PROTOCOL.read_text())
    installed = version("tritonclient")
    if committed["source"] != {"package": "tritonclient", "version": installed}:
        pytest.skip(f"made from {committed['source']}, installed is {installed}")
    # Key order is the order of Triton's definition, which our config.pbtxt follows: it counts too.
    assert json.dumps(committed) == json.dumps(generator().protocol())
