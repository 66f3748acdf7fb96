"""Whether kept values can be read as another type, tried on values."""

from dataclasses import dataclass
from typing import Any, Literal, NotRequired, TypedDict

import msgspec
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from fluvial.dsl import Pane
from fluvial.planner.type_schema import can_read, schema_text, type_schema


@dataclass
class Visit:
    pages: list[str]
    first: int = 0


class Tree(msgspec.Struct):
    value: int
    branches: "list[Tree]" = []


class Partly(TypedDict):
    name: str
    age: NotRequired[int]


class Wholly(TypedDict):
    name: str
    age: int


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
]


@pytest.mark.parametrize(("wanted", "kept"), READABLE, ids=str)
def test_what_can_be_read(wanted: Any, kept: Any) -> None:
    assert can_read(type_schema(wanted), type_schema(kept))


@pytest.mark.parametrize(("wanted", "kept"), UNREADABLE, ids=str)
def test_what_cannot_be_read(wanted: Any, kept: Any) -> None:
    assert not can_read(type_schema(wanted), type_schema(kept))


def test_a_schema_is_json_and_comes_back() -> None:
    for kind in (Visit, Tree, Partly, dict[str, Visit | None], tuple[Pane[str, int], Pane[str, float]]):
        made = type_schema(kind)
        assert msgspec.json.decode(msgspec.json.encode(made), type=type(made)) == made


def test_the_text_of_a_schema_is_a_type_as_people_write_it() -> None:
    assert schema_text(type_schema(dict[str, Visit | None])) == "dict[str, Visit(pages: list[str], first: int) | None]"
    assert schema_text(type_schema(Tree)) == "Tree(value: int, branches: list[Tree])"
    assert schema_text(type_schema(Literal["a", 1])) == "one of 1, 'a'"


def test_a_class_that_msgspec_does_not_know_is_known_by_its_name() -> None:
    class Other:
        """Not to be decoded."""

    made = type_schema(Other)
    assert can_read(made, type_schema(Other))
    assert not can_read(made, type_schema(complex))


SCALARS: list[Any] = [int, float, str, bool, bytes, type(None)]


@st.composite
def structs(draw: st.DrawFn, inner: st.SearchStrategy[Any]) -> Any:
    fields: list[Any] = []
    optional = False
    for name in draw(st.lists(st.sampled_from("abc"), unique=True, max_size=3)):
        optional = optional or draw(st.booleans())
        kind = draw(inner)
        fields.append((name, kind | None, None) if optional else (name, kind))
    options = {name: draw(st.booleans()) for name in ("array_like", "omit_defaults", "forbid_unknown_fields")}
    return struct("Made", *fields, **options)


TYPES: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from(SCALARS),
    lambda inner: (
        inner.map(lambda kind: list[kind])  # type: ignore[valid-type]
        | inner.map(lambda kind: dict[str, kind])  # type: ignore[valid-type]
        | st.lists(inner, min_size=1, max_size=3).map(lambda kinds: tuple[tuple(kinds)])  # type: ignore[misc]
        | inner.map(lambda kind: kind | None)
        | structs(inner)
    ),
    max_leaves=4,
)


@given(TYPES, TYPES, st.data())
def test_what_is_said_to_be_readable_is_read(wanted: Any, kept: Any, data: st.DataObject) -> None:
    if not can_read(type_schema(wanted), type_schema(kept)):
        return
    try:
        encoded = msgspec.msgpack.encode(data.draw(st.from_type(kept)))
    except OverflowError:
        reject()  # MessagePack has whole numbers of 64 bits at most
    msgspec.msgpack.decode(encoded, type=wanted)
