"""The columns of types of values."""

from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any, Literal, TypedDict
from uuid import UUID

import msgspec
import pytest

from explained import assert_explains, error_of
from fluvial.dsl import Pane, UnsupportedError
from fluvial.runtime.data_frames.columns import Column, NoColumn, checked_columns, columns_of, ddl, is_record


class Color(Enum):
    RED = "red"


class Level(Enum):
    LOW = 1


@dataclass
class Inner:
    x: float


class Everything(msgspec.Struct):
    flag: bool
    number: int
    price: Decimal
    text: str
    data: bytes
    at: datetime
    day: date
    id: UUID
    color: Color
    level: Level
    side: Literal["left", "right"]
    inner: Inner
    many: list[Inner]
    pair: tuple[int, int]
    by_name: dict[str, set[int]]
    maybe: int | None
    named: str = msgspec.field(name="from")
    usual: datetime = datetime(2026, 1, 1, tzinfo=UTC)


def test_each_field_is_a_column_of_its_type() -> None:
    assert ddl(columns_of(Everything)).split(", `") == [
        "`flag` boolean",
        "number` bigint",
        "price` decimal(38,18)",
        "text` string",
        "data` binary",
        "at` timestamp",
        "day` date",
        "id` string",
        "color` string",
        "level` bigint",
        "side` string",
        "inner` struct<`x`: double>",
        "many` array<struct<`x`: double>>",
        "pair` array<bigint>",
        "by_name` map<string, array<bigint>>",
        "maybe` bigint",
        "from` string",
        "usual` timestamp",
    ]


def test_a_field_that_may_be_none_or_has_a_default_may_be_left_out() -> None:
    assert [column.name for column in columns_of(Everything) if not column.required] == ["maybe", "usual"]


def test_a_pane_has_the_columns_of_its_key_and_value() -> None:
    assert [column.type for column in columns_of(Pane[str, int])][:3] == [
        "string",
        "struct<`start`: bigint, `end`: bigint>",
        "bigint",
    ]


def test_what_is_no_record_is_one_column() -> None:
    assert columns_of(list[str]) == (Column("value", "array<string>"),)
    assert columns_of(int | None) == (Column("value", "bigint", False),)
    assert not is_record(int)


class Tree(msgspec.Struct):
    children: "list[Tree]"


class Row(msgspec.Struct, array_like=True):
    x: int


class Loose(TypedDict):
    anything: Any


Mixed = Literal[1, "two"]


class Nothing(msgspec.Struct):
    pass


@pytest.mark.parametrize(
    ("type_", "why"),
    [
        (Tree, "children[]: Tree has a field of itself"),
        (Row, "Row is written as an array"),
        (list[Row], "value[]: Row is written as an array"),
        (Loose, "anything: Any"),
        (int | str, "value: a union of several types"),
        (dict[int, str], "value: a dict with other keys than text"),
        (tuple[int, str], "value: a tuple of several types"),
        (Mixed, "value: values that are neither all text nor all whole numbers"),
        (Nothing, "Nothing has no fields"),
        (
            Literal[1.5],
            "Literal may only contain None/booleans/integers/strings - typing.Literal[1.5] is not supported",
        ),
    ],
)
def test_a_type_without_columns_is_refused_with_the_field(type_: Any, why: str) -> None:
    with pytest.raises(NoColumn) as raised:
        columns_of(type_)
    assert str(raised.value) == why


def test_the_error_of_a_run_names_the_stream_and_the_type() -> None:
    raised = error_of(lambda: checked_columns("the output 'out'", Loose, "map to it"), UnsupportedError)
    assert_explains(raised, "the output 'out': values of Loose have no columns: anything: Any", None, "column", "map")
