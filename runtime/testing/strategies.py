"""Hypothesis strategies for inputs of a pipeline: values, out-of-order timestamps, batches, interleavings."""

import inspect
from collections.abc import Mapping, Sequence
from datetime import timedelta
from difflib import get_close_matches
from itertools import pairwise
from typing import Any, TypeVar

from ...dsl.errors import MissingExtraError, UsageError
from ...dsl.validation import a_type, explain, millis, require

try:
    from hypothesis import strategies as st
except ModuleNotFoundError as missing:
    _WRONG = "fluvial.runtime.testing.strategies needs hypothesis, which is not installed"
    raise MissingExtraError(explain(_WRONG, "the extra that brings it", "pip install 'fluvial[testing]'")) from missing

__all__ = ["batchings", "interleavings", "records", "timestamps"]

T = TypeVar("T")
K = TypeVar("K")


def records(type_: type[T], **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[T]:
    """Values of a type; for a class, fields may have strategies of their own.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Click:
    ...     user: str
    ...     at: int
    >>> @given(records(Click, user=st.sampled_from(["ann", "bob"]), at=st.integers(0, 1000)))
    ... def known_users(click: Click) -> None:
    ...     assert click.user in ("ann", "bob") and click.at <= 1000
    >>> known_users()
    """
    a_type("records: type_", type_)
    _check_fields(type_, fields)
    return st.builds(type_, **fields) if fields else st.from_type(type_)


def _check_fields(type_: type[Any], fields: Mapping[str, object]) -> None:
    """Refuse strategies of fields that a class does not have, where it is used and not where a value is drawn."""
    try:
        known = inspect.signature(type_).parameters
    except (TypeError, ValueError):  # many builtins have none
        return
    unknown = [name for name in fields if name not in known]
    if unknown and not any(one.kind is inspect.Parameter.VAR_KEYWORD for one in known.values()):
        meant = get_close_matches(unknown[0], known, 1, cutoff=0.5)
        remedy = f"write {meant[0]}=" if meant else f"leave out {unknown[0]}="
        wrong = f"records: {type_.__name__} has no field {unknown[0]!r}"
        raise UsageError(explain(wrong, f"one of {', '.join(known)}", remedy))


def timestamps(
    *,
    count: int | st.SearchStrategy[int] = st.integers(0, 30),  # noqa: B008 - strategies are values
    start: int = 0,
    out_of_order: timedelta = timedelta(0),
    largest_step: timedelta = timedelta(minutes=1),
) -> st.SearchStrategy[list[int]]:
    """Timestamps of the messages of one partition, in ms since epoch. Each is at most `out_of_order` behind the latest
    one before it, so that none is late, and at most `largest_step` ahead of it.

    >>> @given(timestamps(count=3, start=1000))
    ... def in_order(times: list[int]) -> None:
    ...     assert len(times) == 3 and 1000 <= times[0] <= times[1] <= times[2]
    >>> in_order()
    """
    good = isinstance(count, st.SearchStrategy) or (type(count) is int and count >= 0)
    remedy = "write a whole number, or st.integers(0, 30)"
    require(good, UsageError, f"timestamps: count={count!r}", "a number, not negative, or a strategy of one", remedy)
    behind, ahead = millis("timestamps: out_of_order", out_of_order), millis("timestamps: largest_step", largest_step)
    return _timestamps(count, start, behind, ahead)


@st.composite
def _timestamps(draw: st.DrawFn, count: int | st.SearchStrategy[int], start: int, behind: int, ahead: int) -> list[int]:
    number = count if isinstance(count, int) else draw(count)
    times: list[int] = []
    latest = start
    for _ in range(number):
        times.append(latest + draw(st.integers(-behind if times else 0, ahead)))
        latest = max(latest, times[-1])
    return times


@st.composite
def batchings(draw: st.DrawFn, items: Sequence[T]) -> list[list[T]]:
    """The items in order, cut into batches of random sizes, none of them empty.

    >>> @given(batchings([1, 2, 3]))
    ... def all_there(batches: list[list[int]]) -> None:
    ...     assert [item for batch in batches for item in batch] == [1, 2, 3]
    >>> all_there()
    """
    cuts = sorted(draw(st.sets(st.integers(1, max(1, len(items) - 1)))) & set(range(1, len(items))))
    edges = [0, *cuts, len(items)]
    return [list(items[begin:end]) for begin, end in pairwise(edges) if begin < end]


@st.composite
def interleavings(draw: st.DrawFn, streams: Mapping[K, Sequence[T]]) -> list[tuple[K, T]]:
    """All items of all streams as (stream, item): in order within a stream, interleaved at random.

    >>> @given(interleavings({"clicks": [1, 2], "views": [3]}))
    ... def clicks_in_order(items: list[tuple[str, int]]) -> None:
    ...     assert [item for name, item in items if name == "clicks"] == [1, 2]
    >>> clicks_in_order()
    """
    rest = {name: list(items) for name, items in streams.items() if items}
    items: list[tuple[K, T]] = []
    while rest:
        name = draw(st.sampled_from(list(rest)))
        items.append((name, rest[name].pop(0)))
        if not rest[name]:
            del rest[name]
    return items
