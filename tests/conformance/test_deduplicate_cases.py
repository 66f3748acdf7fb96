"""Conformance cases about duplicates that are left out. Each key is in one partition, which gives the order."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest

from engines.conformance import Conformance, check, on_targets, told
from fluvial.dsl import KeyedStream, Pipeline, count, tumbling
from fluvial.dsl.message import Record

TEN = timedelta(milliseconds=10)
NOTHING: Any = None
"""The value of a message that has none, among bytes."""

Words = KeyedStream[str, str]


def number(word: str) -> str:
    return word.partition(":")[0]


def size(word: str) -> tuple[str, int]:
    return word[:1], len(word)


def once(words: Words, **options: Any) -> Words:
    return words.deduplicate(TEN, id="once", **options)


def of(build: Callable[[Words], Words]) -> Pipeline:
    """A pipeline on a stream of words that come in some disorder."""
    pipeline = Pipeline("once")
    build(pipeline.stream("in", value=str, key=str, out_of_order=2 * TEN)).send_to("out", value=str)
    return pipeline


def by_key() -> Pipeline:
    return of(once)


def by_number() -> Pipeline:
    return of(lambda words: once(words, by=number))


def by_pair() -> Pipeline:
    return of(lambda words: once(words, by=size))


def by_hash() -> Pipeline:
    return of(lambda words: once(words, by=len, by_type=int))


def behind_a_border() -> Pipeline:
    """Messages of two partitions meet; those of one key and number are equal."""
    return of(lambda words: once(words.partition_by(number, id="by-number", key_type=str), by=number))


def counted() -> Pipeline:
    """A window counts what is no duplicate."""
    return of(lambda words: once(words, by=number).window(tumbling(10 * TEN), count(), id="w").map(told))


def twice() -> Pipeline:
    """The operator reads what another one has passed on."""
    return of(lambda words: once(words, by=number).deduplicate(3 * TEN, id="again"))


def merged() -> Pipeline:
    """What is passed on meets all that came, which is dispatched before it."""
    return of(lambda words: words.merge(once(words)).map(str.upper))


def rows(*messages: tuple[str, str | None, int]) -> list[Record]:
    """Records of keys, values and times."""
    return [(key.encode(), None if value is None else value.encode(), time, ()) for key, value, time in messages]


def out(*lines: str) -> dict[str, Sequence[bytes]]:
    return {"out": [line.encode() for line in lines]}


CASES = [
    Conformance(
        "the-first-of-a-key",
        by_key,
        {"in": [rows(("k", "a", 0), ("k", "b", 9), ("k", "c", 10), ("l", "d", 10), ("k", "e", 19), ("k", "f", 20))]},
        out("a", "c", "d", "f"),
        {},
    ),
    Conformance(
        "what-was-left-out-does-not-count",
        by_key,
        {"in": [rows(("k", "a", 0), ("k", "b", 8), ("k", "c", 16), ("k", "d", 24))]},
        out("a", "c"),
        {},
    ),
    Conformance(
        "out-of-order",
        by_key,
        {"in": [rows(("k", "a", 30), ("k", "b", 21), ("k", "c", 20), ("k", "d", 11), ("k", "e", 10), ("k", "f", 39))]},
        out("a", "c", "e"),
        {},
    ),
    Conformance(
        "by-a-text",
        by_number,
        {"in": [rows(("k", "1:a", 0), ("k", "2:b", 1), ("k", "1:c", 2), ("l", "1:d", 3), ("k", "2:e", 12))]},
        out("1:a", "2:b", "1:d", "2:e"),
        {},
    ),
    Conformance(
        "by-a-pair",
        by_pair,
        {"in": [rows(("k", "ab", 0), ("k", "ac", 1), ("k", "abc", 2), ("k", "bc", 3))]},
        out("ab", "abc", "bc"),
        {},
    ),
    Conformance(
        "by-a-function-without-annotation",
        by_hash,
        {"in": [rows(("k", "ab", 0), ("k", "cd", 1), ("k", "abc", 2))]},
        out("ab", "abc"),
        {},
    ),
    Conformance(
        "messages-without-value",
        by_key,
        {"in": [[(b"k", None, 0, ()), (b"k", b"a", 1, ()), (b"k", b"b", 10, ()), (b"k", None, 11, ())]]},
        {"out": [NOTHING, b"b"]},
        {},
    ),
    Conformance(
        "behind-a-border",
        behind_a_border,
        {"in": [rows(("k", "1", 0), ("k", "2", 5)), rows(("l", "1", 0), ("l", "2", 5), ("l", "3", 6))]},
        out("1", "2", "3"),
        {},
    ),
    Conformance(
        "in-front-of-a-window",
        counted,
        {"in": [rows(("k", "1", 0), ("k", "2", 5), ("k", "1", 9), ("k", "3", 99), ("k", "3", 101), ("k", "3", 110))]},
        out("on_time k [0, 100) 3", "on_time k [100, 200) 1"),
        {},
    ),
    Conformance(
        "one-behind-another",
        twice,
        {"in": [rows(("k", "1", 0), ("k", "1", 5), ("k", "2", 20), ("k", "1", 30), ("k", "2", 40))]},
        out("1", "1"),
        {},
    ),
    Conformance(
        "beside-all-that-came",
        merged,
        {"in": [rows(("k", "a", 0), ("k", "b", 5))]},
        out("A", "A", "B"),
        {},
    ),
]


USUAL = ("the-first-of-a-key",)


@pytest.mark.parametrize(("case", "target"), on_targets(CASES, USUAL))
def test_a_case_holds(case: Conformance, target: str, request: pytest.FixtureRequest) -> None:
    check(case, target, request)
