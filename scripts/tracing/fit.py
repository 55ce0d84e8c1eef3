"""Sets values in a model.yaml; comments and everything else stay as they are."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import yaml

from tracing.contract import Dims, FieldPath, field_name


def set_dims(file: Path, values: Mapping[FieldPath, Dims]) -> list[str]:
    """Writes `values` into `file`; what changed, one phrase for each.

    The lists stay as long as they are. Raises KeyError for a field that is not there.
    """
    text = file.read_text(encoding="utf-8")
    root = yaml.compose(text, yaml.SafeLoader)
    changes = []
    # By place, as an alias stands where its anchor does.
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


def _child(node: yaml.Node | None, step: str | int) -> yaml.Node:
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step]  # type: ignore[no-any-return]
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == step:
                return value  # type: ignore[no-any-return]
    raise KeyError(step)
