"""Random records: they come back whole, whatever wrote them, and versions of a schema read one another."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluvial.runtime.serdes import Registry, avro, protobuf
from generators.shop import MESSAGES, Click
from kafka.schema_registry import schema_registry

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
LONGS = st.integers(-(2**63), 2**63 - 1)
NAMES = st.sampled_from(["a", "b", "c", "d", "e", "f"])

KINDS: list[tuple[Any, st.SearchStrategy[Any], Any]] = [
    ("string", TEXTS, "none"),
    ("long", LONGS, 7),
    ("double", st.floats(allow_nan=False), 0.5),
    ("boolean", st.booleans(), True),
    ("bytes", st.binary(max_size=10), "\u00ff"),
    (["null", "string"], st.none() | TEXTS, None),
    ({"type": "array", "items": "long"}, st.lists(LONGS, max_size=3), []),
    ({"type": "map", "values": "string"}, st.dictionaries(TEXTS, TEXTS, max_size=3), {}),
]
"""A type of a field, its values, and a default as a schema writes it."""

Fields = dict[str, int]
"""The kind of each field, by its name."""

FIELDS: st.SearchStrategy[Fields] = st.dictionaries(NAMES, st.integers(0, len(KINDS) - 1), max_size=5)


def schema(fields: Fields) -> dict[str, Any]:
    told = [{"name": name, "type": KINDS[kind][0], "default": KINDS[kind][2]} for name, kind in sorted(fields.items())]
    return {"type": "record", "name": "Random", "fields": told}


def default(kind: int) -> Any:
    return b"\xff" if KINDS[kind][0] == "bytes" else KINDS[kind][2]


@dataclass(frozen=True)
class Written:
    """What one version of a program has written, and how another declares the record."""

    fields: Fields
    value: dict[str, Any]
    others: Fields


@st.composite
def written(draw: st.DrawFn) -> Written:
    fields = draw(FIELDS)
    value = {name: draw(KINDS[kind][1]) for name, kind in fields.items()}
    # A field never changes its type.
    kept = {name: kind for name, kind in fields.items() if draw(st.booleans())}
    added = {name: kind for name, kind in draw(FIELDS).items() if name not in fields}
    return Written(fields, value, {**kept, **added})


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    """One registry for all examples; its subjects take any schema."""
    with schema_registry() as server:
        server.levels["random"] = "NONE"
        yield Registry(server.url, give_up_after=timedelta(seconds=5))


@given(written())
def test_a_record_comes_back(one: Written) -> None:
    serde = avro(schema(one.fields))
    assert serde.decode(serde.encode(one.value)) == one.value


@given(written())
def test_another_version_reads_what_both_know_and_defaults_for_the_rest(registry: Registry, one: Written) -> None:
    data = avro(schema(one.fields), registry=registry, subject="random").encode(one.value)
    found = avro(schema(one.others), registry=registry, subject="random").decode(data)
    assert found == {name: one.value.get(name, default(kind)) for name, kind in one.others.items()}


@given(st.builds(Click, TEXTS, TEXTS, LONGS))
def test_a_message_of_protobuf_comes_back(registry: Registry, click: Click) -> None:
    kind = MESSAGES["shop.Click"]
    message = kind(user=click.user, url=click.url, at=click.at)
    for serde in (protobuf(kind), protobuf(kind, registry=registry, subject="clicks-value")):
        assert serde.decode(serde.encode(message)) == message


@given(st.binary(max_size=40))
def test_bytes_are_a_message_or_an_error_of_the_message(registry: Registry, data: bytes) -> None:
    fields = [{"name": "user", "type": "string"}, {"name": "at", "type": "long"}]
    clicks = {"type": "record", "name": "Click", "fields": fields}
    for serde in (
        avro(clicks),
        avro(clicks, registry=registry, subject="c"),
        protobuf(MESSAGES["shop.Click"]),
        protobuf(MESSAGES["shop.Click"], registry=registry, subject="p"),
    ):
        try:
            serde.decode(data)
        except ValueError:
            continue
