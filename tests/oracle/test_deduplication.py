"""The oracle's deduplication, against results worked out by hand."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from engines.one_window import ms
from fluvial.dsl import Pipeline, dead_letter
from oracle.interpreter import Outputs, run_oracle

Sent = tuple[str, str, int]
"""A message: its key, its value and its time."""


def first(word: str) -> str:
    return word[0]


def deduplicated(
    sent: Sequence[Sent],
    by: Callable[[str], Any] | None = None,
    *,
    out_of_order: int = 0,
    late: Counter[str] | None = None,
) -> Outputs:
    """What is written of messages of one partition, and their dead letters."""
    pipeline = Pipeline("p", on_error=dead_letter())
    words = pipeline.stream("in", value=str, key=str, out_of_order=ms(out_of_order))
    words.deduplicate(ms(10), by=by, by_type=None if by is None else str, id="d").send_to("out")
    records = [(key.encode(), value.encode(), time, (("h", b"1"),)) for key, value, time in sent]
    return run_oracle(pipeline, {"in": [records]}, late=late)


def of_one_key(*times: int, out_of_order: int = 0, late: Counter[str] | None = None) -> list[int]:
    """The times that are passed on of messages of one key."""
    written = deduplicated([("k", "w", time) for time in times], out_of_order=out_of_order, late=late)
    return [message.timestamp for message in written.get("out", [])]


def test_a_message_is_passed_on_as_it_came() -> None:
    assert deduplicated([("k", "w", 5)]) == {"out": [(b"k", b"w", 5, (("h", b"1"),))]}


@pytest.mark.parametrize(
    ("times", "passed"),
    [
        ((0, 0), [0]),
        ((0, 9), [0]),
        ((0, 10), [0, 10]),
        ((0, 9, 11), [0, 11]),
        ((0, 9, 18), [0, 18]),
        ((20, 11), [20]),
        ((20, 10), [20, 10]),
        ((20, 10, 15, 30), [20, 10, 30]),
    ],
)
def test_what_is_less_than_within_apart_from_what_was_passed_on_is_left_out(
    times: tuple[int, ...], passed: list[int]
) -> None:
    assert of_one_key(*times) == passed


def test_what_is_more_than_within_behind_the_watermark_is_late() -> None:
    late = Counter[str]()
    assert of_one_key(100, 90, 89, late=late) == [100, 90]
    assert late == {"d": 1}
    assert of_one_key(100, 89, 83, 82, out_of_order=7, late=late) == [100, 89]
    assert late == {"d": 2}


def test_keys_and_what_by_returns_are_told_apart() -> None:
    sent = [("k", "ab", 0), ("l", "ab", 1), ("k", "ac", 2), ("k", "b", 3)]
    assert [message.value for message in deduplicated(sent)["out"]] == [b"ab", b"ab"]
    assert [message.value for message in deduplicated(sent, first)["out"]] == [b"ab", b"ab", b"b"]


def test_a_message_for_which_by_fails_is_remembered_nowhere() -> None:
    written = deduplicated([("k", "", 0), ("k", "a", 1)], first)
    assert [message.value for message in written["p-dead-letters"]] == [b""]
    assert [message.value for message in written["out"]] == [b"a"]


def test_a_message_without_anything_to_tell_it_apart_by_fails() -> None:
    written = deduplicated([("k", "a", 0)], lambda _: None)
    assert list(written) == ["p-dead-letters"]
