"""Rows that are kept as messages of Protobuf: numbers keep their types, and names their numbers."""

from typing import Any

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from fluvial.dsl import Pipeline
from fluvial.planner import plan
from fluvial.planner.state_schema import StateSchema, carried, differences
from fluvial.runtime.serdes import protobuf

TEXT, NUMBER = FieldDescriptorProto.TYPE_STRING, FieldDescriptorProto.TYPE_INT64
COLOUR = FieldDescriptorProto.TYPE_ENUM


def rows(fields: dict[str, tuple[int, Any]], colours: dict[str, int] | None = None) -> StateSchema:
    """What gives a table of messages `shop.Row` its meaning, with fields as (number, type) by name."""
    file = FileDescriptorProto(name="row.proto", package="shop", syntax="proto3")
    message = file.message_type.add(name="Row")
    for name, (number, kind) in fields.items():
        field = message.field.add(name=name, number=number, type=kind, label=FieldDescriptorProto.LABEL_OPTIONAL)
        if kind == COLOUR:
            field.type_name = ".shop.Colour"
    if colours:
        enum = file.enum_type.add(name="Colour")
        for name, number in colours.items():
            enum.value.add(name=name, number=number)
    pool = DescriptorPool()
    pool.Add(file)
    made = GetMessageClass(pool.FindMessageTypeByName("shop.Row"))
    pipeline = Pipeline("p")
    pipeline.table("rows", key=str, value=protobuf(made)).changes().send_to("out")
    return plan(pipeline).stores[-1].schema


def test_fields_come_and_go_and_may_be_renamed() -> None:
    before = rows({"user": (1, TEXT), "at": (2, NUMBER)})
    assert differences(before, rows({"user": (1, TEXT)})) == []
    assert differences(before, rows({"user": (1, TEXT), "at": (2, NUMBER), "url": (3, TEXT)})) == []
    assert differences(before, rows({"who": (1, TEXT), "at": (2, NUMBER)})) == []


def test_a_number_keeps_its_type() -> None:
    before = rows({"user": (1, TEXT)})
    assert differences(before, rows({"user": (1, NUMBER)})) == ["rows, field 1 of shop.Row: was string, is int64"]
    between = carried({"rows": before}, {"rows": rows({"at": (2, NUMBER)})})
    assert differences(between["rows"], rows({"age": (1, NUMBER)})) != []


def test_a_name_keeps_its_number() -> None:
    before = rows({"x": (1, NUMBER), "y": (2, NUMBER)})
    assert differences(before, rows({"x": (2, NUMBER), "y": (1, NUMBER)})) == [
        "rows, number of x of shop.Row: was 1, is 2",
        "rows, number of y of shop.Row: was 2, is 1",
    ]


def test_members_of_enums_keep_their_numbers() -> None:
    fields = {"colour": (1, COLOUR)}
    before = rows(fields, {"NONE": 0, "RED": 1})
    assert differences(before, rows(fields, {"NONE": 0, "RED": 1, "BLUE": 2})) == []
    assert differences(before, rows(fields, {"NONE": 0, "BLUE": 1, "RED": 2})) == [
        "rows, number of RED of shop.Colour: was 1, is 2"
    ]
