"""Classes that JSON cannot hold are found wherever they are in a type."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NamedTuple, TypedDict

import pytest
from msgspec import Struct

from fluvial.dsl import Pane, Serde
from fluvial.runtime.cli.commands.type_check import foreign_classes


class Point:
    """A class of nobody's kind."""


@dataclass
class Tree:
    name: str
    leaves: "list[Tree]" = field(default_factory=list)


@dataclass
class Lined:
    points: dict[str, tuple[Point, ...]]


class Pair(NamedTuple):
    left: int
    right: Point | None


class Sized(TypedDict):
    size: int


class Boxed(Struct):
    inside: list[Lined | None]


@pytest.mark.parametrize(
    "kind",
    [
        int,
        str,
        bytes,
        datetime,
        Any,
        None,
        list[Tree],
        Tree,
        Sized,
        Pane[str, int],
        dict[str, Literal["a"] | None],
        object,
        dict[str, object],
    ],
)
def test_types_that_json_holds(kind: object) -> None:
    assert foreign_classes(kind) == []


@pytest.mark.parametrize("kind", [Point, list[Point], Point | None, Lined, Pair, Boxed, Pane[str, Lined]])
def test_types_that_json_does_not_hold(kind: object) -> None:
    assert foreign_classes(kind) == ["Point"]


def test_a_union_that_nobody_could_tell_apart() -> None:
    assert foreign_classes(dict[str, Point] | Point) == ["dict[str, Point] | Point"]


def test_a_serde_holds_what_it_likes() -> None:
    assert foreign_classes(Serde("point", Point, lambda _: b"", lambda _: Point())) == []
