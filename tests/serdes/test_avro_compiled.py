"""What is made for one schema writes and reads what the library does, and leaves to it what it does not know."""

import pickle
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, TypedDict
from uuid import UUID

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fluvial.runtime.serdes.avro_numbers import varint
from fluvial.runtime.serdes.avro_reader import compiled_reader
from fluvial.runtime.serdes.avro_values import AvroFormat
from fluvial.runtime.serdes.avro_writer import compiled_writer
from generators.how_many import examples

LONGS = st.integers(-(2**63), 2**63 - 1) | st.integers(-70, 70) | st.integers(0, 2**45)
LEAVES: dict[str, st.SearchStrategy[Any]] = {
    "string": st.text(max_size=5) | st.text(min_size=60, max_size=70),
    "bytes": st.binary(max_size=5) | st.binary(min_size=8190, max_size=8195),
    "int": st.integers(-(2**31), 2**31 - 1) | st.integers(-70, 70),
    "long": LONGS,
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "boolean": st.booleans(),
}


@st.composite
def schemas(draw: st.DrawFn, depth: int = 0) -> tuple[Any, st.SearchStrategy[Any]]:
    """A schema, and values of it."""
    kinds = [*LEAVES, "fixed", "enum", *(["array", "map", "optional", "record"] if depth < 3 else [])]
    match kind := draw(st.sampled_from(kinds)):
        case "fixed":
            return {"type": "fixed", "name": f"F{draw(st.uuids()).hex}", "size": 3}, st.binary(min_size=3, max_size=3)
        case "enum":
            symbols = ["A", "B", "C"]
            return {"type": "enum", "name": f"E{draw(st.uuids()).hex}", "symbols": symbols}, st.sampled_from(symbols)
        case "array":
            inner, values = draw(schemas(depth=depth + 1))
            return {"type": "array", "items": inner}, st.lists(values, max_size=3)
        case "map":
            inner, values = draw(schemas(depth=depth + 1))
            return {"type": "map", "values": inner}, st.dictionaries(st.text(max_size=3), values, max_size=3)
        case "optional":
            inner, values = draw(schemas(depth=depth + 1).filter(lambda pair: not isinstance(pair[0], list)))
            return draw(st.permutations(["null", inner])), st.none() | values
        case "record":
            parts = {name: draw(schemas(depth=depth + 1)) for name in "abc"[: draw(st.integers(1, 3))]}
            fields = [{"name": name, "type": inner} for name, (inner, _) in parts.items()]
            record = {"type": "record", "name": f"R{draw(st.uuids()).hex}", "fields": fields}
            return record, st.fixed_dictionaries({name: values for name, (_, values) in parts.items()})
        case _:
            return kind, LEAVES[kind]


def outcome(call: Any, *given: Any) -> Any:
    """What a call returns, or that it raises ValueError."""
    try:
        return call(*given)
    except ValueError:
        return ValueError


@settings(max_examples=examples(200), deadline=None)
@given(st.data())
def test_any_value_of_any_schema_is_written_and_read_as_by_the_library(data: st.DataObject) -> None:
    schema, values = data.draw(schemas())
    form = AvroFormat(msgspec.json.encode(schema).decode(), None)
    value = data.draw(values)
    written = form.write(value)
    assert written == form.write_by_library(value)
    assert form.decode(written) == form.read_by_library(written) == form.read_by_library(form.write(value))
    # Bytes that are cut off, changed or go on are refused or read alike.
    place = data.draw(st.integers(0, len(written)))
    changed = written[:place] + data.draw(st.binary(max_size=2)) + written[place + data.draw(st.integers(0, 2)) :]
    assert repr(outcome(form.decode, changed)) == repr(outcome(form.read_by_library, changed))


def fails(_: Any) -> Any:
    raise AssertionError("left to the library")


def schema_of(**fields: Any) -> Any:
    described = [{"name": name, "type": kind} for name, kind in fields.items()]
    return {"type": "record", "name": "R", "fields": described}


INNER = {"type": "record", "name": "Inner", "fields": [{"name": "n", "type": "long"}]}
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
SCHEMA = schema_of(name="string", at="long", inner={"type": "array", "items": INNER}, note=["null", "string"])


@dataclass(frozen=True, slots=True)
class Inner:
    n: int


@dataclass(frozen=True, slots=True)
class Frozen:
    name: str
    at: int
    inner: list[Inner]
    note: str | None


@dataclass
class Plain:
    name: str
    at: int
    inner: list[Inner]
    note: str | None = None
    tags: list[str] = field(default_factory=list)


class Record(msgspec.Struct):
    name: str
    at: int
    inner: list[Inner]
    note: str | None = None


class Typed(TypedDict):
    name: str
    at: int
    inner: list[Inner]
    note: str | None


ARGUMENTS: dict[str, Any] = {"name": "é", "at": 1_700_000_000_000, "inner": [Inner(1), Inner(-(2**40))], "note": None}
TYPED: Typed = {"name": "é", "at": 1, "inner": [Inner(1)], "note": "x"}
RECORDS = [Frozen(**ARGUMENTS), Record(**ARGUMENTS), TYPED]


@pytest.mark.parametrize("value", RECORDS, ids=lambda value: type(value).__name__)
def test_records_of_a_type_are_not_left_to_the_library(value: Any) -> None:
    kind = Typed if isinstance(value, dict) else type(value)
    form = AvroFormat(msgspec.json.encode(SCHEMA).decode(), kind)
    data = form.write_by_library(value)
    assert compiled_writer(form._schema, kind, fails)(value) == data
    found = compiled_reader(form._schema, kind, fails)(data)
    assert found == value
    assert type(found) is type(value)
    assert type(found["inner"][0] if isinstance(found, dict) else found.inner[0]) is Inner


def test_fields_that_the_schema_lacks_have_their_defaults_each_its_own() -> None:
    form = AvroFormat(msgspec.json.encode(SCHEMA).decode(), Plain)
    data = AvroFormat(msgspec.json.encode(SCHEMA).decode(), Frozen).write(Frozen(**ARGUMENTS))
    one, other = form.decode(data), form.decode(data)
    assert one == other == form.read_by_library(data) == Plain(**ARGUMENTS)
    assert one.tags is not other.tags
    with pytest.raises(ValueError, match="tags"):
        form.write(one)


def test_fields_that_the_type_lacks_are_left_out() -> None:
    data = AvroFormat(msgspec.json.encode(SCHEMA).decode(), Frozen).write(Frozen(**ARGUMENTS))

    @dataclass
    class Short:
        at: int

    assert AvroFormat(msgspec.json.encode(SCHEMA).decode(), Short).decode(data) == Short(1_700_000_000_000)


class Logical(msgspec.Struct, frozen=True):
    at: datetime
    day: date
    price: Decimal
    id: UUID


def test_logical_types_are_those_of_the_library() -> None:
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
    schema = schema_of(
        at=MILLIS,
        day={"type": "int", "logicalType": "date"},
        price=decimal,
        id={"type": "string", "logicalType": "uuid"},
    )
    form = AvroFormat(msgspec.json.encode(schema).decode(), Logical)
    value = Logical(
        datetime(2024, 1, 2, tzinfo=UTC) + timedelta(milliseconds=7), date(2024, 1, 2), Decimal("1.25"), UUID(int=7)
    )
    data = compiled_writer(form._schema, Logical, fails)(value)
    assert data == form.write_by_library(value)
    assert compiled_reader(form._schema, Logical, fails)(data) == form.read_by_library(data) == value


@dataclass
class Checked:
    n: int

    def __post_init__(self) -> None:
        if self.n < 0:
            raise ValueError("negative")


MISUSED: list[Any] = [True, 2**63, "1", 1.0, None]


@pytest.mark.parametrize("value", [Checked(1), *map(Inner, MISUSED), Frozen("", 1, [], None), None])
def test_what_is_not_as_declared_is_for_the_library_to_judge(value: Any) -> None:
    for kind in (Checked, Inner):
        form = AvroFormat(msgspec.json.encode(INNER).decode(), kind)
        assert outcome(form.write, value) == outcome(form.write_by_library, value)


def test_a_record_is_checked_by_its_own_code() -> None:
    data = AvroFormat(msgspec.json.encode(INNER).decode(), Inner).write(Inner(-1))
    with pytest.raises(ValueError, match="negative"):
        AvroFormat(msgspec.json.encode(INNER).decode(), Checked).decode(data)


def test_records_in_themselves_are_left_to_the_library() -> None:
    schema = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
    form = AvroFormat(msgspec.json.encode(schema).decode(), None)
    value = {"next": {"next": None}}
    assert form.decode(form.write(value)) == value


def test_items_of_no_bytes_do_not_fill_memory() -> None:
    form = AvroFormat('{"type": "array", "items": "null"}', None)
    assert form.decode(form.write([None, None])) == [None, None]
    reader = compiled_reader(form._schema, None, lambda _: "library")
    assert reader(b"\xfe\xff\xff\xff\xff\x01") == "library"


def test_items_are_no_more_than_the_bytes_that_are_left() -> None:
    """A message of ten bytes that claims a million million items costs no more than its bytes."""
    form = AvroFormat('{"type": "array", "items": {"type": "fixed", "name": "F", "size": 4}}', None)
    reader = compiled_reader(form._schema, None, lambda _: "library")
    assert reader(varint(2**40) + b"\0" * 4) == "library"
    assert reader(form.write([b"abcd", b"efgh"])) == [b"abcd", b"efgh"]


@dataclass
class Whole:
    n: int
    more: int


class Open(TypedDict):
    n: int
    more: int


@dataclass
class Around:
    inner: Whole | None


@dataclass
class AroundDict:
    inner: Open | None


@pytest.mark.parametrize("kind", [Around, AroundDict])
def test_a_record_that_lacks_a_field_is_no_value(kind: Any) -> None:
    inner = {"type": "record", "name": "Inner", "fields": [{"name": "n", "type": "long"}]}
    schema = {"type": "record", "name": "Around", "fields": [{"name": "inner", "type": ["null", inner]}]}
    form = AvroFormat(msgspec.json.encode(schema).decode(), kind)
    with pytest.raises(ValueError, match="missing required field `more`"):
        form.decode(b"\2\2")


ANYTHING = st.one_of(st.none(), st.binary(max_size=3), st.integers(-(2**70), 2**70), *LEAVES.values())


@pytest.mark.parametrize("kind", sorted(LEAVES))
@pytest.mark.parametrize("optional", [False, True])
@given(value=ANYTHING)
@example(value=2**31)
@example(value=True)
def test_values_of_other_types_are_for_the_library_to_judge(kind: str, optional: bool, value: Any) -> None:
    form = AvroFormat(msgspec.json.encode(["null", kind] if optional else kind).decode(), None)
    assert outcome(form.write, value) == outcome(form.write_by_library, value)


def test_it_goes_to_other_processes() -> None:
    form = pickle.loads(pickle.dumps(AvroFormat(msgspec.json.encode(SCHEMA).decode(), Frozen)))
    assert form.decode(form.encode(Frozen(**ARGUMENTS))) == Frozen(**ARGUMENTS)
