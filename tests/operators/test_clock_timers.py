"""Timers of processors by the clock: they fire though nothing comes, once, and survive crashes."""

from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engines.spark_in_process import queries
from explained import assert_explains
from fluvial.dsl import (
    ClockTimers,
    Context,
    KeyedProcessor,
    Message,
    Pipeline,
    PipelineError,
    Timer,
    ValueState,
    collect,
    skip,
    tumbling,
)
from fluvial.planner import plan
from fluvial.runtime.preflight.unsupported import caveats
from fluvial.runtime.systems.contract import RecordBatch
from fluvial.runtime.testing import PipelineDriver

START = 1_700_000_000_000
HOUR = 3_600_000


def later(millis: int) -> timedelta:
    return timedelta(milliseconds=millis)


class Alarm(KeyedProcessor[str, int, str]):
    """Each value is a wait in ms, under the name "a" or "b"; a timer tells when it rang. -1 deletes, -2 fails."""

    rung = ValueState(int, 0)
    clock = ClockTimers()

    def on_message(self, message: Message[int], context: Context[str]) -> Iterable[str]:
        assert context.key == message.key
        name = "a" if message.value % 2 else "b"
        if message.value >= 0:
            self.clock.set(name, self.clock.now + message.value)
        else:
            self.clock.delete("a")
        if message.value == -2:
            raise ValueError("no")
        return ()

    def on_timer(self, timer: Timer, context: Context[str]) -> Iterator[str]:
        self.rung.value += 1
        yield f"{timer.name} {timer.time_is} {self.rung.value} of {context.key} at {timer.time - START}"


def alarms(**options: Any) -> Pipeline:
    pipeline = Pipeline("alarms", **options)
    pipeline.stream("waits", key=str, value=int).process(Alarm(), id="alarm").send_to("rings")
    return pipeline


def rings(driver: PipelineDriver) -> list[Any]:
    return [message.value for message in driver.read("rings")]


def test_a_timer_rings_at_its_time_though_nothing_comes() -> None:
    with PipelineDriver(alarms(), start=START) as driver:
        driver.send("waits", 501, key="k", timestamp=5)
        driver.advance(later(500))
        assert rings(driver) == []
        driver.advance(later(1))
        assert rings(driver) == ["a processing 1 of k at 501"]
        assert driver.read("rings")[0].timestamp == START + 501
        driver.advance(later(HOUR))
        assert len(rings(driver)) == 1


def test_it_is_put_off_taken_back_and_kept() -> None:
    with PipelineDriver(alarms(), start=START) as driver:
        driver.send("waits", 101, key="k", timestamp=0)
        driver.send("waits", 301, key="k", timestamp=0)
        driver.send("waits", 200, key="k", timestamp=0)
        driver.send("waits", 7, key="gone", timestamp=0)
        driver.send("waits", -1, key="gone", timestamp=0)
        driver.advance(later(150))
        driver.restart()
        driver.advance(later(100))
        assert rings(driver) == ["b processing 1 of k at 200"]
        driver.restart()
        assert len(rings(driver)) == 1
        driver.advance(later(2 * HOUR))
        assert rings(driver)[1:] == ["a processing 2 of k at 301"]


def test_what_was_due_while_nothing_ran_rings_at_the_next_start() -> None:
    with PipelineDriver(alarms(), start=START) as driver:
        driver.send("waits", 11, key="k", timestamp=0)
        driver.crash()
        driver._loop._micros += HOUR * 1000
        driver.restart()
        assert rings(driver) == ["a processing 1 of k at 11"]


def test_the_end_of_input_lets_all_ring() -> None:
    with PipelineDriver(alarms(), start=START) as driver:
        driver.send("waits", HOUR, key="k", timestamp=0)
        driver.end()
        assert rings(driver) == [f"b processing 1 of k at {HOUR}"]


def test_a_call_that_fails_sets_nothing() -> None:
    with PipelineDriver(alarms(on_error=skip()), start=START) as driver:
        driver.send("waits", 11, key="k", timestamp=0)
        driver.send("waits", -2, key="k", timestamp=0)
        driver.advance(later(11))
        assert rings(driver) == ["a processing 1 of k at 11"]
        assert driver.report().failed == {"alarm": 1}


WAITS = st.lists(
    st.tuples(st.sampled_from("kl"), st.integers(0, 100) | st.just(-1), st.integers(0, 60), st.booleans()), max_size=20
)


def expected(waits: list[tuple[str, int, int, bool]]) -> list[tuple[int, str, str]]:
    """When which timers ring, by a plain list."""
    now, rung = 0, []
    due: dict[tuple[str, str], int] = {}

    def ring(until: int) -> None:
        for (key, name), time in sorted(due.items(), key=lambda pair: (pair[1], pair[0])):
            if time <= until:
                rung.append((time, key, name))
                del due[key, name]

    for key, wait, pause, _ in waits:
        if wait >= 0:
            due[key, "a" if wait % 2 else "b"] = now + wait
        else:
            due.pop((key, "a"), None)
        now += pause
        if pause:  # what is due already rings when the clock moves on, and may be set anew until then
            ring(now)
    ring(HOUR)
    return sorted(rung)


def found(told: Iterable[str]) -> list[tuple[int, str, str]]:
    words = [ring.split() for ring in told]
    return sorted((int(word[6]), word[4], word[0]) for word in words)


@given(WAITS)
@example([("k", 0, 0, False), ("k", 0, 0, False)])
def test_timers_ring_when_a_list_says(waits: list[tuple[str, int, int, bool]]) -> None:
    with PipelineDriver(alarms(), start=START) as driver:
        for key, wait, pause, crash in waits:
            driver.send("waits", wait, key=key, timestamp=0)
            if crash:
                driver.restart()
            driver.advance(later(pause))
        driver.end()
        assert found(rings(driver)) == expected(waits)


@pytest.mark.slow
@given(WAITS)
@example([("k", 0, 0, False), ("k", 0, 0, False)])
def test_in_the_levels_of_spark_they_ring_at_the_next_look_at_the_clock(
    waits: list[tuple[str, int, int, bool]],
) -> None:
    (query,) = queries(plan(alarms()))
    query.now = START
    for number, (key, wait, pause, _) in enumerate(waits):
        record = (key.encode(), b"%d" % wait, 0, ())
        query.batch([RecordBatch("waits", 0, range(number, number + 1), [record])])
        query.now += pause
        query.batch([])
    query.batch([], end=True)
    assert found((message.value or b"").decode() for message in query.written.get("rings", [])) == expected(waits)


def test_what_a_timer_emits_has_its_time_for_what_follows() -> None:
    pipeline = Pipeline("followed")
    alarm = pipeline.stream("waits", key=str, value=int).process(Alarm(), id="alarm")
    alarm.window(tumbling(timedelta(seconds=10)), collect(), id="windows").send_to("windows")
    with PipelineDriver(pipeline, start=START) as driver:
        driver.send("waits", 11, key="k", timestamp=0)
        driver.advance(later(11))
        driver.end()
        (pane,) = driver.read("windows")
    assert (pane.value.window.start, pane.value.value) == (START, ["a processing 1 of k at 11"])


def test_a_plan_tells_that_it_looks_at_the_clock() -> None:
    made = plan(alarms())
    assert made.operator("alarm").details["time"] == "event and processing"
    assert [one.subject for one in caveats(made, "spark")] == ["process alarm"]


def test_a_class_has_one_clock() -> None:
    class Two(KeyedProcessor[str, int, str]):
        one, other = ClockTimers(), ClockTimers()

        def on_message(self, message: Message[int], context: Context[str]) -> Iterable[str]:
            del message, context
            return ()

    def held_wrong(make: Callable[[], Any]) -> None:
        Pipeline("p").stream("in", key=str, value=int).process(make(), id="two")

    with pytest.raises(PipelineError) as raised:
        held_wrong(Two)
    assert_explains(raised.value, "Two has one and other, which are all ClockTimers()", None, "one attribute")
