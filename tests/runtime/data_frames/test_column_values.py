"""What Arrow takes for the fields of values."""

from dataclasses import dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, NotRequired, TypedDict
from uuid import UUID

import msgspec
import pyarrow as pa
import pytest

from fluvial.runtime.data_frames.column_values import column_values


class Color(Enum):
    RED = "red"


class Level(Enum):
    LOW = 1


@dataclass
class Inner:
    x: float


class Named(msgspec.Struct):
    named: str = msgspec.field(name="from")


def made(value: Any, type_: Any) -> dict[str, Any]:
    return {name: convert(value) for name, convert in column_values(type_).items()}


class Left(TypedDict):
    there: int
    missing: NotRequired[int]


@dataclass
class Odd:
    pair: tuple[UUID, UUID]
    by_color: dict[Color, set[int] | None]
    maybe: list[Inner | None] | None
    waits: timedelta
    at: time
    view: bytearray
    levels: list[Level]


def test_fields_become_what_arrow_takes() -> None:
    id = UUID(int=5)
    odd = Odd(
        (id, id),
        {Color.RED: {1}},
        [Inner(1.5), None],
        timedelta(minutes=1),
        time(12, 30),
        bytearray(b"x"),
        [Level.LOW],
    )
    assert made(odd, Odd) == {
        "pair": [str(id), str(id)],
        "by_color": [("red", [1])],
        "maybe": [{"x": 1.5}, None],
        "waits": "PT60S",
        "at": "12:30:00",
        "view": b"x",
        "levels": [1],
    }


def test_fields_have_the_names_that_they_are_written_with() -> None:
    assert made(Named("here"), Named) == {"from": "here"}


def test_what_is_not_there_is_none() -> None:
    assert made(Left(there=1), Left) == {"there": 1, "missing": None}


@pytest.mark.parametrize(
    ("value", "type_", "arrow"),
    [
        (Decimal("1.5"), Decimal, pa.decimal128(38, 18)),
        (date(2026, 3, 1), date, pa.date32()),
        ({"a": [1]}, dict[str, list[int]], pa.map_(pa.string(), pa.list_(pa.int64()))),
        (frozenset({1}), frozenset[int], pa.list_(pa.int64())),
        (None, int | None, pa.int64()),
    ],
)
def test_what_is_no_record_is_one_value(value: Any, type_: Any, arrow: pa.DataType) -> None:
    (name,) = column_values(type_)
    assert name == "value"
    assert len(pa.array([None if value is None else made(value, type_)[name]], arrow)) == 1


def test_a_struct_that_omits_defaults_has_all_of_its_fields() -> None:
    class Small(msgspec.Struct, omit_defaults=True):
        stock: int = 7

    class Around(msgspec.Struct, omit_defaults=True):
        small: Small = msgspec.field(default_factory=Small)

    assert made(Around(), Around) == {"small": {"stock": 7}}
