"""What a shop tells: clicks and orders, as classes of Python, schemas of Avro and messages of Protobuf."""

from dataclasses import dataclass
from typing import Any

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto


@dataclass(frozen=True, slots=True)
class Click:
    user: str
    url: str
    at: int


@dataclass(frozen=True, slots=True)
class ReferredClick:
    """A click as a newer program knows it."""

    user: str
    url: str
    at: int
    referrer: str = ""


def record(name: str, **fields: Any) -> dict[str, Any]:
    """A schema of Avro."""
    return {
        "type": "record",
        "name": name,
        "namespace": "shop",
        "fields": [{"name": field, "type": kind} for field, kind in fields.items()],
    }


CLICK = record("Click", user="string", url="string", at="long")
REFERRED_CLICK = record("Click", user="string", url="string", at="long")
REFERRED_CLICK["fields"].append({"name": "referrer", "type": "string", "default": ""})

_TYPES = {
    "string": FieldDescriptorProto.TYPE_STRING,
    "int64": FieldDescriptorProto.TYPE_INT64,
    "double": FieldDescriptorProto.TYPE_DOUBLE,
}


def message(name: str, *nested: DescriptorProto, **fields: str) -> DescriptorProto:
    """A message of Protobuf whose fields are numbered from 1 on; a type with a dot is that of another message."""
    made = DescriptorProto(name=name, nested_type=nested)
    for number, (field, kind) in enumerate(fields.items(), 1):
        told = made.field.add(name=field, number=number, label=FieldDescriptorProto.LABEL_OPTIONAL)
        told.type = _TYPES.get(kind, FieldDescriptorProto.TYPE_MESSAGE)
        if "." in kind:
            told.type_name = kind
    return made


def proto(name: str, *messages: DescriptorProto, imports: tuple[str, ...] = ()) -> FileDescriptorProto:
    """A file of Protobuf, of the package `shop`."""
    return FileDescriptorProto(name=name, package="shop", syntax="proto3", message_type=messages, dependency=imports)


def classes(file: FileDescriptorProto, *imported: FileDescriptorProto, apart: bool = False) -> dict[str, Any]:
    """The classes of a file's messages, by their full names; `apart` from those that have the same names elsewhere."""
    pool = descriptor_pool.DescriptorPool() if apart else descriptor_pool.Default()
    for one in (*imported, file):
        pool.AddSerializedFile(one.SerializeToString())
    found = [f"{file.package}.{one.name}" for one in file.message_type]
    found += [f"{file.package}.{one.name}.{inner.name}" for one in file.message_type for inner in one.nested_type]
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(name)) for name in found}


MONEY = proto("shop/money.proto", message("Money", cents="int64"))
SHOP = proto(
    "shop/shop.proto",
    message("Click", user="string", url="string", at="int64"),
    message("Order", message("Line", item="string"), id="string", price=".shop.Money", line=".shop.Order.Line"),
    imports=("shop/money.proto",),
)
MESSAGES = {**classes(MONEY), **classes(SHOP, MONEY)}
"""By full name; `shop.Order.Line` is nested in `shop.Order`."""

GENERATED = """
from google.protobuf import descriptor_pool
from google.protobuf.internal import builder

DESCRIPTOR = descriptor_pool.Default().AddSerializedFile({data!r})
builder.BuildMessageAndEnumDescriptors(DESCRIPTOR, globals())
builder.BuildTopDescriptorsAndMessages(DESCRIPTOR, {module!r}, globals())
"""


def generated(file: FileDescriptorProto, module: str) -> str:
    """The text of the module that protoc makes of a file."""
    return GENERATED.format(data=file.SerializeToString(), module=module)
