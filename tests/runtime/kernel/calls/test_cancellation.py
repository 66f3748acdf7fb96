"""Calls that do not end as they should, through whole runs: what becomes of their messages, and that runs end."""

import asyncio
import decimal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from threading import Event, Thread
from typing import Any

import pytest

from engines.call_loops import in_loop
from engines.spark_in_process import queries
from fluvial.dsl import Pipeline, skip
from fluvial.dsl.errors import MessageError
from fluvial.planner import plan
from fluvial.runtime import run
from fluvial.runtime.kernel.calls import cancellation
from fluvial.runtime.kernel.calls.cancellation import (
    AbandonedCalls,
    CallLoop,
    Expired,
    as_error,
    call_with_timeout,
)
from fluvial.runtime.kernel.calls.threads import CallThreads
from fluvial.runtime.systems.contract import RecordBatch
from fluvial.runtime.systems.memory import MemorySystem
from fluvial.runtime.testing import PipelineDriver

NUMBERS = range(6)
CLEAN = decimal.DefaultContext.prec
Outcome = tuple[list[int], dict[str, int]]


async def cancelled(number: int) -> list[int]:
    """The third call fails; each tells whose context variables it sees: those of decimal are."""
    seen = decimal.getcontext().prec
    decimal.setcontext(decimal.Context(prec=number + 1))
    if number == 3:
        inner = asyncio.ensure_future(asyncio.sleep(10))
        inner.cancel()
        await inner
    return [number, seen]


async def deaf(number: int) -> list[int]:
    """The third call takes for ever, and cannot be stopped."""
    while number == 3:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(10)
    return [number, CLEAN]


class Unusual(BaseException):
    """No Exception."""


def raising(error: type[BaseException]) -> Any:
    async def raise_it(number: int) -> list[int]:
        if number == 3:
            raise error("why")
        return [number, CLEAN]

    return raise_it


NO_EXCEPTIONS = [asyncio.CancelledError, GeneratorExit, Unusual]


def calls(fn: Any, policy: Any = None) -> Pipeline:
    pipeline = Pipeline("calls", on_error=policy or skip())
    numbers = pipeline.stream("in", value=int)
    numbers.async_flat_map(fn, id="look", timeout=timedelta(milliseconds=50), max_in_flight=2).send_to("out")
    return pipeline


def records() -> list[Any]:
    return [(None, b"%d" % number, number, ()) for number in NUMBERS]


def on_driver(pipeline: Pipeline) -> Outcome:
    with PipelineDriver(pipeline) as driver:
        driver.records.send("in", records())
        report = driver.end()
        return [message.value for message in driver.read("out")], report.failed


def on_local(pipeline: Pipeline) -> Outcome:
    system = MemorySystem()
    system.admin().create("in", 1)
    writing = system.producer().begin()
    writing.append("in", 0, records())
    writing.commit()
    report = run(pipeline, system=system, until="end")
    consumer = system.consumer()
    consumer.assign({("out", 0): 0})
    assert b'"in":6' in system.admin().checkpoints("calls")["in/0"]
    return [int(record[1] or b"") for batch in consumer.poll(1.0) for record in batch.records], report.failed


def on_spark(pipeline: Pipeline) -> Outcome:
    """What Spark's workers run."""
    (query,) = queries(plan(pipeline, partitions={"in": 1}))
    query.batch([RecordBatch("in", 0, range(len(NUMBERS)), records())])
    query.batch([], end=True)
    return [int(message.value or b"") for message in query.written["out"]], query.counts.by_kind["failed"]


ENGINES = [on_driver, on_local, on_spark]


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("fn", [cancelled, deaf, *map(raising, NO_EXCEPTIONS)])
def test_a_call_that_ends_otherwise_fails_its_own_message_only(engine: Callable[[Pipeline], Outcome], fn: Any) -> None:
    out, failed = engine(calls(fn))
    assert out[1::2] == [CLEAN] * 5
    assert (sorted(out[::2]), failed) == ([0, 1, 2, 4, 5], {"look": 1})


def fails_on(error: type[BaseException]) -> Any:
    def check(value: Any) -> Any:
        if value == 3:
            raise error("why")
        return value

    return check


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("error", NO_EXCEPTIONS)
def test_a_time_that_cannot_be_read_fails_its_own_message_only(
    engine: Callable[[Pipeline], Outcome], error: type[BaseException]
) -> None:
    pipeline = Pipeline("calls", on_error=skip())
    pipeline.stream("in", value=int, timestamp=fails_on(error)).map(int).send_to("out")
    out, failed = engine(pipeline)
    assert (out, list(failed.values())) == ([0, 1, 2, 4, 5], [1])


def test_an_error_that_is_no_exception_is_named_with_its_place() -> None:
    pipeline = Pipeline("calls")
    pipeline.stream("in", value=int).map(fails_on(asyncio.CancelledError)).send_to("out")
    with pytest.raises(
        MessageError, match=r"map\(check\) failed on the message at in, partition 0, offset 3"
    ) as raised:
        on_driver(pipeline)
    assert "CancelledError: why, raised at " in str(raised.value)


@pytest.mark.slow
def test_a_run_that_fails_does_not_wait_for_a_call_that_cannot_be_stopped() -> None:
    async def fail_beside(number: int) -> list[int]:
        if number == 4:
            raise ValueError(number)
        return await deaf(number)

    pipeline = Pipeline("calls")
    numbers = pipeline.stream("in", value=int)
    numbers.async_flat_map(fail_beside, id="look", order="none").send_to("out")
    ended: list[BaseException] = []

    def try_it() -> None:
        try:
            on_local(pipeline)
        except MessageError as error:
            ended.append(error)

    thread = Thread(target=try_it, daemon=True)
    thread.start()
    thread.join(60)
    assert [type(error) for error in ended] == [MessageError]


def test_a_loop_is_left_with_its_result_or_error_and_cleaned_up() -> None:
    cleaned: list[str] = []

    async def forever(name: str) -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            cleaned.append(name)

    async def work() -> int:
        background.add(asyncio.ensure_future(forever("beside")))
        await asyncio.sleep(0)
        return 7

    async def wrong() -> int:
        raise KeyError

    background: set[Any] = set()
    assert in_loop(work()) == 7
    assert cleaned == ["beside"]
    with pytest.raises(KeyError):
        in_loop(wrong())


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("within", [False, True])
def test_what_was_interrupted_does_not_go_on_when_its_loop_runs_again(within: bool) -> None:
    went_on: list[str] = []

    def interrupt() -> None:
        raise KeyboardInterrupt

    async def work() -> None:
        if within:
            interrupt()
        asyncio.get_running_loop().call_soon(interrupt)
        for _ in range(3):
            await asyncio.sleep(0)
            went_on.append("work")

    async def close() -> None:
        await asyncio.sleep(0.01)
        went_on.append("close")

    loop = CallLoop()
    loop.begin()
    with pytest.raises(KeyboardInterrupt):
        loop.run(work())
    went_on.clear()
    loop.run(close())
    loop.end()
    assert went_on == ["close"]


@pytest.mark.filterwarnings("error")
def test_what_begins_while_a_loop_is_left_is_ended_too() -> None:
    cleaned: list[int] = []
    running: set[Any] = set()

    async def successor(of: int) -> None:
        """Cancelled, it starts another."""
        try:
            await asyncio.sleep(1000)
        finally:
            cleaned.append(of)
            if of < 3:
                running.add(asyncio.ensure_future(successor(of + 1)))

    async def work() -> None:
        running.add(asyncio.ensure_future(successor(1)))
        await asyncio.sleep(0)

    in_loop(work())
    assert all(task.done() for task in running)
    assert cleaned == [1, 2, 3]


LEFT_BEHIND = """
import asyncio, threading
from datetime import timedelta
from fluvial.dsl import Pipeline, aggregate, skip, tumbling
from fluvial.runtime import run
from fluvial.runtime.systems import MemorySystem

async def hang(word):
    await asyncio.to_thread(threading.Event().wait if word == "stuck" else str, *([] if word == "stuck" else [word]))
    return [word]

pipeline = Pipeline("p", on_error=skip())
words = pipeline.stream("in", value=str)
words.async_flat_map(hang, id="hang", timeout=timedelta(seconds=1)).send_to("out", value=str)
system = MemorySystem()
system.admin().create("in", 1)
writing = system.producer().begin()
writing.append("in", 0, [(None, word, 0, ()) for word in (b"a", b"stuck", b"b")])
writing.commit()
print(run(pipeline, system=system, until="end").written)
"""


@pytest.mark.slow
def test_a_call_in_a_thread_that_never_returns_keeps_neither_a_run_nor_its_process() -> None:
    words = [sys.executable, "-c", LEFT_BEHIND]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout == "{'out': 2}\n"
    assert "calls in threads (asyncio.to_thread) that have not returned are left behind: 1" in ended.stderr


def test_a_loop_waits_for_calls_in_threads_that_return() -> None:
    done: list[int] = []
    go = Event()

    def wait() -> None:
        assert go.wait(60)
        done.append(1)

    async def work() -> None:
        loop = asyncio.get_running_loop()
        loop.run_in_executor(None, wait)
        loop.run_in_executor(None, done.append, 0)
        go.set()

    in_loop(work())
    assert sorted(done) == [0, 1]


@pytest.mark.parametrize("error", [KeyError("k"), None])
def test_calls_in_threads_end_as_they_would_here(error: Exception | None) -> None:
    threads = CallThreads()

    def call(number: int, *, add: int) -> int:
        if error is not None:
            raise error
        return number + add

    futures = [threads.submit(call, number, add=1) for number in range(100)]
    threads.shutdown()
    assert threads.open == 0
    assert [future.exception() for future in futures] == [error] * 100
    if error is None:
        assert [future.result() for future in futures] == list(range(1, 101))
    with pytest.raises(RuntimeError, match="the run is over"):
        threads.submit(call, 1, add=1)


FEW_FILES = """
import gc, os, resource
from fluvial.runtime.kernel.calls.cancellation import begin_loop

begin_loop()[0].close()  # what is imported late is there
_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
for more in range(3):
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) - 1 + more, most))
    try:
        begin_loop()
    except OSError as error:
        print(more, error.strerror)
    gc.collect()
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
"""


def test_a_loop_without_file_descriptors_raises_one_error_and_prints_nothing() -> None:
    limited = subprocess.run([sys.executable, "-c", FEW_FILES], capture_output=True, text=True, check=True)
    assert limited.stderr == ""
    assert limited.stdout.splitlines() == [f"{more} Too many open files" for more in range(3)]


@pytest.mark.parametrize("ending", [KeyboardInterrupt(), SystemExit(3)])
def test_what_ends_the_process_is_no_error_of_a_call(ending: BaseException) -> None:
    error = ValueError("x")
    assert as_error(error) is error
    with pytest.raises(type(ending)) as raised:
        as_error(ending)
    assert raised.value is ending


def test_a_call_that_returns_after_its_timeout_is_too_late_for_all_that() -> None:
    async def stubborn() -> int:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        return 3

    async def called() -> int:
        return await call_with_timeout(stubborn(), 0.01, AbandonedCalls(1, "call", None))

    with pytest.raises(Expired):
        in_loop(called())


def test_calls_that_cancelled_calls_have_made_end_before_the_loop_rests() -> None:
    ended: list[str] = []

    async def function() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            ended.append("function")

    async def begun() -> "asyncio.Task[None]":
        inner = call_with_timeout(function(), 60, AbandonedCalls(1, "inner", None))
        call = asyncio.create_task(call_with_timeout(inner, 60, AbandonedCalls(1, "call", None)))
        await asyncio.sleep(0.01)
        return call

    loop = CallLoop()
    loop.begin()
    call = loop.run(begun())
    call.cancel()
    assert loop.rest()
    assert (call.cancelled(), ended) == (True, ["function"])
    loop.end()


def test_threads_that_do_not_return_are_replaced_between_batches(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(cancellation, "GRACE_SECONDS", 0.05)
    loop, stuck = CallLoop(), Event()
    assert loop.rest()  # there is nothing yet

    async def hang() -> None:
        asyncio.get_running_loop().run_in_executor(None, stuck.wait)

    async def answered() -> int:
        return await asyncio.to_thread(int, "7")

    loop.begin()
    loop.begin()  # once is enough
    loop.run(hang())
    assert loop.rest()
    assert loop.run(answered()) == 7
    stuck.set()
    loop.end()
    loop.end()
    assert "have not returned are left behind: 1" in caplog.text
