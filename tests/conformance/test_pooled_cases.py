"""Conformance cases about plain functions in pools: what they return, in which order, and what fails."""

import threading
from datetime import timedelta
from typing import Any

import pytest

from engines.conformance import Conformance, check, on_targets
from fluvial.dsl import Batch, Pipeline, in_threads, skip


def if_even(number: int) -> list[int]:
    threading.Event().wait(0.001 * (number % 3))  # the later, the earlier
    if number == 5:
        raise ValueError(number)
    return [number] * (number % 2 == 0)


def all_if_even(numbers: list[int]) -> list[list[int] | Exception]:
    return [ValueError(number) if number == 5 else if_even(number) for number in numbers]


def called(fn: Any, **options: Any) -> Pipeline:
    pipeline = Pipeline("pooled", on_error=skip())
    pipeline.stream("in", value=int).async_flat_map(fn, id="call", **options).send_to("out", value=int)
    return pipeline


NUMBERS = [[(None, b"%d" % number, number, ()) for number in part] for part in ((1, 2, 3, 4), (5, 6, 7, 8))]
EVEN = (b"2", b"4", b"6", b"8")
BATCH = Batch(size=2, delay=timedelta(milliseconds=1))
CASES = [
    Conformance("threads", lambda: called(in_threads(if_even, threads=2)), {"in": NUMBERS}, {"out": EVEN}, {}),
    Conformance(
        "threads-in-order",
        lambda: called(in_threads(if_even, threads=3), order="input"),
        {"in": NUMBERS},
        {"out": EVEN},
        {},
    ),
    Conformance(
        "threads-with-batches",
        lambda: called(in_threads(all_if_even, threads=2), batch=BATCH, max_in_flight=4),
        {"in": NUMBERS},
        {"out": EVEN},
        {},
    ),
]


USUAL = ("threads",)


@pytest.mark.parametrize(("case", "target"), on_targets(CASES, USUAL))
def test_plain_functions_are_called_as_asynchronous_ones(
    case: Conformance, target: str, request: pytest.FixtureRequest
) -> None:
    check(case, target, request)
