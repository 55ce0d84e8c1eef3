"""Changes values in a model.yaml and preserves comments and everything else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from tracing.contract import Dims, FieldPath, field_name
from tracing.repository import Model


def set_dims(file: Path, values: Mapping[FieldPath, Dims]) -> list[str]:
    """Write `values` into `file` and return one phrase for each change.

    The lists keep their length. Raises KeyError for a missing field.
    """
    text = file.read_text(encoding="utf-8")
    root = yaml.compose(text, yaml.SafeLoader)
    changes = []
    # By position in the text, because an alias has the position of its anchor.
    numbers: dict[int, tuple[int, int]] = {}
    for path, dims in values.items():
        node = root
        for step in path:
            node = _child(node, step)
        assert isinstance(node, yaml.SequenceNode)  # dims
        changes.append(f"{field_name(path)}: [{', '.join(dim.value for dim in node.value)}] -> {dims}")
        for old, new in zip(node.value, dims, strict=True):
            numbers[old.start_mark.index] = (old.end_mark.index, new)
    for start, (end, number) in sorted(numbers.items(), reverse=True):
        text = f"{text[:start]}{number}{text[end:]}"
    file.write_text(text, encoding="utf-8")
    return changes


def neighbours(model: Model, values: Mapping[FieldPath, Dims]) -> dict[Model, dict[FieldPath, Dims]]:
    """Return `values` of `model` for the models that its tensors are connected to in ensembles: model -> dims.

    Only for models with a trace.py, and only dims that equal the present ones of `model`: -1 accepts any size.
    """
    found: dict[Model, dict[FieldPath, Dims]] = {}
    config = model.config()
    for kind, other_kind in (("input", "output"), ("output", "input")):
        for index, tensor in enumerate(config.get(kind) or []):
            new = values.get((kind, index, "dims"))
            if new is None:
                continue
            for name, other_name in _other_ends(model, kind, tensor["name"]):
                other = Model(model.folder.parent / name, model.given)
                declared = other.config().get(other_kind) or [] if other.trace_file.exists() else []
                for place, their in enumerate(declared):
                    if their["name"] == other_name and their["dims"] == tensor["dims"]:
                        found.setdefault(other, {})[other_kind, place, "dims"] = new
    return found


def _other_ends(model: Model, kind: str, name: str) -> Iterator[tuple[str, str]]:
    """Yield model and tensor at the other end of the tensor `name` of `model`, for every ensemble in its repository."""
    here, there = ("input_map", "output_map") if kind == "input" else ("output_map", "input_map")
    for file in sorted(model.folder.parent.glob("*/model.yaml")):
        scheduling = Model(file.parent).config().get("ensemble_scheduling") or {}
        steps: list[Mapping[str, Any]] = scheduling.get("step") or []
        between = {step[here].get(name) for step in steps if step["model_name"] == model.name} - {None}
        for step in steps:
            yield from ((step["model_name"], other) for other, tensor in step[there].items() if tensor in between)


def _child(node: yaml.Node | None, step: str | int) -> yaml.Node:
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step]  # type: ignore[no-any-return]
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == step:
                return value  # type: ignore[no-any-return]
    raise KeyError(step)
