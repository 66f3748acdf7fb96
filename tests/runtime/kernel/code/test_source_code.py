"""The times of records, as the loop over an input and a partition that is only forwarded tell them."""

from collections.abc import Callable
from typing import Any

import pytest

from fluvial.dsl import Pipeline
from fluvial.runtime.kernel.code.source_code import times_reader
from fluvial.runtime.kernel.failures import operator_of
from fluvial.runtime.kernel.time.bounds import LATEST


def read(timestamp: Callable[[Any], Any] | None, *records: tuple[bytes | None, bytes | None, int]) -> list[int]:
    pipeline = Pipeline("p")
    pipeline.stream("in", key=int, value=int, timestamp=timestamp)
    keys, values, times = zip(*records, strict=True)
    return times_reader(pipeline.sources[0])(keys, values, times)


def test_without_a_function_times_are_those_of_the_records() -> None:
    assert read(None, (b"\0" * 8, b"7", 3), (None, None, -4)) == [3, -4]


def test_a_function_tells_the_time_by_the_value() -> None:
    assert read(lambda value: value + 1, (None, b"7", 3), (None, b"8", 4)) == [8, 9]


@pytest.mark.parametrize(
    ("timestamp", "record", "kind"),
    [
        (None, (None, b"no number", 3), ValueError),
        (None, (b"no key", b"7", 3), ValueError),
        (None, (None, b"7", LATEST + 1), ValueError),
        (lambda _: LATEST + 1, (None, b"7", 3), ValueError),
        (lambda _: 1.0, (None, b"7", 3), TypeError),
        (lambda _: True, (None, b"7", 3), TypeError),
        (lambda value: 1 // (value - 7), (None, b"7", 3), ZeroDivisionError),
    ],
    ids=["value", "key", "time", "far time", "no int", "bool", "function"],
)
def test_what_a_record_fails_with_names_its_source(
    timestamp: Any, record: tuple[bytes | None, bytes | None, int], kind: type[Exception]
) -> None:
    with pytest.raises(kind) as failed:
        read(timestamp, record)
    assert operator_of(failed.value) == "stream-1"
