"""Asynchronous stream tasks as they are declared, and as they run in a task of the local engine."""

from asyncio import CancelledError
from collections.abc import Iterator
from datetime import timedelta
from threading import Thread
from typing import Any

import pytest

from explained import assert_explains, error_of
from fluvial.dsl import (
    AsyncCollector,
    AsyncStreamTask,
    Envelope,
    MessageError,
    Pipeline,
    PipelineError,
    Tag,
    TaskCallback,
    TaskCoordinator,
    UsageError,
    ValueState,
)
from fluvial.planner import plan
from fluvial.runtime import run
from fluvial.runtime.preflight.unsupported import limitations
from fluvial.runtime.systems import MemorySystem
from fluvial.runtime.testing import PipelineDriver

SECOND = timedelta(seconds=1)
AnyEnvelope = Envelope[Any, str]


class Neither(AsyncStreamTask[Any, str, str]):
    """Handles nothing."""


class Plain(AsyncStreamTask[Any, str, str]):
    """Is not asynchronous."""

    def process(self, *_: Any) -> None:  # type: ignore[override]
        """Do nothing."""


class Passing(AsyncStreamTask[Any, str, str]):
    """Sends the offset of what it is given, and its value aside."""

    aside = Tag("aside", str)

    async def process(
        self, envelope: AnyEnvelope, collector: AsyncCollector[str], coordinator: TaskCoordinator
    ) -> None:
        del coordinator
        collector.send(f"{envelope.stream} {envelope.offset}")
        collector.send(envelope.value, to=self.aside)


class Both(Passing):
    """Has both methods."""

    def begin(self, envelope: Any, collector: Any, coordinator: Any, callback: Any) -> None:
        """Do nothing."""


class Unlimited(Passing):
    """Has no limit."""

    max_in_flight = 0


class Threaded(AsyncStreamTask[Any, str, str]):
    """Is called back by a thread."""

    seen = ValueState(int, 0)

    def begin(
        self,
        envelope: AnyEnvelope,
        collector: AsyncCollector[str],
        coordinator: TaskCoordinator,
        callback: TaskCallback,
    ) -> None:
        del coordinator

        def work() -> None:
            if envelope.value == "wrong":
                callback.fail(ValueError(envelope.value))
            else:
                collector.apply(self.count, envelope.value, collector)
                callback.complete()

        Thread(target=work).start()

    def count(self, value: str, collector: AsyncCollector[str]) -> None:
        self.seen.value += 1
        collector.apply(collector.send, f"{self.seen.value} {value}")


def of(factory: Any, **options: Any) -> Pipeline:
    pipeline = Pipeline("p")
    task: Any = pipeline.task
    stream = task(factory, pipeline.stream("in", value=str), id="x", **options)
    stream.send_to("out", value=str)
    if hasattr(factory, "aside"):
        stream.tagged(factory.aside).send_to("aside", value=str)
    return pipeline


@pytest.mark.parametrize(
    ("factory", "wrong"),
    [
        (Neither, "Neither has neither process nor begin"),
        (Both, "Both has process and begin"),
        (Plain, "Plain.process"),
        (Unlimited, "Unlimited.max_in_flight=0"),
    ],
)
def test_what_is_no_asynchronous_stream_task_is_refused(factory: Any, wrong: str) -> None:
    assert_explains(error_of(lambda: of(factory), PipelineError), wrong, None, "")


def test_it_reads_one_stream() -> None:
    pipeline = Pipeline("p")
    inputs = [pipeline.stream(name, value=str) for name in ("a", "b")]
    error = error_of(lambda: pipeline.task(Passing, inputs, id="x"), PipelineError)
    assert_explains(error, "several inputs=", None, "one stream", "merge(...)")


def test_a_plan_tells_its_limits_and_that_spark_cannot_run_it() -> None:
    planned = plan(of(Passing))
    calls = planned.operator("x-calls")
    assert (calls.label, calls.details) == ("calls of task x", {"max_in_flight": "100", "timeout": "1 min"})
    assert planned.operator("x").value == "str"
    assert [one.subject for one in limitations(planned, "spark")] == ["task x", "calls of task x"]


def test_it_is_told_the_place_of_each_message() -> None:
    with PipelineDriver(of(Passing)) as driver:
        for word in ("tea", "milk"):
            driver.send("in", word)
        assert [message.value for message in driver.read("out")] == ["in 0", "in 1"]
        assert [message.value for message in driver.read("aside")] == ["tea", "milk"]


def written(system: MemorySystem, *words: str) -> MemorySystem:
    system.admin().create("in", 1)
    writing = system.producer().begin()
    writing.append("in", 0, [(None, word.encode(), 0, ()) for word in words])
    writing.commit()
    return system


def test_any_thread_may_call_back() -> None:
    words = [f"w{number}" for number in range(50)]
    report = run(of(Threaded), system=written(MemorySystem(), *words), until="end")
    assert report.written == {"out": 50}


def test_a_failure_that_a_thread_tells_is_that_of_its_message() -> None:
    system = written(MemorySystem(), "tea", "wrong")
    with pytest.raises(MessageError, match="calls of task x failed on the message at in, partition 0, offset 1"):
        run(of(Threaded), system=system, until="end")


class Failing(AsyncStreamTask[Any, str, str]):
    """Tells a failure."""

    def __init__(self, error: Any) -> None:
        self.error = error

    def begin(self, envelope: Any, collector: Any, coordinator: Any, callback: TaskCallback) -> None:
        del envelope, collector, coordinator
        callback.fail(self.error)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (None, r"callback\.fail\(None\)"),
        ("text", r"callback\.fail\('text'\)"),
        (ValueError, r"callback\.fail\(<class 'ValueError'>\)"),
        (StopIteration("over"), "StopIteration"),
        (CancelledError(), "CancelledError"),
    ],
)
def test_whatever_failure_is_reported_fails_its_message_at_once(error: Any, told: str) -> None:
    def failing() -> Failing:
        return Failing(error)

    with PipelineDriver(of(failing)) as driver, pytest.raises(MessageError, match=told):
        driver.send("in", "tea")


class Applying(AsyncStreamTask[Any, str, str]):
    """Applies what is no change yet."""

    async def process(self, envelope: AnyEnvelope, collector: AsyncCollector[str], coordinator: Any) -> None:
        del coordinator
        change: Any = getattr(self, envelope.value)
        collector.apply(change, collector)

    async def awaited(self, collector: AsyncCollector[str]) -> None:
        """Is not awaited."""
        collector.send("awaited")

    def iterated(self, collector: AsyncCollector[str]) -> Iterator[None]:
        """Is not iterated over."""
        yield collector.send("iterated")

    def nested(self, collector: AsyncCollector[str]) -> None:
        """Applies another one as its message counts."""
        change: Any = self.awaited
        collector.apply(change, collector)


@pytest.mark.parametrize(
    ("method", "kind"), [("awaited", "coroutine"), ("iterated", "generator"), ("nested", "coroutine")]
)
def test_a_change_that_would_not_run_fails_its_message(method: str, kind: str) -> None:
    told = rf"collector\.apply got \w+, which returns a {kind}"
    with PipelineDriver(of(Applying)) as driver, pytest.raises(MessageError, match=told):
        driver.send("in", method)


class Late(AsyncStreamTask[Any, str, str]):
    """Never ends."""

    timeout = SECOND
    callbacks: list[TaskCallback]

    def begin(self, envelope: Any, collector: Any, coordinator: Any, callback: TaskCallback) -> None:
        del envelope
        kept.append(callback)
        leaked.extend([collector, coordinator])


kept: list[TaskCallback] = []


def test_a_message_that_takes_too_long_has_failed() -> None:
    kept.clear()
    leaked.clear()
    with PipelineDriver(of(Late)) as driver:
        driver.send("in", "tea")
        with pytest.raises(MessageError, match="calls of task x failed"):
            driver.advance(2 * SECOND)
    kept[0].complete()  # nobody waits any more
    collector, coordinator = leaked
    for late in (lambda: collector.send("late"), coordinator.commit):
        assert "after the call of its message had ended" in str(error_of(late, UsageError))


class Returning(AsyncStreamTask[Any, str, str]):
    """Returns what nobody awaits."""

    def begin(self, envelope: Any, collector: Any, coordinator: Any, callback: TaskCallback) -> Any:
        del envelope, collector, coordinator, callback
        return "a future"


def test_what_begin_returns_is_refused_for_nobody_waits_for_it() -> None:
    with PipelineDriver(of(Returning)) as driver, pytest.raises(MessageError, match="returned 'a future'"):
        driver.send("in", "tea")


class Leaky(AsyncStreamTask[Any, str, str]):
    """Keeps what its first call was given."""

    async def process(self, envelope: Any, collector: Any, coordinator: Any) -> None:
        if envelope.offset == 0:
            leaked.extend([collector, coordinator])
        elif envelope.value == "send":
            leaked[0].send("late")
        else:
            leaked[1].commit()


leaked: list[Any] = []


@pytest.mark.parametrize(("what", "told"), [("send", "a collector was used"), ("commit", "coordinator.commit")])
def test_a_collector_and_a_coordinator_are_of_their_call(what: str, told: str) -> None:
    leaked.clear()
    with PipelineDriver(of(Leaky)) as driver:
        driver.send("in", "tea")
        with pytest.raises(MessageError, match=f"{told} after the call of its message had ended"):
            driver.send("in", what)


class Asking(AsyncStreamTask[Any, str, str]):
    """Asks for the end of the run as its message counts."""

    async def process(self, envelope: AnyEnvelope, collector: AsyncCollector[str], coordinator: Any) -> None:
        collector.send(envelope.value)
        collector.apply(coordinator.shutdown)


def test_a_function_that_is_applied_may_ask_for_something() -> None:
    system = MemorySystem()
    system.admin().create("in", 1)
    writing = system.producer().begin()
    writing.append("in", 0, [(None, b"tea", 1, ())])
    writing.commit()
    report = run(of(Asking), system=system)
    assert (report.shut_down, report.written) == (True, {"out": 1})
