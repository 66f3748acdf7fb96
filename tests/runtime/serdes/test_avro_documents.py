"""Documents of JSON become the values of a schema that were shown so."""

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluvial.runtime.serdes import Registry, avro
from generators.shop import CLICK, Click, record
from kafka.schema_registry import schema_registry

SCHEMA = record(
    "Payment",
    id={"type": "string", "logicalType": "uuid"},
    amount={"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
    at={"type": "long", "logicalType": "timestamp-micros"},
    day={"type": "int", "logicalType": "date"},
    clock={"type": "int", "logicalType": "time-millis"},
    seal="bytes",
    mark={"type": "fixed", "name": "Mark", "size": 3},
    again="Mark",
    size={"type": "enum", "name": "Size", "symbols": ["small", "large"]},
    note=["null", "long", "string", "Mark"],
    clicks={"type": "array", "items": CLICK},
    counts={"type": "map", "values": ["null", "double"]},
    good="boolean",
)
LONGS = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.fixed_dictionaries(
    {
        "id": st.uuids(),
        "amount": st.integers(-(10**9) + 1, 10**9 - 1).map(lambda cents: Decimal(cents).scaleb(-2)),
        "at": st.datetimes(datetime(1970, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC)),
        "day": st.dates(date(1970, 1, 1)),
        "clock": st.integers(0, 86_399_999).map(
            lambda ms: time(ms // 3_600_000, ms // 60_000 % 60, ms // 1000 % 60, ms % 1000 * 1000)
        ),
        "seal": st.binary(),
        "mark": st.binary(min_size=3, max_size=3),
        "again": st.binary(min_size=3, max_size=3),
        "size": st.sampled_from(["small", "large"]),
        "note": st.none() | LONGS | TEXT,
        "clicks": st.lists(st.fixed_dictionaries({"user": TEXT, "url": TEXT, "at": LONGS}), max_size=3),
        "counts": st.dictionaries(TEXT, st.none() | st.floats(allow_nan=False, allow_infinity=False), max_size=3),
        "good": st.booleans(),
    }
)


@given(VALUES)
def test_what_is_shown_is_read_back(value: dict[str, Any]) -> None:
    payments = avro(SCHEMA)
    assert payments.from_json is not None
    document = msgspec.json.decode(msgspec.json.encode(value))
    data = payments.encode(payments.from_json(document))
    assert payments.decode(data) == payments.decode(payments.encode(value)) == value


@pytest.mark.parametrize(
    ("schema", "document", "wrong"),
    [
        ({"type": "int"}, "many", "Expected `int`, got `str`"),
        ({"type": "null"}, 1, "Expected `null`, got `int`"),
        (["null", "int"], "many", "'many' is none of the union's types"),
        ({"type": "array", "items": "int"}, {}, "expected an array, got {}"),
        ({"type": "map", "values": "int"}, [], r"expected an object, got \[\]"),
        (CLICK, 7, "expected an object, got 7"),
        ({"type": "long", "logicalType": "timestamp-millis"}, "soon", "Invalid RFC3339"),
        ({"type": "bytes"}, "?", "Invalid base64"),
    ],
)
def test_a_document_that_tells_no_value(schema: Any, document: Any, wrong: str) -> None:
    from_json = avro(schema).from_json
    assert from_json is not None
    with pytest.raises(ValueError, match=wrong):
        from_json(document)


def test_texts_stand_for_numbers_and_numbers_for_times() -> None:
    numbers = record("Numbers", n="long", x=["null", "double"], at={"type": "long", "logicalType": "timestamp-millis"})
    from_json = avro(numbers).from_json
    assert from_json is not None
    assert from_json({"n": "7", "x": "1.5", "at": 5}) == {"n": 7, "x": 1.5, "at": 5}


def test_a_registry_names_what_is_fed() -> None:
    with schema_registry() as server:
        clicks = avro(CLICK, type=Click, registry=Registry(server.url), subject="clicks-value")
        assert clicks.from_json is not None
        data = clicks.encode(clicks.from_json({"user": "ada", "url": "/", "at": "5"}))
        assert clicks.decode(data) == Click("ada", "/", 5)
    assert data[:5] == b"\0\0\0\0\1"
