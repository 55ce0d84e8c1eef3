"""Write src/triton/protocol.json, which contains the messages of Triton's model configuration for protobufjs.

Field names, numbers, types and enums are read from the descriptors in the PyPI package `tritonclient[grpc]`. The file
is a protobufjs reflection JSON (`Root.fromJSON`) with the field names as Triton spells them. Run this script again
after an upgrade of `tritonclient`; the output depends only on its version.

    python tools/generate-protocol.py
"""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)
from tritonclient.grpc import model_config_pb2

OUTPUT = Path(__file__).parents[1] / "src" / "triton" / "protocol.json"
PACKAGE = "inference"

Json = dict[str, Any]

# protobufjs names of the scalar types.
SCALARS = {
    FieldDescriptorProto.TYPE_DOUBLE: "double",
    FieldDescriptorProto.TYPE_FLOAT: "float",
    FieldDescriptorProto.TYPE_INT64: "int64",
    FieldDescriptorProto.TYPE_UINT64: "uint64",
    FieldDescriptorProto.TYPE_INT32: "int32",
    FieldDescriptorProto.TYPE_FIXED64: "fixed64",
    FieldDescriptorProto.TYPE_FIXED32: "fixed32",
    FieldDescriptorProto.TYPE_BOOL: "bool",
    FieldDescriptorProto.TYPE_STRING: "string",
    FieldDescriptorProto.TYPE_BYTES: "bytes",
    FieldDescriptorProto.TYPE_UINT32: "uint32",
    FieldDescriptorProto.TYPE_SFIXED32: "sfixed32",
    FieldDescriptorProto.TYPE_SFIXED64: "sfixed64",
    FieldDescriptorProto.TYPE_SINT32: "sint32",
    FieldDescriptorProto.TYPE_SINT64: "sint64",
}


def type_of(field: FieldDescriptorProto) -> str:
    """`float`, or the full name of a message or enum, which cannot be confused with a nested type of the same name."""
    return SCALARS.get(field.type) or field.type_name


def field_json(field: FieldDescriptorProto, map_entries: dict[str, DescriptorProto]) -> Json:
    entry = map_entries.get(field.type_name)
    if entry is not None:
        key, value = entry.field
        return {"keyType": type_of(key), "type": type_of(value), "id": field.number}
    result: Json = {"type": type_of(field), "id": field.number}
    if field.label == FieldDescriptorProto.LABEL_REPEATED:
        result = {"rule": "repeated", **result}
    if field.proto3_optional:
        result["options"] = {"proto3_optional": True}
    return result


def message_json(message: DescriptorProto, full_name: str) -> Json:
    map_entries = {f"{full_name}.{n.name}": n for n in message.nested_type if n.options.map_entry}
    nested = {n.name: message_json(n, f"{full_name}.{n.name}") for n in message.nested_type if not n.options.map_entry}
    nested |= {e.name: enum_json(e) for e in message.enum_type}
    result: Json = {}
    if message.oneof_decl:
        result["oneofs"] = {
            oneof.name: {
                "oneof": [f.name for f in message.field if f.HasField("oneof_index") and f.oneof_index == index]
            }
            for index, oneof in enumerate(message.oneof_decl)
        }
    result["fields"] = {f.name: field_json(f, map_entries) for f in message.field}
    if nested:
        result["nested"] = nested
    return result


def enum_json(enum: EnumDescriptorProto) -> Json:
    return {"values": {value.name: value.number for value in enum.value}}


def protocol() -> Json:
    """The reflection JSON with all messages and enums of a model configuration, in the order of their declarations."""
    file = FileDescriptorProto()
    model_config_pb2.DESCRIPTOR.CopyToProto(file)
    if file.package != PACKAGE or file.syntax != "proto3":
        raise SystemExit(
            f"{file.name}: package {file.package!r}, syntax {file.syntax!r}; expected {PACKAGE!r}, 'proto3'"
        )
    nested: Json = {e.name: enum_json(e) for e in file.enum_type}
    nested |= {m.name: message_json(m, f".{PACKAGE}.{m.name}") for m in file.message_type}
    return {
        "source": {"package": "tritonclient", "version": version("tritonclient")},
        "nested": {PACKAGE: {"nested": nested}},
    }


def protocol_text() -> str:
    return json.dumps(protocol(), indent=1) + "\n"


if __name__ == "__main__":
    OUTPUT.write_text(protocol_text(), encoding="utf-8")
    print(f"wrote {OUTPUT}")
