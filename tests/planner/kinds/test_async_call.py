"""Asynchronous calls in a plan: the types of their results, and their limits."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from datetime import timedelta
from typing import Any

import pytest

from fluvial.dsl import Adaptive, Batch, Breaker, Limit, Pipeline, PlanError, Retry
from fluvial.planner import plan


async def sizes(word: str) -> list[int]:
    return [len(word)]


def started(word: str) -> Awaitable[Iterable[int]]:
    return sizes(word)


def coroutine(word: str) -> Coroutine[Any, Any, tuple[int, ...]]:
    raise NotImplementedError


def task(word: str) -> asyncio.Task[list[int]]:
    raise NotImplementedError


def future(word: str) -> "asyncio.Future[list[int]]":
    raise NotImplementedError


async def untyped(word):  # type: ignore[no-untyped-def]
    return [word]


def called(fn: Callable[[Any], Any], **options: Any) -> Any:
    pipeline = Pipeline("p")
    pipeline.stream("words", key=str, value=str).async_flat_map(fn, id="call", **options).send_to("out")
    return plan(pipeline).operator("call")


@pytest.mark.parametrize(
    ("fn", "value"),
    [(sizes, "int"), (started, "int"), (coroutine, "int"), (task, "int"), (future, "int"), (untyped, None)],
    ids=["sizes", "started", "coroutine", "task", "future", "untyped"],
)
def test_what_is_emitted_are_the_items_of_what_is_awaited(fn: Callable[[str], Any], value: str | None) -> None:
    operator = called(fn)
    assert (operator.key, operator.value) == ("str", value)


def test_a_call_is_shown_with_its_limits() -> None:
    options = {"max_in_flight": 7, "order": "input", "timeout": timedelta(seconds=2), "retry": Retry(attempts=4)}
    assert called(sizes, **options).details == {
        "function": "sizes",
        "order": "input",
        "max_in_flight": "7",
        "timeout": "2 s",
        "attempts": "4",
    }


def test_what_calls_wait_for_is_shown() -> None:
    waits: dict[str, Any] = {"limit": Limit("model", calls=9), "breaker": Breaker("service")}
    details = called(sizes, **waits, concurrency=Adaptive(least=2)).details
    assert {name: details[name] for name in ("limit", "breaker", "concurrency")} == {
        "limit": "model",
        "breaker": "service",
        "concurrency": "2 to 100, as the service takes",
    }


async def of_each(words: list[str]) -> list[list[int] | Exception]:
    return [[len(word)] for word in words]


async def of_each_surely(words: Sequence[str]) -> list[tuple[int, ...]]:
    return [(len(word),) for word in words]


async def of_each_either(words: list[str]) -> list[list[int] | list[str]]:
    return [[len(word)] for word in words]


async def of_each_number(numbers: list[int]) -> list[list[int]]:
    return [[number] for number in numbers]


@pytest.mark.parametrize(
    ("fn", "value"), [(of_each, "int"), (of_each_surely, "int"), (of_each_either, None), (untyped, None)]
)
def test_what_a_batch_emits_are_the_items_of_its_results(fn: Callable[[Any], Any], value: str | None) -> None:
    operator = called(fn, batch=Batch())
    assert (operator.key, operator.value) == ("str", value)


def test_a_batch_is_shown_with_its_size_and_wait() -> None:
    details = called(of_each, batch=Batch(size=20, delay=timedelta(milliseconds=5))).details
    assert details["batch"] == "20 messages, 5 ms"


def test_a_batch_of_other_values_is_refused() -> None:
    with pytest.raises(PlanError, match=r"async_flat_map call gets str, and of_each_number takes int"):
        called(of_each_number, batch=Batch())


def test_a_call_that_is_not_repeated_shows_no_attempts() -> None:
    assert called(sizes).details == {"function": "sizes", "order": "key", "max_in_flight": "100", "timeout": "1 min"}
