"""The layout of a Protobuf message: the facts that decide how bytes are decoded, by name."""

from collections.abc import Iterator

from google.protobuf.descriptor import Descriptor, EnumDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto


def message_layout(message: Descriptor) -> dict[str, str]:
    """The facts of a message, and of those that it holds.

    Each fact maps the number of a field to its type, or the name of a field to its number. So fields may be added,
    removed and renamed; but a number must keep its type, and a name must keep its number.

    >>> from google.protobuf.timestamp_pb2 import Timestamp
    >>> message_layout(Timestamp.DESCRIPTOR)["field 1 of google.protobuf.Timestamp"]
    'int64'
    """
    layout = {"message": message.full_name}
    for held in _held(message, set()):
        layout |= _enum(held) if isinstance(held, EnumDescriptor) else _message(held)
    return layout


def _held(message: Descriptor, met: set[str]) -> Iterator[Descriptor | EnumDescriptor]:
    """A message, and the messages and enums of its fields, each once."""
    met.add(message.full_name)
    yield message
    for field in message.fields:
        if field.enum_type is not None and field.enum_type.full_name not in met:
            met.add(field.enum_type.full_name)
            yield field.enum_type
        if field.message_type is not None and field.message_type.full_name not in met:
            yield from _held(field.message_type, met)


def _message(message: Descriptor) -> dict[str, str]:
    described = DescriptorProto()
    message.CopyToProto(described)
    layout = {}
    for field in described.field:
        layout[f"field {field.number} of {message.full_name}"] = _type(field)
        layout[f"number of {field.name} of {message.full_name}"] = str(field.number)
    return layout


def _type(field: FieldDescriptorProto) -> str:
    name = field.type_name.removeprefix(".") or FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()
    repeated = "repeated " if field.label == FieldDescriptorProto.LABEL_REPEATED else ""
    return f"{repeated}{name}" + (f" = {field.default_value}" if field.default_value else "")


def _enum(enum: EnumDescriptor) -> dict[str, str]:
    return {f"number of {value.name} of {enum.full_name}": str(value.number) for value in enum.values}
