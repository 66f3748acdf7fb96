"""Plain functions that are made asynchronous: what is taken, what is refused where it is written, what is known."""

import asyncio
import pickle
import threading
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from explained import assert_explains, error_of
from fluvial.dsl import (
    AsyncCollector,
    AsyncStreamTask,
    Batch,
    Envelope,
    Pipeline,
    PipelineError,
    PlanError,
    TaskCoordinator,
    UsageError,
    in_threads,
    resource,
)
from fluvial.dsl.resource import opened_with
from fluvial.planner import plan
from fluvial.runtime import call_key
from fluvial.runtime.testing import PipelineDriver


def lengths(text: str) -> list[int]:
    return [len(text)]


def lengths_of_all(texts: list[str]) -> list[list[int]]:
    return [[len(text)] for text in texts]


def length(text: str) -> int:
    return len(text)


async def later(text: str) -> list[int]:
    return [len(text)]


def one_by_one(text: str) -> Iterator[int]:
    yield len(text)


def given(fn: Any, **options: Any) -> Callable[[], object]:
    """Gives a function to an operator."""
    return lambda: Pipeline("p").stream("in", value=str).async_flat_map(fn, id="call", **options)


@pytest.mark.parametrize(
    ("fn", "wrong", "remedy"),
    [
        (later, "the asynchronous function later", "pass later itself"),
        (one_by_one, "the generator function one_by_one", "return a list"),
        (3, "got 3", "pass a function"),
    ],
)
def test_what_is_no_plain_function_is_refused_where_it_is_written(fn: Any, wrong: str, remedy: str) -> None:
    def write() -> None:
        in_threads(fn, threads=2)

    assert_explains(error_of(write, PipelineError), wrong, write, "a", remedy, below=1)


def test_a_pool_has_one_thread_at_least() -> None:
    error = error_of(lambda: in_threads(lengths, threads=0), PipelineError)
    assert_explains(error, "threads=0", None, "a number of threads, 1 or more")


def test_what_a_function_takes_is_checked_as_if_it_were_asynchronous() -> None:
    error = error_of(given(in_threads(lengths, threads=2), resource=resource(dict)), PipelineError)
    assert_explains(error, "cannot be called with 2 arguments", None, "fn(value, client)")


def test_a_plain_function_itself_is_refused_with_a_hint() -> None:
    error = error_of(given(lengths), PipelineError)
    assert_explains(error, "the plain function lengths", None, "an async function", "in_threads(lengths, threads=8)")


def test_what_it_returns_is_the_type_of_the_stream() -> None:
    pipeline = Pipeline("typed")
    pipeline.stream("in", value=str).async_flat_map(in_threads(lengths, threads=2), id="call").send_to("out")
    operators = {one.id: one for one in plan(pipeline).operators}
    assert (operators["call"].value, operators["call"].details["threads"]) == ("int", "2")


def test_a_function_of_other_values_is_refused_by_the_plan() -> None:
    pipeline = Pipeline("wrong")
    fn: Any = in_threads(lengths, threads=2)
    pipeline.stream("in", value=int).async_flat_map(fn, id="call").send_to("out")
    assert "lengths takes str" in str(error_of(lambda: plan(pipeline), PlanError))


def test_what_has_no_annotations_and_no_signature_is_taken() -> None:
    fns: tuple[Any, ...] = (sorted, partial(lengths), lambda text: [text], list)
    for fn in fns:
        given(in_threads(fn, threads=2))()


def test_an_object_is_opened_before_the_pool_of_its_method() -> None:
    class Client:
        def open(self) -> None: ...
        def close(self) -> None: ...
        def ask(self, text: str) -> list[str]:
            return [text]

    client = Client()
    asked = in_threads(client.ask, threads=2)
    assert opened_with(asked) == (client, asked)


def test_it_travels_to_other_processes() -> None:
    copy = pickle.loads(pickle.dumps(in_threads(lengths, threads=3)))
    assert (repr(copy), copy.size, copy.fn) == ("in_threads(lengths)", 3, lengths)


def test_a_loop_that_nobody_has_given_pools_is_refused() -> None:
    call: Awaitable[Any] = in_threads(lengths, threads=2)("tea")
    with pytest.raises(UsageError, match="in an event loop of your own") as raised:
        asyncio.run(call)  # type: ignore[arg-type]
    assert "asyncio.to_thread(lengths" in str(raised.value)


def test_batches_clients_and_keys_are_those_of_other_calls() -> None:
    def priced(texts: list[str], known: dict[str, int]) -> list[list[str]]:
        return [[f"{known[text]}"] for text in texts]

    pipeline, known = Pipeline("calls"), resource(lambda: {"tea": 3})
    texts = pipeline.stream("in", value=str)
    batch = Batch(size=2, delay=timedelta(milliseconds=1))
    texts.async_flat_map(in_threads(priced, threads=2), id="priced", batch=batch, resource=known).send_to("prices")
    keyed = in_threads(lambda _: [call_key()], threads=2)
    texts.async_flat_map(keyed, id="keyed").send_to("keys", value=str)
    with PipelineDriver(pipeline) as driver:
        driver.send("in", "tea")
        driver.end()
        assert [message.value for message in driver.read("prices")] == ["3"]
        assert len(driver.read("keys")[0].value) == 32


def test_a_remote_table_may_be_read_in_threads() -> None:
    pipeline = Pipeline("rows")
    table = pipeline.remote_table("prices", read=in_threads(length, threads=2))
    items = pipeline.stream("in", key=str, value=str)
    items.join(table, lambda item, price: f"{item} {price}", id="joined").send_to("out", value=str)
    with PipelineDriver(pipeline) as driver:
        driver.send("in", "a", key="tea")
        assert [message.value for message in driver.read("out")] == ["a 3"]


class Priced(AsyncStreamTask[Any, str, int]):
    """Calls a plain function of its class."""

    price = in_threads(len, threads=2)

    async def process(
        self, envelope: Envelope[Any, str], collector: AsyncCollector[int], coordinator: TaskCoordinator
    ) -> None:
        del coordinator
        collector.send(await self.price(envelope.value))


def test_pools_of_a_stream_task_are_opened_with_it() -> None:
    pipeline = Pipeline("tasks")
    pipeline.task(Priced, pipeline.stream("in", value=str), id="priced").send_to("out", value=int)
    assert [operator.opens for operator in pipeline.operators if operator.kind == "task_call"] == [(Priced.price,)]
    with PipelineDriver(pipeline) as driver:
        driver.send("in", "tea")
        assert [message.value for message in driver.read("out")] == [3]


def test_virtual_time_stands_still_in_a_call() -> None:
    def slow(text: str) -> list[str]:
        threading.Event().wait(0.01)
        return [text]

    pipeline = Pipeline("still")
    texts = pipeline.stream("in", value=str)
    texts.async_flat_map(in_threads(slow, threads=1), id="slow", timeout=timedelta(milliseconds=1)).send_to("out")
    with PipelineDriver(pipeline) as driver:
        driver.send("in", "tea")
        assert len(driver.read("out")) == 1
