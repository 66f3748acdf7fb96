"""Values in Avro, without a registry."""

import json
import pickle
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from enum import Enum
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any, TypedDict
from uuid import UUID

import fastavro
import msgspec
import pytest

from explained import assert_explains, error_of
from fluvial.dsl import MessageError, Pipeline, PipelineError, dead_letter
from fluvial.runtime.serdes import avro
from fluvial.runtime.testing import PipelineDriver
from generators.shop import CLICK, Click, record

CLICKED = Click("ada", "/", 5)


class Size(Enum):
    SMALL = "small"
    LARGE = "large"


@dataclass(frozen=True)
class Payment:
    id: UUID
    amount: Decimal
    at: datetime
    day: date
    clock: time
    seal: bytes
    size: Size
    note: str | None
    clicks: list[Click]
    counts: dict[str, int]


PAYMENT = record(
    "Payment",
    id={"type": "string", "logicalType": "uuid"},
    amount={"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
    at={"type": "long", "logicalType": "timestamp-millis"},
    day={"type": "int", "logicalType": "date"},
    clock={"type": "int", "logicalType": "time-millis"},
    seal="bytes",
    size={"type": "enum", "name": "Size", "symbols": ["small", "large"]},
    note=["null", "string"],
    clicks={"type": "array", "items": CLICK},
    counts={"type": "map", "values": "long"},
)


def test_a_message_is_the_bare_record() -> None:
    expected = BytesIO()
    fastavro.schemaless_writer(expected, CLICK, {"user": "ada", "url": "/", "at": 5})
    serde = avro(CLICK, type=Click)
    assert serde.encode(CLICKED) == expected.getvalue()
    assert (serde.name, serde.type) == ("avro:shop.Click", Click)


def test_logical_types_are_those_of_python() -> None:
    paid = Payment(
        UUID(int=7),
        Decimal("12.34"),
        datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC),
        date(2026, 1, 2),
        time(3, 4, 5, 678000),
        b"\x00\xff",
        Size.LARGE,
        None,
        [CLICKED],
        {"a": 1},
    )
    serde = avro(PAYMENT, type=Payment)
    assert serde.decode(serde.encode(paid)) == paid


def test_without_a_type_records_are_dicts() -> None:
    serde = avro(CLICK)
    value = {"user": "ada", "url": "/", "at": 5}
    assert serde.decode(serde.encode(value)) == value


def test_records_may_be_structs_and_typed_dicts() -> None:
    class Struct(msgspec.Struct):
        user: str
        url: str
        at: int

    class Typed(TypedDict):
        user: str
        url: str
        at: int

    data = avro(CLICK, type=Click).encode(CLICKED)
    assert avro(CLICK, type=Struct).decode(data) == Struct("ada", "/", 5)
    assert avro(CLICK, type=Typed).decode(data) == {"user": "ada", "url": "/", "at": 5}


def test_what_is_no_record_has_a_serde_too() -> None:
    serde = avro('"long"', type=int)
    assert (serde.name, serde.encode(1), serde.decode(b"\x02")) == ("avro:value", b"\x02", 1)


def test_defaults_are_what_is_read_elsewhere() -> None:
    fields: list[dict[str, Any]] = [
        {"name": "seal", "type": "bytes", "default": "\u00ff"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}, "default": 0},
        {"name": "inner", "type": {"type": "array", "items": record("Inner", seal="bytes")}, "default": []},
        {"name": "note", "type": ["null", "bytes"], "default": None},
    ]
    serde = avro({"type": "record", "name": "Sealed", "fields": fields})
    found = serde.decode(serde.encode({}))
    assert found == {"seal": b"\xff", "at": datetime(1970, 1, 1, tzinfo=UTC), "inner": [], "note": None}


def test_a_type_may_leave_out_fields_and_have_more_that_have_defaults(tmp_path: Path) -> None:
    @dataclass
    class Seen:
        url: str
        seen: bool = False

    (tmp_path / "click.avsc").write_text(json.dumps(CLICK))
    data = avro(CLICK, type=Click).encode(CLICKED)
    assert avro(tmp_path / "click.avsc", type=Seen).decode(data) == Seen("/")


def test_a_record_of_very_many_fields_comes_back() -> None:
    names = [f"field_{number}" for number in range(600)]
    serde = avro(record("Wide", **dict.fromkeys(names, "long")))
    value = dict.fromkeys(names, 7)
    assert serde.decode(serde.encode(value)) == value


class Narrow(msgspec.Struct):
    size: Annotated[int, msgspec.Meta(gt=0)]
    note: str | int | None = None


NARROW = record("Narrow", size="long", note=["null", "string"])


def test_a_type_may_take_more_than_the_schema_has() -> None:
    serde = avro(NARROW, type=Narrow)
    assert serde.decode(serde.encode(Narrow(1, "small"))) == Narrow(1, "small")


def test_what_a_type_does_not_take_is_refused_on_reading() -> None:
    data = avro(NARROW).encode({"size": 0, "note": None})
    with pytest.raises(ValueError, match="Expected `int` >= 1"):
        avro(NARROW, type=Narrow).decode(data)


SCHEMAS: list[tuple[Any, str]] = [
    ({"type": {"type": "long"}}, "the schema is none"),
    (record("Nested", at={"type": ["null", "long"]}), "the schema is none"),
    ("record", "the schema is none"),
    ('{"type": "record", "fields": []}', "the schema is none"),
    ("{", "the schema is none"),
    ({"type": "record", "name": "Click", "fields": [{"name": "url", "type": "Url"}]}, "the schema is none"),
    (3, "the schema is none"),
    (Path("nowhere.avsc"), "the schema cannot be read"),
    (object(), "the schema cannot be read"),
]


@pytest.mark.parametrize(("schema", "wrong"), SCHEMAS, ids=[str(case[0])[:40].split(" at ")[0] for case in SCHEMAS])
def test_a_schema_that_is_none_is_refused_where_it_is_written(schema: Any, wrong: str) -> None:
    place: Any = lambda: avro(schema)  # noqa: E731
    assert_explains(error_of(place, PipelineError), wrong, place, "a schema of Avro")


def test_a_type_with_fields_that_the_schema_lacks_is_refused() -> None:
    place: Any = lambda: avro(record("Click", url="string"), type=Click)  # noqa: E731
    raised = error_of(place, PipelineError)
    assert_explains(raised, "type=Click needs user, at", place, "fields among url", "defaults")


def test_a_type_that_no_record_becomes_is_refused() -> None:
    kind: Any = int | list[int] | tuple[int]
    raised = error_of(lambda: avro(CLICK, type=kind), PipelineError)
    assert_explains(raised, "cannot be made of records", None, "a dataclass, Struct or TypedDict")


CLICKS = avro(CLICK, type=Click)
NOT_DECODED: list[tuple[bytes, str]] = [
    (b"", "EOFError"),
    (b"\x06ad", "the message is none of Avro's shop.Click"),
    (CLICKS.encode(CLICKED) + b"!", "goes on for 1 bytes behind it"),
    (b"\x02\xff\x02/\x0a", "UnicodeDecodeError"),
]


@pytest.mark.parametrize(("data", "wrong"), NOT_DECODED)
def test_bytes_that_are_no_record(data: bytes, wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        CLICKS.decode(data)


@pytest.mark.parametrize(
    "value", [{"user": "ada", "url": "/"}, {"user": "ada", "url": "/", "at": "5"}, {**CLICK, "at": 5}, 3, object()]
)
def test_values_that_the_schema_does_not_describe(value: Any) -> None:
    with pytest.raises(ValueError, match=r"the value is none of Avro's shop.Click"):
        avro(CLICK).encode(value)


def test_a_field_that_the_schema_does_not_know_is_not_lost_in_silence() -> None:
    with pytest.raises(ValueError, match="record contains more fields than the schema specifies"):
        avro(CLICK).encode({"user": "ada", "url": "/", "at": 5, "agent": "curl"})


def test_it_travels_to_other_processes() -> None:
    sent = pickle.loads(pickle.dumps(CLICKS))
    assert sent.decode(sent.encode(CLICKED)) == CLICKED


def test_a_message_that_is_no_record_names_its_place() -> None:
    pipeline = Pipeline("p")
    pipeline.stream("clicks", value=CLICKS).send_to("out")
    with PipelineDriver(pipeline) as driver, pytest.raises(MessageError, match=r"offset 0.*none of Avro's shop.Click"):
        driver.records.send("clicks", [(None, b"\x06ad", 0, ())])


def test_a_message_that_is_no_record_can_be_set_aside() -> None:
    pipeline = Pipeline("p", on_error=dead_letter())
    pipeline.stream("clicks", value=CLICKS).map(lambda click: click.user).send_to("out")
    with PipelineDriver(pipeline) as driver:
        driver.records.send("clicks", [(None, b"\x06ad", 0, ())])
        driver.send("clicks", CLICKED)
        assert [message.value for message in driver.read("out")] == ["ada"]
        assert [message.value for message in driver.read("p-dead-letters")] == [b"\x06ad"]
