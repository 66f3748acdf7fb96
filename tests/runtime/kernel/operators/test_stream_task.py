"""A stream task in a task of the local engine: what it is told, when it is called, and what counts of a call."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from fluvial.dsl import (
    AsyncCollector,
    AsyncStreamTask,
    Collector,
    Context,
    Envelope,
    KeyedProcessor,
    Message,
    MessageError,
    Pipeline,
    StreamTask,
    Tag,
    TaskCoordinator,
    Timer,
    UsageError,
    ValueState,
    dead_letter,
    skip,
)
from fluvial.planner import Settings, plan
from fluvial.runtime.kernel.compiler.compiler import compile_stage
from fluvial.runtime.kernel.stage import StageTask
from fluvial.runtime.kernel.task_requests import NOWHERE
from fluvial.runtime.state.memory import MemoryStore
from fluvial.runtime.testing import PipelineDriver

SECOND = timedelta(seconds=1)
Any_ = Envelope[Any, Any]


class Doing(StreamTask[Any, Any, Any]):
    """Calls `act` with all that it is given, by the name of the method."""

    aside = Tag("aside", str)
    calls = ValueState(int, 0)

    def __init__(self, act: Callable[..., None]) -> None:
        self.act = act

    def process(self, envelope: Any_, collector: Collector[Any], coordinator: TaskCoordinator) -> None:
        self.act(self, envelope, collector, coordinator)


class Hooked(Doing):
    """Has every other method."""

    def init(self, context: Any) -> None:
        self.act(self, "init", context)

    def window(self, collector: Collector[Any], coordinator: TaskCoordinator) -> None:
        self.act(self, "window", collector, coordinator)

    def on_end_of_stream(self, collector: Collector[Any], coordinator: TaskCoordinator) -> None:
        self.act(self, "on_end_of_stream", collector, coordinator)

    def close(self) -> None:
        self.act(self, "close")


def doing(act: Callable[..., None], kind: type[Doing] = Doing, **options: Any) -> Pipeline:
    pipeline = Pipeline("p", **options)
    window = SECOND if kind is Hooked else None
    task = pipeline.task(lambda: kind(act), pipeline.stream("in", value=str), id="x", window=window)
    task.send_to("out", value=str)
    task.tagged(Doing.aside).send_to("aside", value=str)
    return pipeline


def out(driver: PipelineDriver) -> list[Any]:
    return [(message.key, message.value, message.timestamp) for message in driver.read("out")]


def test_a_message_has_its_place_and_its_key() -> None:
    seen = list[Any]()
    with PipelineDriver(doing(lambda _, envelope, *__: seen.append(envelope)), partitions=2) as driver:
        driver.send("in", "a", key=b"k", timestamp=7, partition=1, headers=(("h", b"1"),))
        driver.send("in", "b", timestamp=8, partition=1)
    assert seen == [Envelope(b"k", "a", 7, (("h", b"1"),), 0, "in", 1, 0), Envelope(None, "b", 8, (), 0, "in", 1, 1)]


class Returning(StreamTask[Any, str, str]):
    """Returns what it is to send, as a processor does."""

    def process(self, envelope: Any, collector: Any, coordinator: Any) -> Any:
        del collector, coordinator
        return [envelope.value]


class ReturningLater(AsyncStreamTask[Any, str, str]):
    """Does so asynchronously."""

    async def process(self, envelope: Any, collector: Any, coordinator: Any) -> Any:
        del collector, coordinator
        return [envelope.value]


@pytest.mark.parametrize("kind", [Returning, ReturningLater])
def test_a_task_that_returns_what_it_is_to_send_fails_the_message(kind: Any) -> None:
    pipeline = Pipeline("p")
    pipeline.task(kind, pipeline.stream("in", value=str), id="x").send_to("out", value=str)
    with PipelineDriver(pipeline) as driver, pytest.raises(MessageError, match=r"process .* returned \['a'\]"):
        driver.send("in", "a")


class Quiet(KeyedProcessor[str, str, str]):
    """Passes a message on, and tells later that it has been there."""

    def on_message(self, message: Message[str], context: Context[str]) -> list[str]:
        context.timers.set(message.value, message.timestamp + 10)
        return [message.value]

    def on_timer(self, timer: Timer, context: Context[str]) -> list[str]:
        return [f"{timer.name} {context.key}"]


def test_what_an_operator_before_has_made_has_no_place() -> None:
    seen = list[Any]()
    pipeline = Pipeline("p")
    words = pipeline.stream("in", key=str, value=str)
    both = [words.process(Quiet(), id="quiet"), words.map(str.upper)]
    pipeline.task(lambda: Doing(lambda _, envelope, *__: seen.append(envelope)), both, id="x").send_to("out", value=str)
    with PipelineDriver(pipeline) as driver:
        driver.send("in", "a", key="k", timestamp=0)
        driver.send("in", "b", key="k", timestamp=50)
    places = {(one.input, one.value): (one.stream, one.partition, one.offset) for one in seen}
    assert places[0, "a"] == places[0, "a k"] == tuple(NOWHERE)
    assert (places[1, "A"], places[1, "B"]) == (("in", 0, 0), ("in", 0, 1))


async def echo(value: str) -> list[str]:
    return [value]


def test_a_message_whose_call_has_ended_has_its_place() -> None:
    seen = list[Any]()
    pipeline = Pipeline("p")
    called = pipeline.stream("in", value=str).async_flat_map(echo, id="echo")
    pipeline.task(lambda: Doing(lambda _, envelope, *__: seen.append(envelope)), called, id="x").send_to(
        "out", value=str
    )
    with PipelineDriver(pipeline) as driver:
        for word in "abc":
            driver.send("in", word)
    assert sorted((one.value, one.offset) for one in seen) == [("a", 0), ("b", 1), ("c", 2)]


def test_methods_are_called_by_the_clock_and_at_ends() -> None:
    calls = list[Any]()

    def act(task: Doing, *given: Any) -> None:
        what = given[0].value if isinstance(given[0], Envelope) else given[0]
        calls.append(what)
        if what != "close":
            task.calls.value += 1
        if len(given) == 3:
            given[1].send(f"{what} {task.calls.value}")
            given[1].send(what, to=Doing.aside)

    with PipelineDriver(doing(act, Hooked), start=100) as driver:
        driver.send("in", "word", key=b"k", timestamp=7)
        driver.advance(2.5 * SECOND)
        driver.end()
        assert out(driver) == [
            (b"k", "word 2", 7),
            (None, "window 3", 1100),
            (None, "window 4", 2100),
            (None, "on_end_of_stream 5", 7),
        ]
        assert [one.value for one in driver.read("aside")] == ["word", "window", "window", "on_end_of_stream"]
        driver.advance(2 * SECOND)
    assert calls == ["init", "word", "window", "window", "on_end_of_stream", "close"]


def test_times_of_the_clock_that_have_passed_are_one_call() -> None:
    calls = list[Any]()
    with PipelineDriver(doing(lambda _, *given: calls.append(given[0]), Hooked)) as driver:
        (task,) = driver._tasks
        task.set_clock(5_500, None)
        assert calls == ["init", "window"]
        task.set_clock(5_999, None)
        task.set_clock(6_000, None)
        assert calls == ["init", "window", "window"]


def test_a_call_that_fails_leaves_nothing() -> None:
    def act(task: Doing, what: Any, *given: Any) -> None:
        if not given or what == "init":
            return
        task.calls.value += 1
        given[0].send(str(task.calls.value))
        given[1].shutdown("all")
        if what == "window" or what.value == "wrong":
            raise ValueError("no")
        given[1].shutdown()

    with PipelineDriver(doing(act, Hooked, on_error=skip())) as driver:
        driver.advance(2 * SECOND)
        driver.send("in", "wrong")
        assert (out(driver), driver.shut_down) == ([], False)
        assert driver.report().failed == {"x": 3}
        driver.send("in", "right")
        assert ([value for _, value, _ in out(driver)], driver.shut_down) == (["1"], True)
        with pytest.raises(UsageError, match="stream tasks have shut the run down"):
            driver.send("in", "more")


class Ticking(StreamTask[Any, str, str]):
    """Has a method for the clock, and none for an end."""

    def process(self, envelope: Any_, collector: Collector[str], coordinator: TaskCoordinator) -> None:
        del coordinator
        collector.send(envelope.value)

    def window(self, collector: Collector[str], coordinator: TaskCoordinator) -> None:
        del coordinator
        collector.send("window")


def test_nothing_is_called_by_the_clock_behind_the_end_of_input() -> None:
    pipeline = Pipeline("p")
    task = pipeline.task(Ticking, pipeline.stream("in", value=str), id="x", window=SECOND)
    task.partition_by(str, id="by", key_type=str).send_to("out", value=str)
    with PipelineDriver(pipeline) as driver:
        driver.send("in", "word")
        driver.advance(SECOND)
        driver.end()
        driver.advance(2 * SECOND)
        assert [one.value for one in driver.read("out")] == ["word", "window"]


class Noting(Doing):
    """Notes in a state that does not last when it began."""

    began = ValueState(str, ttl=SECOND)

    def init(self, context: Any) -> None:
        del context
        if self.calls.value:
            self.began.value = "again"


def test_what_init_sets_lasts_from_the_time_of_the_last_commit() -> None:
    def act(task: Any, _: Any_, collector: Collector[Any], __: TaskCoordinator) -> None:
        task.calls.value += 1
        collector.send(str(task.began.value))

    with PipelineDriver(doing(act, Noting)) as driver:
        driver.send("in", "a", timestamp=9_000)
        driver.restart()
        driver.send("in", "b", timestamp=9_500)
        driver.send("in", "c", timestamp=10_500)
        assert [value for _, value, _ in out(driver)] == ["None", "again", "None"]


def test_a_method_that_fails_is_named() -> None:
    def act(_: Doing, what: Any, *__: Any) -> None:
        if what == "window":
            raise ValueError("no")

    with PipelineDriver(doing(act, Hooked)) as driver, pytest.raises(MessageError) as raised:
        driver.advance(2 * SECOND)
    assert "task x failed on its call of window, at time 1000: ValueError: no" in str(raised.value)


def test_a_method_that_fails_is_a_letter_without_key() -> None:
    def act(_: Doing, what: Any, *__: Any) -> None:
        if what == "window":
            raise ValueError("no")

    with PipelineDriver(doing(act, Hooked, on_error=dead_letter())) as driver:
        driver.advance(SECOND)
        (letter,) = driver.dead_letters
    assert (letter.key, letter.value, dict(letter.headers)["fluvial-method"]) == (None, None, b"window")


def test_an_init_that_fails_is_reported_with_its_line() -> None:
    def act(_: Doing, what: Any, *__: Any) -> None:
        if what == "init":
            raise ValueError("no")

    with pytest.raises(MessageError) as raised:
        PipelineDriver(doing(act, Hooked))
    assert "task x: init failed: ValueError: no\n  at " in str(raised.value)


def test_a_close_that_fails_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    def act(_: Doing, what: Any, *__: Any) -> None:
        if what == "close":
            raise ValueError("no")

    with PipelineDriver(doing(act, Hooked)):
        pass
    assert "task x: close failed" in caplog.text


@pytest.mark.parametrize(
    ("act", "wrong"),
    [
        (lambda _, *given: given[1].send(1, to=Tag("other", int)), "is no tag of Doing"),
        (lambda _, *given: given[2].commit("both"), "coordinator.commit('both')"),
        (lambda task, *_: task.kept.send("late"), "collector.send after the call"),
    ],
)
def test_wrong_calls_are_errors_of_their_message(act: Callable[..., None], wrong: str) -> None:
    def keep(task: Any, envelope: Any_, *given: Any) -> None:
        if envelope.offset == 0:
            task.kept = _Copy(given[0])
        else:
            act(task, envelope, *given)

    with PipelineDriver(doing(keep)) as driver:
        driver.send("in", "a")
        with pytest.raises(MessageError) as raised:
            driver.send("in", "b")
    assert wrong in str(raised.value)


class _Copy:
    """A collector as it is behind its call."""

    def __init__(self, collector: Any) -> None:
        self.kept = type(collector)()

    def send(self, value: Any) -> None:
        self.kept.send(value)


def test_state_of_the_whole_task_is_there_after_a_crash() -> None:
    def act(task: Doing, envelope: Any_, collector: Collector[Any], _: TaskCoordinator) -> None:
        task.calls.value += 1
        collector.send(f"{envelope.key} {task.calls.value}")

    with PipelineDriver(doing(act), partitions=2, commits="timed") as driver:
        for key in (b"a", b"b", b"c"):
            driver.send("in", "", key=key, partition=0)
        driver.send("in", "", key=b"d", partition=1)
        driver.commit()
        driver.send("in", "", key=b"lost", partition=0)
        driver.restart()
        driver.commit()
        values = [value for _, value, _ in out(driver)]
    assert sorted(values) == ["b'a' 1", "b'b' 2", "b'c' 3", "b'd' 1", "b'lost' 4"]


def test_an_engine_that_takes_no_requests_refuses_them() -> None:
    pipeline = doing(lambda _, __, ___, coordinator: coordinator.commit())
    planned = plan(pipeline, settings=Settings())
    program = compile_stage(planned, planned.stages[0].id, {"in": "source"}, trailers=False)
    task = StageTask(program, MemoryStore(), empty=True)
    with pytest.raises(MessageError, match=r"coordinator.commit on Spark"):
        task.feed("in", 0, [0], [(None, b"a", 0, ())])


class Waiting(AsyncStreamTask[Any, str, str]):
    """Waits for ever with each message, and tells as it is closed whether its calls have been cancelled."""

    def __init__(self, closed: list[bool]) -> None:
        self.closed = closed
        self.calls: list[asyncio.Task[Any] | None] = []

    async def process(self, envelope: Any_, collector: AsyncCollector[str], coordinator: TaskCoordinator) -> None:
        del envelope, collector, coordinator
        self.calls.append(asyncio.current_task())
        await asyncio.sleep(3600)

    def close(self) -> None:
        self.closed += [call is not None and call.cancelling() > 0 for call in self.calls]


def test_a_task_is_closed_once_its_calls_are_cancelled() -> None:
    closed, pipeline = list[bool](), Pipeline("p")
    pipeline.task(lambda: Waiting(closed), pipeline.stream("in", value=str), id="x").send_to("out", value=str)
    with PipelineDriver(pipeline) as driver:
        driver.send("in", "a")
        driver.send("in", "b")
    assert closed == [True, True]
