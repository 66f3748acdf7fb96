"""Whether kept values can be read as another type with the same meaning, tried on values."""

from dataclasses import dataclass, make_dataclass
from datetime import datetime
from enum import Enum, Flag, IntEnum, IntFlag
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict

import msgspec
import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st
from msgspec import Meta

from fluvial.dsl import Pane
from fluvial.planner.type_history import merged_types
from fluvial.planner.type_reading import can_read, obstacle
from fluvial.planner.type_schema import TypeSchema, type_schema
from generators.type_drafts import Draft, changed, drafts, raw_values, same, type_of


@dataclass
class Visit:
    pages: list[str]
    first: int = 0


VisitLater = make_dataclass("Visit", [("pages", list[str]), ("first", int, 1)])


@dataclass(slots=True)
class Slotted:
    first: int = 0


@dataclass(slots=True)
class SlottedLater:
    first: int = 1


class Tree(msgspec.Struct):
    value: int
    branches: "list[Tree]" = []


class Partly(TypedDict):
    name: str
    age: NotRequired[int]


class Wholly(TypedDict):
    name: str
    age: int


class Add(msgspec.Struct, tag=True):
    n: int


class Remove(msgspec.Struct, tag=True):
    n: int


class Kept(msgspec.Struct):
    first: Remove
    then: Remove


class Wrapped(msgspec.Struct):
    first: Add | Remove
    then: Add


def enum(**members: Any) -> Any:
    return Enum("Colour", members)


def enum_of(kind: Any, **members: Any) -> Any:
    return kind("Colour", members)


def limited(kind: Any, **conditions: Any) -> Any:
    return Annotated[kind, Meta(**conditions)]


def pair(**fields: Any) -> Any:
    made: Any = NamedTuple
    return made("Pair", list(fields.items()))


def struct(name: str, *fields: Any, **options: Any) -> Any:
    """A class of the name, made anew, so that two of them can differ in one respect."""
    return msgspec.defstruct(name, fields, **options)


READABLE: list[tuple[Any, Any]] = [
    (int, int),
    (float, int),
    (int | None, int),
    (int | str, str),
    (Any, list[int]),
    (list[float], list[int]),
    (list[int | str], tuple[int, str]),
    (dict[str, float], dict[str, int]),
    (tuple[float, int], tuple[int, int]),
    (str, Literal["a", "b"]),
    (Literal["a", "b"], Literal["a"]),
    (Tree, Tree),
    (struct("A", ("x", int), ("y", int, 0)), struct("A", ("x", int))),
    (struct("A", ("x", int)), struct("A", ("x", int), ("y", int))),
    (struct("A", ("x", int), ("y", int, 0), array_like=True), struct("A", ("x", int), array_like=True)),
    (Pane[str, float], Pane[str, int]),
    (str | None, Literal["a", None]),  # noqa: PYI061 - it must be read, too
    (Literal["a", None], Literal["a"] | None),  # noqa: PYI061 - it must be read, too
    (bytearray, bytes),
    (bytes, bytearray),
    (list[int], set[int]),
    (set[float | None], set[float]),
    (dict[str, set[str | None]], dict[str, set[str]]),
    (enum(A=1, B=2, C=3), enum(A=1, B=2)),
    (enum(FIRST=1, B=2), enum(A=1, B=2)),
    (enum_of(IntFlag, A=1, B=2, C=4), enum_of(IntFlag, FIRST=1, B=2)),
    (enum_of(IntFlag, A=1, B=2), enum_of(Flag, A=1, B=2)),
    (enum_of(Flag, A=1, B=2), enum_of(IntEnum, A=1)),
    (int, enum_of(IntFlag, A=1)),
    (Any, enum_of(Flag, A=1)),
    (int, limited(int, ge=0)),
    (limited(int, ge=0), limited(int, gt=4)),
    (limited(float, gt=0), limited(int, ge=1)),
    (limited(str, max_length=9), limited(str, max_length=3)),
    (limited(datetime, tz=True), limited(datetime, tz=True)),
    (Annotated[int, Meta(title="years")], int),
    (struct("A", ("x", int), ("y", int, 7)), struct("A", ("x", int), ("y", int, 3))),
    (struct("A", ("x", float, 3.0), omit_defaults=True), struct("A", ("x", int, 3), omit_defaults=True)),
    (SlottedLater, Slotted),
    (struct("A", ("x", int), array_like=True), struct("A", ("x", int), ("y", int), array_like=True)),
    (pair(x=int, y=float), pair(x=int, y=int)),
    (Any | Visit, Any | Visit),
    (float | Literal["1"], int),
    (float | Literal[2, "1"], float),
]

UNREADABLE: list[tuple[Any, Any]] = [
    (int, float),
    (int, str),
    (int, int | None),
    (int, Any),
    (str, bytes),
    (tuple[int, int], tuple[int, int, int]),
    (tuple[int, int], list[int]),
    (dict[int, str], dict[str, str]),
    # Whole numbers that differ can be rounded to one.
    (set[float], set[int]),
    (dict[float, str], dict[int, str]),
    (list[dict[tuple[float, str], int]], list[dict[tuple[int, str], int]]),
    (Literal["a"], Literal["a", "b"]),
    (Literal["a"], str),
    (struct("A", ("x", str)), struct("A", ("x", int))),
    (struct("A", ("x", int), ("y", int)), struct("A", ("x", int))),
    (struct("A", ("x", int)), struct("A", ("x", int), array_like=True)),
    (struct("A", ("x", int), tag="a"), struct("A", ("x", int), tag="b")),
    (struct("A", ("x", int), forbid_unknown_fields=True), struct("A", ("x", int), ("y", int))),
    (struct("A", ("x", int), ("y", int)), struct("A", ("x", int), ("y", int, 0), omit_defaults=True)),
    (Wholly, Partly),
    (struct("Visit", ("pages", list[str]), ("first", int)), Visit),
    (Pane[str, int], Pane[str, float]),
    (set[int], list[int]),
    (set[int], tuple[int, int]),
    (enum(A=2, B=1), enum(A=1, B=2)),
    (enum(A=1), enum(A=1, B=2)),
    (enum_of(IntEnum, A=1, B=2), enum_of(IntFlag, A=1, B=2)),
    (Literal[1, 2], enum_of(Flag, A=1, B=2)),
    (enum_of(Flag, A=1, B=2), enum_of(IntFlag, A=1, B=2)),
    (enum_of(IntFlag, A=2, B=1), enum_of(IntFlag, A=1, B=2)),
    (enum_of(IntFlag, A=1), int),
    (float, enum_of(IntFlag, A=1)),
    (limited(int, gt=5), int),
    (limited(int, ge=1), limited(int, ge=0)),
    (int | limited(int, gt=0), int),
    (limited(str, max_length=3), limited(str, max_length=9)),
    (limited(str, pattern="a"), limited(str, pattern="b")),
    (limited(datetime, tz=True), datetime),
    (struct("A", ("x", int, 7), omit_defaults=True), struct("A", ("x", int, 3), omit_defaults=True)),
    (struct("A", ("x", int, 7)), struct("A", ("x", int, 3), omit_defaults=True)),
    (VisitLater, Visit),
    (struct("A", ("y", int), ("x", int), array_like=True), struct("A", ("x", int), ("y", int), array_like=True)),
    (struct("A", ("y", int), array_like=True), struct("A", ("x", int), ("y", int), array_like=True)),
    (struct("A", ("x", int), ("y", int), array_like=True), struct("A", ("x", int), array_like=True)),
    (pair(last=int, first=int), pair(first=int, last=int)),
    (pair(first=int), pair(first=int, last=int)),
    (struct("A", ("x", int), tag="a", tag_field="type"), struct("A", ("x", int), tag="a", tag_field="kind")),
    (Wrapped, Kept),
    (Any, Visit),
    (Any, list[set[int]]),
    (Any, dict[int, str]),
    (Any | Visit, Visit),
    (float | Literal[2, "1"], int),
    (float | Literal[2, "1"], limited(int, ge=0)),
]


@pytest.mark.parametrize(("wanted", "kept"), READABLE, ids=str)
def test_what_can_be_read(wanted: Any, kept: Any) -> None:
    assert can_read(type_schema(wanted), type_schema(kept))


@pytest.mark.parametrize(("wanted", "kept"), UNREADABLE, ids=str)
def test_what_cannot_be_read(wanted: Any, kept: Any) -> None:
    assert not can_read(type_schema(wanted), type_schema(kept))


DICT_OF_PAIRS: Any = dict.__class_getitem__((str, pair(pages=list[str])))

TOLD: list[tuple[Any, Any, str]] = [
    (int, str, ""),
    (list[int], list[str], "items: was str, is int"),
    (dict[str, int], dict[str, str], "values: was str, is int"),
    (dict[float, str], dict[int, str], "keys: was int, is float"),
    (tuple[int, int], tuple[int, str], "item 2: was str, is int"),
    (struct("A", ("x", str)), struct("A", ("x", int)), "field x: was int, is str"),
    (dict[str, Visit], DICT_OF_PAIRS, "values: was an array of its fields, is a map of its fields by name"),
    (struct("A", tag="a"), struct("A"), "tag: was none, is 'a'"),
    (
        struct("A", ("x", int), tag="a", tag_field="kind"),
        struct("A", ("x", int), tag="a"),
        "tag_field: was 'type', is 'kind'",
    ),
    (Wholly, Partly, "field age: it has no default, and not every kept value has it"),
    (
        struct("A", ("x", int)),
        struct("A", ("x", int, 1), omit_defaults=True),
        "field x: it has no default, and not every kept value has it",
    ),
    (
        struct("A", ("x", int), forbid_unknown_fields=True),
        struct("A", ("x", int), ("y", int)),
        "field y: it was written, and forbid_unknown_fields refuses it",
    ),
    (VisitLater, Visit, "field first: its default was 0, is 1, and values were kept without it"),
    (pair(b=int, a=int), pair(a=int, b=int), "field 1, which is kept by its position: was a, is b"),
    (pair(a=int), pair(a=int, b=int), "field b: it was written, and there is no place for it any more"),
    (limited(int, gt=5) | None, int | None, ""),
    (Add | Remove | None, struct("Remove", ("n", str), tag=True) | None, "field n: was str, is int"),
]


@pytest.mark.parametrize(("wanted", "kept", "why"), TOLD, ids=[row[2] for row in TOLD])
def test_why_values_cannot_be_read(wanted: Any, kept: Any, why: str) -> None:
    assert obstacle(type_schema(wanted), type_schema(kept)) == why


def first_version(kind: Any) -> TypeSchema:
    """The schema of a type as version 1 has told it."""
    text = msgspec.json.encode(type_schema(kind)).decode()
    found = msgspec.json.decode(text.replace('"set"', '"list"'), type=TypeSchema)
    classes = {
        name: msgspec.structs.replace(one, tag_field=None, defaults={}, omitted=[])
        for name, one in found.classes.items()
    }
    return msgspec.structs.replace(found, version=1, classes=classes)


@pytest.mark.parametrize(
    ("wanted", "kept"),
    [
        (set[int], first_version(set[int])),
        (limited(int, ge=0), first_version(int)),
        (enum(A=1, B=2), TypeSchema(schema={"values": [1, 2]})),
        (Add | Remove, first_version(Add | Remove)),
        (VisitLater, first_version(Visit)),
        (Annotated[int, Meta(title="years")], TypeSchema(schema="metadata")),
    ],
    ids=str,
)
def test_what_version_1_did_not_tell_is_adopted(wanted: Any, kept: TypeSchema) -> None:
    now = type_schema(wanted)
    assert can_read(now, kept)
    assert can_read(now, merged_types(kept, now))


def test_positions_count_in_version_1_too() -> None:
    assert not can_read(type_schema(pair(b=int, a=int)), first_version(pair(a=int, b=int)))


def kept_after(*kinds: Any) -> TypeSchema:
    """The schema of what is kept by runs that have used these types, one after the other."""
    first, *others = map(type_schema, kinds)
    for other in others:
        assert can_read(other, first)
        first = merged_types(first, other)
    return first


def test_a_field_that_comes_back_has_the_type_that_it_had() -> None:
    counted = struct("V", ("n", int), ("who", int, 0))
    kept = kept_after(counted, struct("V", ("n", int)))
    assert can_read(type_schema(counted), kept)
    told = obstacle(type_schema(struct("V", ("n", int), ("who", str, ""))), kept)
    assert told == "field who: was int, is str"


def test_whole_numbers_that_are_read_as_floats_are_kept_as_whole_numbers() -> None:
    kept = kept_after(int, float)
    assert can_read(type_schema(float), kept)
    assert not can_read(type_schema(float | Literal[2]), kept)
    assert merged_types(kept, type_schema(float)) == kept


def test_a_field_that_came_later_is_not_in_every_value() -> None:
    kept = kept_after(struct("V", ("n", int)), struct("V", ("n", int), ("who", int, 0)))
    assert not can_read(type_schema(struct("V", ("n", int), ("who", int))), kept)


def test_a_default_that_was_not_written_stays() -> None:
    kept = kept_after(struct("V", ("n", int, 1), omit_defaults=True), struct("V"))
    assert not can_read(type_schema(struct("V", ("n", int, 2))), kept)
    assert can_read(type_schema(struct("V", ("n", int, 1))), kept)


def test_a_default_of_a_field_that_came_later_may_change() -> None:
    kept = kept_after(struct("V"), struct("V", ("n", int, 1)))
    assert can_read(type_schema(struct("V", ("n", int, 2))), kept)


def test_a_class_in_a_choice_stays_closed_when_the_same_type_is_written_again() -> None:
    pairs = DICT_OF_PAIRS  # a named tuple refuses other fields than its own
    now = type_schema(pairs | limited(int, ge=0))
    kept = merged_types(type_schema(int | limited(int, ge=0)), now)
    assert merged_types(kept, now) == kept


def of_msgspec(draft: Draft) -> Any:
    """The type of a draft; it is one that values of can be decoded as."""
    try:
        kind = type_of(draft)
        msgspec.msgpack.Decoder(kind)
        msgspec.json.Decoder(kind)
    except TypeError:
        assume(False)
    return kind


@st.composite
def value_of(draw: st.DrawFn, draft: Draft, kind: Any) -> Any:
    try:
        return msgspec.convert(draw(raw_values(draft)), kind)
    except (msgspec.ValidationError, TypeError):  # such as a list in a set
        assume(False)


@pytest.mark.parametrize("codec", [msgspec.msgpack, msgspec.json], ids=["MessagePack", "JSON"])
@given(st.data())
def test_what_can_be_read_says_the_same(codec: Any, data: st.DataObject) -> None:
    before = data.draw(drafts())
    kept = of_msgspec(before)
    wanted = of_msgspec(data.draw(changed(before)))
    readable = can_read(type_schema(wanted), type_schema(kept))
    event(f"readable: {readable}")
    if not readable:
        return
    value = data.draw(value_of(before, kept))
    encoded = codec.encode(value)
    assert same(codec.decode(encoded, type=kept), codec.decode(encoded, type=wanted))


@given(st.data())
def test_what_a_type_can_read_it_can_read_beside_what_came_later(data: st.DataObject) -> None:
    """A run of `now` goes on with values of `before`, and a later one of `later` with those of both."""
    before = data.draw(drafts())
    now = data.draw(changed(before))
    later = data.draw(changed(data.draw(st.sampled_from([before, now]))))
    first, second, third = (type_schema(of_msgspec(draft)) for draft in (before, now, later))
    assume(can_read(second, first))
    both = merged_types(first, second)
    assert can_read(second, both)
    assert merged_types(both, second) == both
    assert both == msgspec.json.decode(msgspec.json.encode(both), type=TypeSchema)
    if can_read(third, both):
        assert can_read(third, first)
        assert can_read(third, second)
    event(f"third reads both: {can_read(third, both)}")
