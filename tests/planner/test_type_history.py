"""The merge of two types under which values were kept, one after the other: what reads it reads both."""

from enum import Enum, Flag
from typing import Annotated, Any, Literal

import pytest
from msgspec import Meta, Struct

from fluvial.planner.type_history import merged_types
from fluvial.planner.type_reading import can_read
from fluvial.planner.type_schema import type_schema

Positive = Annotated[int, Meta(gt=0)]


class Small(Enum):
    S = "s"


class Large(Enum):
    S = "s"
    L = "l"


class Few(Flag):
    READ = 1


class Many(Flag):
    READ = 1
    WRITE = 2


class Point(Struct):
    x: int
    y: int = 0


class PointNow(Struct):
    x: int
    z: Positive = 1


class Pair(Struct):
    left: Point
    right: Point


class PairNow(Struct):
    left: PointNow
    right: PointNow
    older: list[Point] = []


class Tree(Struct):
    branches: "list[Tree]" = []


class TreeNow(Struct):
    branches: "list[TreeNow]" = []
    leaf: "Tree | None" = None


MERGES: list[tuple[str, Any, Any]] = [
    ("whole numbers, then others", int, float),
    ("a choice more", int, int | None),
    ("listed values, then their type", Literal["a", 1], str | int),
    ("conditions that went", Positive, int),
    ("conditions that were widened", Annotated[int, Meta(gt=1)], Positive),
    ("a member of an enumeration more", Small, Large),
    ("a flag more", Few, Many),
    ("a tuple, then a list", tuple[int, str], list[int | str]),
    ("an empty tuple, then a list", tuple[()], list[Positive]),
    ("a set, then a list", set[int], list[int]),
    ("dictionaries", dict[str, int], dict[str, int | None]),
    ("a field less and a field more", Point, PointNow),
    ("one class in two places, and a field of its older form", Pair, PairNow),
    ("a class that holds itself", Tree, TreeNow),
]


@pytest.mark.parametrize(("before", "now"), [merge[1:] for merge in MERGES], ids=[merge[0] for merge in MERGES])
def test_what_reads_the_merge_reads_both(before: Any, now: Any) -> None:
    stored, wanted = type_schema(before), type_schema(now)
    assert can_read(wanted, stored)
    merged = merged_types(stored, wanted)
    assert can_read(merged, stored)
    assert can_read(merged, wanted)


def test_a_type_that_stays_is_its_own_merge() -> None:
    assert merged_types(type_schema(Pair), type_schema(Pair)) == type_schema(Pair)


def test_a_merge_keeps_the_fields_that_are_gone() -> None:
    merged = merged_types(type_schema(Point), type_schema(PointNow))
    assert [list(described.fields) for described in merged.classes.values()] == [["x", "z", "y"]]
