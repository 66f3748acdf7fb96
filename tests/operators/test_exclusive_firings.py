"""What time makes operators emit goes through asynchronous calls many at a time, and messages wait for it, or not."""

import asyncio
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

import pytest

from fluvial.dsl import (
    Batch,
    ClockTimers,
    Collector,
    Context,
    KeyedProcessor,
    KeyedStream,
    Message,
    Pane,
    Pipeline,
    PipelineError,
    Retry,
    StreamTask,
    TaskCoordinator,
    Timer,
    after_count,
    count,
    repeat,
    session,
    skip,
    tumbling,
)
from fluvial.planner import Settings, plan
from fluvial.runtime.preflight.unsupported import caveats
from fluvial.runtime.testing import PipelineDriver

MINUTE, SECOND = timedelta(minutes=1), timedelta(seconds=1)
Steps = list[tuple[str, float]]


def loop_time() -> float:
    return asyncio.get_running_loop().time()


class Service:
    """Takes a second for each call, and notes when it began and how many there were at once."""

    def __init__(self) -> None:
        self.began: list[float] = []
        self.running = self.most = 0

    async def call(self, value: Any) -> list[str]:
        self.began.append(loop_time())
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(1)
        self.running -= 1
        return [f"{value.key if isinstance(value, Pane) else value}"]


def timed(pipeline: Pipeline, steps: Steps) -> KeyedStream[str, int]:
    """The input of a pipeline, whose messages are noted as they are processed."""

    def note(value: int) -> int:
        steps.append((f"message {value}", loop_time()))
        return value

    messages = pipeline.stream("in", key=str, value=int)
    messages.map(note).send_to("seen", value=int)
    return messages


def windows(service: Service, steps: Steps, *, exclusive: bool, most: int = 10) -> Pipeline:
    pipeline = Pipeline("minutes")
    panes = timed(pipeline, steps).window(tumbling(MINUTE), count(), id="minutes", exclusive=exclusive)
    panes.async_flat_map(service.call, id="call", max_in_flight=most).send_to("out")
    return pipeline


def fill(driver: PipelineDriver, keys: int) -> None:
    """A message of each key in the first minute."""
    for number in range(keys):
        driver.send("in", 0, key=f"key-{number}", timestamp=number)


def test_the_calls_of_a_firing_overlap_up_to_max_in_flight() -> None:
    service = Service()
    with PipelineDriver(windows(service, [], exclusive=True)) as driver:
        fill(driver, 95)
        driver.send("in", 1, key="later", timestamp=60_000)
        driver.advance(timedelta(seconds=9))
        assert (len(service.began), service.most) == (95, 10)
        driver.advance(SECOND)
        assert len(driver.read("out")) == 95
    assert service.began == [float(number // 10) for number in range(95)]


def test_messages_wait_until_all_that_has_fired_has_landed() -> None:
    steps: Steps = []
    with PipelineDriver(windows(Service(), steps, exclusive=True)) as driver:
        fill(driver, 25)
        steps.clear()
        for value in (1, 2):
            driver.send("in", value, key="later", timestamp=60_000 + value)
        driver.advance(timedelta(seconds=5))
        assert [message.value for message in driver.read("seen")][-2:] == [1, 2]
    # The first one has made the window fire. The calls of 25 panes take three seconds.
    assert steps == [("message 1", 0), ("message 2", 3)]


def test_messages_that_are_read_together_wait_too() -> None:
    steps: Steps = []
    with PipelineDriver(windows(Service(), steps, exclusive=True)) as driver:
        fill(driver, 5)
        steps.clear()
        driver.records.send("in", [(b"later", b"%d" % value, 60_000 * value, ()) for value in (1, 2, 3)], partition=0)
        driver.advance(timedelta(seconds=5))
    assert steps == [("message 1", 0), ("message 2", 1), ("message 3", 2)]


def test_messages_are_processed_meanwhile_where_a_window_is_not_exclusive() -> None:
    steps: Steps = []
    seldom = Settings(commit_interval=MINUTE)  # a commit waits for calls, and messages for it
    with PipelineDriver(windows(Service(), steps, exclusive=False), settings=seldom) as driver:
        fill(driver, 95)  # more than are handed over at once
        driver.advance(SECOND)
        steps.clear()
        for value in range(5):
            driver.send("in", value, key="later", timestamp=60_000 + value)
            driver.advance(SECOND)
        driver.advance(5 * SECOND)
        assert len(driver.read("out")) == 95
        driver.end()  # they are in the next window
        assert len(driver.read("out")) == 96
    assert steps == [(f"message {value}", value + 1) for value in range(5)]


@pytest.mark.parametrize("options", [{"lateness": SECOND}, {"trigger": after_count(1000)}, {"time": "processing"}])
def test_a_window_that_messages_may_come_to_while_it_fires_hands_all_panes_over_before(options: Any) -> None:
    steps: Steps = []
    pipeline, service = Pipeline("minutes"), Service()
    panes = timed(pipeline, steps).window(tumbling(MINUTE), count(), id="w", exclusive=False, **options)
    panes.async_flat_map(service.call, id="call", max_in_flight=10).send_to("out")
    seldom = Settings(commit_interval=timedelta(hours=1))
    with PipelineDriver(pipeline, settings=seldom) as driver:
        fill(driver, 45)
        driver.advance(timedelta(seconds=59.5) if options == {"time": "processing"} else SECOND)
        steps.clear()
        driver.send("in", 1, key="later", timestamp=60_000)
        driver.advance(SECOND / 2)
        driver.send("in", 2, key="later", timestamp=60_000)
        driver.advance(timedelta(seconds=10))
    # Twice as many are handed over as may run at once; the last of them once 25 have landed.
    assert [at - steps[0][1] for _, at in steps][1] >= 3


class Reminder(KeyedProcessor[str, int, str]):
    """Tells of each message in a second, by the clock."""

    clock = ClockTimers()

    def on_message(self, message: Message[int], context: Context[str]) -> None:
        del context
        self.clock.set(f"{message.value}", self.clock.now + 1000)

    def on_timer(self, timer: Timer, context: Context[str]) -> Iterable[str]:
        del context
        return [timer.name]


class Silent(KeyedProcessor[str, int, str]):
    """Sets no timers."""

    def on_message(self, message: Message[int], context: Context[str]) -> None:
        """Do nothing."""


class Ticking(StreamTask[str, int, str]):
    """Sends a word every second."""

    def process(self, envelope: Any, collector: Any, coordinator: Any) -> None:
        """Do nothing."""

    def window(self, collector: Collector[str], coordinator: TaskCoordinator) -> None:
        del coordinator
        collector.send("tick")


class Plain(StreamTask[str, int, str]):
    """Has `process` alone."""

    def process(self, envelope: Any, collector: Any, coordinator: Any) -> None:
        """Do nothing."""


def reminders(service: Service, steps: Steps, *, exclusive: bool) -> Pipeline:
    pipeline = Pipeline("reminders")
    reminded = timed(pipeline, steps).process(Reminder(), id="remind", exclusive=exclusive)
    reminded.async_flat_map(service.call, id="call").send_to("out")
    return pipeline


def ticks(service: Service, steps: Steps, *, exclusive: bool) -> Pipeline:
    pipeline = Pipeline("ticks")
    inputs = timed(pipeline, steps)
    sent = pipeline.task(Ticking, inputs, id="tick", window=SECOND, state="task", exclusive=exclusive)
    sent.async_flat_map(service.call, id="call").send_to("out")
    return pipeline


@pytest.mark.parametrize("make", [reminders, ticks])
@pytest.mark.parametrize(("exclusive", "processed_at"), [(True, 2), (False, 1.5)])
def test_messages_wait_for_timers_and_windows_of_stream_tasks_too(
    make: Callable[..., Pipeline], exclusive: bool, processed_at: float
) -> None:
    steps: Steps = []
    seldom = Settings(commit_interval=MINUTE)  # a commit waits for calls, and messages for it
    with PipelineDriver(make(Service(), steps, exclusive=exclusive), settings=seldom) as driver:
        driver.send("in", 1, key="a")
        driver.advance(1.5 * SECOND)  # at one second it has fired, and its call takes until two
        driver.send("in", 2, key="a")
        driver.advance(SECOND / 2)
    assert steps == [("message 1", 0), ("message 2", processed_at)]


@pytest.mark.parametrize(("exclusive", "processed_at"), [(True, 1), (False, 0)])
def test_messages_wait_for_rows_without_a_partner_too(exclusive: bool, processed_at: float) -> None:
    steps: Steps = []
    pipeline, service = Pipeline("left"), Service()
    left, right = timed(pipeline, steps), pipeline.stream("right", key=str, value=int)
    joined = left.join(right, lambda one, _: f"{one}", id="j", within=SECOND, how="left", exclusive=exclusive)
    joined.async_flat_map(service.call, id="call").send_to("out", value=str)
    with PipelineDriver(pipeline) as driver:
        driver.send("in", 1, key="a", timestamp=0)
        driver.send("right", 0, key="b", timestamp=90_000)
        driver.send("in", 2, key="c", timestamp=90_000)  # time moves on: the first row has joined none
        driver.send("in", 3, key="c", timestamp=90_000)
        driver.advance(SECOND)
        assert {message.value for message in driver.read("out")} == {"1"}
    assert steps == [("message 1", 0), ("message 2", 0), ("message 3", processed_at)]


def test_timers_wait_for_what_has_fired_before() -> None:
    """One operation at a time: a tick finds the window in flight, and comes once that has landed."""
    service = Service()
    with PipelineDriver(ticks(service, [], exclusive=True)) as driver:
        driver.advance(timedelta(seconds=5.5))
    assert service.most == 1
    assert service.began == [1, 2, 3, 4, 5]


def test_early_panes_are_of_their_messages() -> None:
    """What a message makes a window show is in flight beside other messages, as calls of messages are."""
    service, pipeline = Service(), Pipeline("early")
    inputs = pipeline.stream("in", key=str, value=int)
    panes = inputs.window(tumbling(MINUTE), count(), id="w", trigger=repeat(after_count(1)))
    panes.async_flat_map(service.call, id="call").send_to("out")
    with PipelineDriver(pipeline) as driver:
        for number in range(5):
            driver.send("in", number, key=f"{number}", timestamp=0)
        driver.advance(SECOND)
        assert (len(driver.read("out")), service.most) == (5, 5)


def test_a_pane_that_fails_fails_alone_with_timeouts_and_attempts_of_its_own() -> None:
    tries: dict[str, list[float]] = {}

    async def call(pane: Pane[str, int]) -> list[str]:
        tries.setdefault(pane.key, []).append(loop_time())
        if pane.key == "slow":
            await asyncio.sleep(10)
        if pane.key == "wrong" or (pane.key == "twice" and len(tries["twice"]) == 1):
            raise OSError("down")
        return [pane.key]

    pipeline = Pipeline("failing", on_error=skip())
    panes = pipeline.stream("in", key=str, value=int).window(tumbling(MINUTE), count(), id="w")
    retry = Retry(attempts=2, delay=SECOND, jitter=0)
    panes.async_flat_map(call, id="call", timeout=3 * SECOND, retry=retry, order="none").send_to("out")
    with PipelineDriver(pipeline) as driver:
        for number, key in enumerate(("slow", "wrong", "good", "twice")):
            driver.send("in", 0, key=key, timestamp=number)
        driver.send("in", 0, key="later", timestamp=60_000)
        driver.advance(MINUTE)
        assert [message.value for message in driver.read("out")] == ["good", "twice"]
        assert driver.report().failed == {"call": 2}
        driver.send("in", 0, key="later", timestamp=60_001)  # the task goes on
        driver.advance(MINUTE)
    assert tries == {"slow": [0, 4], "wrong": [0, 1], "good": [0], "twice": [0, 1]}


@pytest.mark.parametrize("exclusive", [True, False])
def test_panes_of_a_key_keep_their_order_across_firings(exclusive: bool) -> None:
    async def call(pane: Pane[str, int]) -> list[int]:
        await asyncio.sleep(10 if pane.window.start == 0 else 1)
        return [pane.window.start]

    pipeline = Pipeline("in-order")
    panes = pipeline.stream("in", key=str, value=int).window(tumbling(MINUTE), count(), id="w", exclusive=exclusive)
    panes.async_flat_map(call, id="call").send_to("out")
    with PipelineDriver(pipeline) as driver:
        for minute in range(4):
            driver.send("in", 0, key="a", timestamp=60_000 * minute)
        driver.advance(timedelta(seconds=20))
        assert [message.value for message in driver.read("out")] == [0, 60_000, 120_000]


@pytest.mark.parametrize("exclusive", [True, False])
def test_a_commit_waits_for_what_has_fired_and_a_crash_loses_and_doubles_nothing(exclusive: bool) -> None:
    service = Service()
    pipeline = windows(service, [], exclusive=exclusive)
    settings = Settings(guarantee="exactly_once", commit_interval=timedelta(seconds=1.5))
    with PipelineDriver(pipeline, commits="timed", settings=settings) as driver:
        fill(driver, 25)
        driver.advance(2 * SECOND)
        driver.send("in", 1, key="later", timestamp=60_000)
        driver.advance(1.2 * SECOND)
        driver.commit()  # none: the calls of the second ten are in flight
        assert driver.read("out") == []
        driver.crash()
        driver.restart()
        driver.advance(timedelta(seconds=10))
        driver.end()
        assert sorted(message.value for message in driver.read("out")) == sorted(
            [*(f"key-{number}" for number in range(25)), "later"]
        )


def refused(make: Callable[[KeyedStream[str, int], Pipeline], Any]) -> str:
    pipeline = Pipeline("p")
    with pytest.raises(PipelineError) as raised:
        make(pipeline.stream("in", key=str, value=int), pipeline)
    return str(raised.value)


def test_where_nothing_is_emitted_by_time_the_option_is_refused() -> None:
    wrong = refused(lambda stream, _: stream.process(Silent(), id="s", exclusive=False))
    assert "process 's': exclusive=False and Silent, which has no on_timer" in wrong
    wrong = refused(lambda stream, pipeline: pipeline.task(Plain, stream, id="t", state="task", exclusive=False))
    assert "task 't': exclusive=False and Plain, which has no method window" in wrong

    def inner(stream: Any, pipeline: Pipeline) -> None:
        right = pipeline.stream("right", key=str, value=int)
        stream.join(right, lambda one, _: one, id="j", within=SECOND, exclusive=False)

    assert """join 'j': exclusive=False with how="inner\"""" in refused(inner)
    table = lambda stream, pipeline: stream.join(  # noqa: E731
        pipeline.table("t", key=str, value=int), lambda one, _: one, id="j", exclusive=False
    )
    assert "join 'j' with a table has exclusive=" in refused(table)
    wrong = refused(lambda stream, _: stream.window(tumbling(MINUTE), count(), id="w", exclusive="no"))  # type: ignore[arg-type]
    assert "window 'w': exclusive='no'" in wrong


def test_a_plan_shows_it_and_tells_where_it_is_of_no_effect() -> None:
    planned = plan(windows(Service(), [], exclusive=False))
    assert planned.operator("minutes").details["exclusive"] == "no"
    assert "exclusive" not in plan(windows(Service(), [], exclusive=True)).operator("minutes").details
    subjects = {engine: [one.subject for one in caveats(planned, engine)] for engine in ("local", "spark")}
    assert subjects == {"local": [], "spark": ["exclusive=False of window minutes"]}
    pipeline = Pipeline("no-calls")
    panes = pipeline.stream("in", key=str, value=int).window(tumbling(MINUTE), count(), id="w", exclusive=False)
    by_key = panes.partition_by(lambda pane: pane.key, id="again", key_type=str)
    by_key.async_flat_map(Service().call, id="call").send_to("out")
    assert [one.subject for one in caveats(plan(pipeline), "local")] == ["exclusive=False of window w"]


@pytest.mark.parametrize("exclusive", [True, False])
def test_a_plan_tells_what_makes_messages_wait_often(exclusive: bool) -> None:
    pipeline, service = Pipeline("often"), Service()
    left, right = (pipeline.stream(name, key=str, value=int) for name in ("left", "right"))
    fired: list[Any] = [
        left.window(session(SECOND), count(), id="session", exclusive=exclusive),
        left.window(tumbling(SECOND), count(), id="tumbling", exclusive=exclusive),
        left.process(Reminder(), id="timers", exclusive=exclusive),
        left.process(Silent(), id="silent"),
        left.join(right, lambda one, _: one, id="outer", within=SECOND, how="outer", exclusive=exclusive),
        left.join(right, lambda one, _: one, id="inner", within=SECOND),
    ]
    for number, stream in enumerate(fired):
        stream.async_flat_map(service.call, id=f"call-{number}").send_to(f"out-{number}")
    left.window(session(SECOND), count(), id="no-calls").send_to("plain")
    found = [one.subject for one in caveats(plan(pipeline), "local") if one.reason.startswith("fires with nearly")]
    assert found == (["window session", "process timers", "join outer"] if exclusive else [])


@pytest.mark.parametrize(("exclusive", "sent_at"), [(True, 0), (False, 10)])
def test_a_batch_waits_for_no_company_that_cannot_come(exclusive: bool, sent_at: float) -> None:
    sent: list[tuple[float, int]] = []

    async def call(panes: list[Pane[str, int]]) -> list[list[str]]:
        sent.append((loop_time(), len(panes)))
        return [[pane.key] for pane in panes]

    pipeline = Pipeline("batches")
    panes = pipeline.stream("in", key=str, value=int).window(tumbling(MINUTE), count(), id="w", exclusive=exclusive)
    panes.async_flat_map(call, id="call", batch=Batch(size=50, delay=10 * SECOND)).send_to("out")
    seldom = Settings(commit_interval=timedelta(hours=1))
    with PipelineDriver(pipeline, settings=seldom) as driver:
        fill(driver, 7)
        driver.send("in", 1, key="later", timestamp=60_000)
        driver.advance(MINUTE)
    assert sent == [(sent_at, 7)]


def test_in_the_middle_of_a_firing_time_goes_on_in_front_of_a_window_behind_several_inputs() -> None:
    """What comes then is late as it would be without a pause."""
    steps: Steps = []
    pipeline, service = Pipeline("merged"), Service()
    other = pipeline.stream("other", key=str, value=int, idle_after=timedelta(days=1))
    panes = timed(pipeline, steps).merge(other).window(tumbling(MINUTE), count(), id="w", exclusive=False)
    panes.async_flat_map(service.call, id="call", max_in_flight=10).send_to("out")
    seldom = Settings(commit_interval=timedelta(hours=1))
    with PipelineDriver(pipeline, settings=seldom) as driver:
        fill(driver, 95)
        steps.clear()
        driver.send("other", 0, key="a", timestamp=60_000)
        driver.send("in", 1, key="a", timestamp=60_000)  # both inputs are there: the window fires
        driver.advance(SECOND)
        driver.send("other", 0, key="a", timestamp=200_000)
        driver.send("in", 2, key="a", timestamp=200_000)
        driver.send("in", 3, key="late", timestamp=70_000)
        driver.advance(MINUTE)
        assert steps == [("message 1", 0), ("message 2", 1), ("message 3", 1)]
        assert driver.report().late == {"w": 1}
        assert len(driver.read("out")) == 96


class Bell(KeyedProcessor[str, int, str]):
    """Notes its messages, but for zeros, and the timer that the first of them sets for two minutes past."""

    def __init__(self, heard: list[str]) -> None:
        self.heard = heard

    def on_message(self, message: Message[int], context: Context[str]) -> None:
        if message.value:
            self.heard.append(f"message {message.value}")
        if message.value == 1:
            context.timers.set("bell", 120_000)

    def on_timer(self, timer: Timer, context: Context[str]) -> None:
        del context
        self.heard.append(timer.name)


def test_no_message_comes_before_a_timer_beside_a_window_in_the_middle_of_its_firing() -> None:
    heard, service, pipeline = list[str](), Service(), Pipeline("beside")
    inputs = timed(pipeline, [])
    inputs.process(Bell(heard), id="bell").send_to("bells", value=str)
    panes = inputs.window(tumbling(MINUTE), count(), id="w", exclusive=False)
    panes.async_flat_map(service.call, id="call", max_in_flight=10).send_to("out")
    seldom = Settings(commit_interval=timedelta(hours=1))
    with PipelineDriver(pipeline, settings=seldom) as driver:
        fill(driver, 95)
        for value, at in ((1, 60_000), (2, 200_000), (3, 200_001)):  # the first makes the window fire
            driver.send("in", value, key="a", timestamp=at)
        driver.advance(MINUTE)
    assert heard == ["message 1", "message 2", "bell", "message 3"]


def test_messages_that_fire_one_by_one_keep_no_clock_out() -> None:
    heard: list[float] = []

    def note(word: str) -> str:
        heard.append(loop_time())
        return word

    pipeline, service = Pipeline("fair"), Service()
    inputs = timed(pipeline, [])
    inputs.window(session(SECOND), count(), id="w").async_flat_map(service.call, id="call").send_to("out")
    pipeline.task(Ticking, inputs, id="tick", window=5 * SECOND, state="task").map(note).send_to("ticks")
    with PipelineDriver(pipeline) as driver:
        records = [(b"a", b"1", 10_000 * number, ()) for number in range(20)]
        driver.records.send("in", records, partition=0)  # each makes the session before it fire
        driver.advance(12 * SECOND)
    assert heard == [5, 10]
