"""What a stage's code is bound to: how values and keys are read and written, and where late messages go."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from engines.stages import feed, task_of
from fluvial.dsl import (
    KeyedStream,
    Message,
    Pipeline,
    Serde,
    after_count,
    count,
    hopping,
    session,
    skip,
    tumbling,
)
from fluvial.runtime.kernel.time.border_watermarks import TRAILER_SIZE, unpack_trailer
from fluvial.runtime.kernel.windows.sessions import SessionOperator
from fluvial.runtime.kernel.windows.tumbling import TumblingOperator
from fluvial.runtime.testing import PipelineDriver

TEN = timedelta(milliseconds=10)


class Kept:
    """A sink that is never asked, for a stage on its own gives what is for a sink to whoever takes it."""

    def open(self) -> None: ...

    def write(self, messages: Any) -> None: ...

    def flush(self) -> None: ...

    def close(self) -> None: ...


async def call(value: int) -> list[int]:
    return [value]


async def asleep(value: int) -> list[int]:
    await asyncio.sleep(5)
    return [value]


def keyed(pipeline: Pipeline) -> KeyedStream[int, int]:
    return pipeline.stream("in", value=int, key=int)


def key(number: int) -> bytes:
    return number.to_bytes(8, "big")


def late_to(stream: str | None) -> Any:
    pipeline = Pipeline("p")
    keyed(pipeline).window(tumbling(TEN), count(), id="window", late_to=stream).send_to("out")
    return task_of(pipeline)


def test_a_late_message_is_counted_and_sent_on_as_it_came() -> None:
    task = late_to("late")
    records = [(key(1), b"5", 20, ()), (key(2), b"6", 3, (("h", b"x"),)), (key(2), None, 3, ())]
    assert feed(task, "in", *records) == {"window": records[1:]}
    assert task.counts.late == {"window": 2}


def test_a_late_message_without_a_place_to_go_is_counted() -> None:
    task = late_to(None)
    assert feed(task, "in", (key(1), b"5", 20, ()), (key(2), b"6", 3, ())) == {}
    assert task.counts.late == {"window": 1}


def test_each_assigner_has_its_operator() -> None:
    pipeline = Pipeline("p")
    source = keyed(pipeline)
    source.window(tumbling(TEN), count(), id="tumbling").send_to("out")
    source.window(session(TEN), count(), id="session").send_to("out")
    kinds = {id: type(window) for id, window in task_of(pipeline).stateful.items()}
    assert kinds == {"tumbling": TumblingOperator, "session": SessionOperator}


def test_an_output_is_written_by_the_serde_it_was_given() -> None:
    shouting: Serde[str] = Serde("shouting", str, lambda text: text.upper().encode(), bytes.decode)
    pipeline = Pipeline("p")
    pipeline.stream("in", value=str).send_to("out", value=shouting)
    assert feed(task_of(pipeline), "in", (None, b"a", 0, ())) == {"send_to-2": [(None, b"A", 0, ())]}


@pytest.mark.parametrize(("kind", "shown"), [(None, key(1)), (int, 1)])
def test_functions_and_sinks_see_keys_of_the_declared_type_else_bytes(kind: Any, shown: Any) -> None:
    seen: list[Any] = []

    def look(message: Message[int]) -> Message[int]:
        seen.append(message.key)
        return message

    pipeline = Pipeline("p")
    source = pipeline.stream("in", value=int, key=kind)
    source.map_messages(look).send_to("out")
    source.sink(Kept(), id="sink")
    made = feed(task_of(pipeline), "in", (key(1), b"5", 7, ()), (None, b"5", 7, ()))
    assert made["sink"] == [Message(shown, 5, 7), Message(None, 5, 7)]
    assert seen == [shown, None]


def test_a_record_that_waited_for_a_call_carries_the_time_at_its_release() -> None:
    pipeline = Pipeline("p")
    called = pipeline.stream("in", value=int).async_flat_map(call, id="call", order="none")
    called.partition_by(str, id="by", key_type=str, value=int).map(str).send_to("out")

    async def work() -> Any:
        task = task_of(pipeline, producer=4)
        task.feed("in", 0, range(2), [(None, b"1", 7, ()), (None, b"2", 9, ())])
        while task.progress.busy:
            await asyncio.sleep(0)
        return dict(task.drain_outputs())

    stamps = [value[-TRAILER_SIZE:] for _, value, _, _ in asyncio.run(work())["by"]]
    # The first met no time, and time waits for it until it has landed; then it waits for the second.
    assert [unpack_trailer(trailer) for trailer in stamps] == [(4, -(2**63)), (4, 7)]


def test_a_key_that_is_none_of_the_declared_type_fails_at_its_source() -> None:
    pipeline = Pipeline("p", on_error=skip())
    pipeline.stream("in", value=int, key=str).send_to("out")
    task = task_of(pipeline)
    assert feed(task, "in", (b"\xff", b"1", 0, ())) == {}
    assert task.failures.counts == {"stream-1": 1}


def test_a_window_takes_what_the_border_before_it_has_aggregated() -> None:
    pipeline = Pipeline("p")
    words = pipeline.stream("in", key=str, value=str).partition_by(len, id="by", key_type=int, value=str)
    words.window(tumbling(TEN), count(), id="w").map(lambda pane: pane.value).send_to("out")
    sent = feed(task_of(pipeline), "in", *((b"k", b"word", time, ()) for time in (1, 2, 3)))["by"]
    assert len(sent) == 1
    window = task_of(pipeline, 1)
    assert feed(window, "p-by", *sent) == {}
    window.inputs.ends.end("p-by")
    assert [record[1] for _, records in window.drain_outputs() for record in records] == [b"3"]
    assert window.counts.fed == {"p-by": 3}


LATENESS = timedelta(milliseconds=20)


@pytest.mark.parametrize(
    ("assigner", "options", "panes"),
    [
        (tumbling(TEN), {}, []),
        (hopping(2 * TEN, every=TEN), {}, []),
        (session(TEN), {}, []),
        (tumbling(TEN), {"trigger": after_count(9)}, []),
        (tumbling(TEN), {"lateness": LATENESS}, [(70, 80, "late")]),
        (tumbling(TEN), {"lateness": LATENESS, "trigger": after_count(9)}, [(70, 80, "late")]),
        (session(TEN), {"lateness": LATENESS}, [(75, 86, "late")]),
    ],
)
def test_a_message_whose_call_lets_others_move_time_on_is_lost_by_no_window(
    assigner: Any, options: Any, panes: list[Any]
) -> None:
    """It came while its window was open, and lands behind the firing of that."""
    pipeline = Pipeline("p")
    ahead, behind = (pipeline.stream(name, key=str, value=int) for name in ("ahead", "behind"))
    ahead.async_flat_map(asleep, id="call").send_to("called")
    ahead.merge(behind).window(assigner, count(), id="w", **options).send_to("panes")
    with PipelineDriver(pipeline) as driver:
        driver.send("ahead", 0, key="a", timestamp=100)
        driver.send("behind", 0, key="b", timestamp=50)
        driver.advance(timedelta(seconds=9))
        driver.send("ahead", 0, key="waits", timestamp=75)
        for time in (78, 95):
            driver.send("behind", 0, key="b", timestamp=time)
        driver.advance(timedelta(seconds=9))
        found = [(one.key, one.value) for one in driver.read("panes")]
        late = driver.report().late
    shown = [(pane.window.start, pane.window.end, pane.kind) for key, pane in found if key == "waits"]
    assert (shown, late) == (panes, {} if panes else {"w": 1})
