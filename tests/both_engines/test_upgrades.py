"""What may change of a pipeline whose state is kept: a row of the guide on upgrades each, on both engines."""

import os
import signal
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
import pytest

pytest.importorskip("pyspark", reason="the engine needs pyspark")

from engines.several import at_each_turn
from engines.spark_in_process import Query, queries
from engines.targets import contents, write
from fluvial.dsl import (
    INT64,
    ClockTimers,
    Context,
    KeyedProcessor,
    KeyedStream,
    ListState,
    Message,
    Pipeline,
    Timer,
    ValueState,
    after_count,
    collect,
    count,
    repeat,
    session,
    tumbling,
)
from fluvial.dsl.message import Record
from fluvial.planner import plan
from fluvial.runtime import Progress, run
from fluvial.runtime.systems import LogSystem
from fluvial.runtime.systems.contract import RecordBatch
from fluvial.runtime.testing import PipelineDriver
from generators.changing import changed, restart_with

Keyed = KeyedStream[str, Any]
Outputs = list[Any]
"""The values that came, in their order."""


def ms(number: int) -> timedelta:
    return timedelta(milliseconds=number)


def of(build: Callable[[Keyed], KeyedStream[str, Any]], value: Any = int, **source: Any) -> Pipeline:
    """A pipeline on one keyed stream."""
    pipeline = Pipeline("p")
    keyed: Keyed = pipeline.stream("in", key=str, value=value, **source)
    build(keyed).send_to("out")
    return pipeline


def counting(window: Any = None, **options: Any) -> Pipeline:
    """Says how many messages each window has."""
    source = {name: options.pop(name) for name in ("out_of_order",) if name in options}
    assigner = tumbling(ms(10)) if window is None else window
    return of(lambda keyed: keyed.window(assigner, count(), id="w", **options).map(lambda pane: pane.value), **source)


@dataclass
class Item:
    name: str


@dataclass
class PricedItem:
    name: str
    price: int = 0
    tags: list[str] = field(default_factory=list)


def collecting(kind: Any) -> Pipeline:
    return of(
        lambda keyed: keyed.window(tumbling(ms(10)), collect(), id="w").map(lambda pane: list(map(repr, pane.value))),
        kind,
    )


def process(states: Callable[[], dict[str, Any]], times: int = 1) -> Pipeline:
    """Counts in the state `seen`, and emits the count so many `times` over."""

    def on_message(self: Any, _: Message[int], __: Context[str]) -> Iterable[int]:
        self.seen.value += 1
        yield self.seen.value * times

    kind: Any = type("Count", (KeyedProcessor,), {**states(), "on_message": on_message})
    return of(lambda keyed: keyed.process(kind(), id="c"))


HOUR = 3_600_000


def reminding(*, clock: bool) -> Pipeline:
    """Counts messages, and an hour later by the clock says so, unless the processor has no clock."""

    def on_message(self: Any, _: Message[int], __: Context[str]) -> Iterable[int | str]:
        self.seen.value += 1
        if clock:
            self.clock.set("told", self.clock.now + HOUR)
        yield self.seen.value

    def on_timer(self: Any, timer: Timer, _: Context[str]) -> Iterable[str]:
        yield f"{timer.name}: {self.seen.value}"

    states = {**seen(), **({"clock": ClockTimers()} if clock else {})}
    kind: Any = type("Reminding", (KeyedProcessor,), {**states, "on_message": on_message, "on_timer": on_timer})
    return of(lambda keyed: keyed.process(kind(), id="c"))


def itself(number: int) -> int:
    return number


def tens(number: int) -> int:
    return number // 10


def deduplicating(within: int, by: Callable[[int], int] = itself) -> Pipeline:
    return of(lambda keyed: keyed.deduplicate(ms(within), by=by, id="d"))


def seen(ttl: int | None = None) -> dict[str, Any]:
    return {"seen": ValueState(int, 0, ttl=None if ttl is None else ms(ttl))}


async def looked_up(number: int) -> list[int]:
    return [number]


def calling(**options: Any) -> Pipeline:
    """Counts what asynchronous calls return."""
    return of(
        lambda keyed: (
            keyed.async_flat_map(looked_up, id="call", **options)
            .window(tumbling(ms(10)), count(), id="w")
            .map(lambda pane: pane.value)
        )
    )


class Point(NamedTuple):
    x: int


class DeeperPoint(NamedTuple):
    x: int
    y: int = 7


class Place(msgspec.Struct, array_like=True):
    x: int


class DeeperPlace(msgspec.Struct, array_like=True):
    x: int
    y: int = 7


class Priced(msgspec.Struct):
    name: str
    price: int


class PricedFreely(msgspec.Struct):
    name: str
    price: float


class DearerItem(msgspec.Struct):
    name: str
    price: int = 9


def listing(kind: Any) -> Pipeline:
    """Shows the list of all that came."""

    def on_message(self: Any, message: Message[int], _: Context[str]) -> Iterable[list[str]]:
        self.items.append(message.value)
        yield list(map(str, self.items))

    made: Any = type("Listing", (KeyedProcessor,), {"items": ListState(kind), "on_message": on_message})
    return of(lambda keyed: keyed.process(made(), id="c"))


def counting_by(key: Any) -> Pipeline:
    pipeline = Pipeline("p")
    keyed: KeyedStream[Any, int] = pipeline.stream("in", key=key, value=int)
    keyed.window(tumbling(ms(10)), count(), id="w").map(lambda pane: pane.value).send_to("out")
    return pipeline


def two_windows() -> Pipeline:
    pipeline = counting()
    keyed: Keyed = KeyedStream(pipeline._graph, "stream-1")
    keyed.window(tumbling(ms(100)), count(), id="more").send_to("more")
    return pipeline


@dataclass(frozen=True)
class Row:
    """Messages at `first` times go through one pipeline, those at `then` through the other, which emits `expected`
    until its input ends. Messages are `values` if they are given."""

    id: str
    before: Callable[[], Pipeline]
    after: Callable[[], Pipeline]
    first: list[int]
    then: list[int]
    expected: Outputs
    values: list[Any] | None = None
    key: bytes = b"k"


ROWS = [
    Row("lateness, longer", counting, lambda: counting(lateness=ms(50)), [1, 12], [13, 25, 14], [2, 3, 1]),
    # The window [0, 10) was forgotten when it fired: what comes for it now is late.
    Row("lateness, longer, for what is forgotten", counting, lambda: counting(lateness=ms(50)), [1, 12], [2, 13], [2]),
    Row(
        "lateness, longer, for sessions that are forgotten",
        lambda: counting(session(ms(5))),
        lambda: counting(session(ms(5)), lateness=ms(500)),
        [1, 50],
        [2, 51],
        [2],
    ),
    Row(
        "lateness, longer, for windows with triggers that are forgotten",
        lambda: counting(trigger=repeat(after_count(9))),
        lambda: counting(trigger=repeat(after_count(9)), lateness=ms(500)),
        [1, 50],
        [2, 51],
        [2],
    ),
    Row("lateness, shorter", lambda: counting(lateness=ms(50)), counting, [1, 12], [2, 13], [2]),
    # Time does not go back: the window [0, 10) has fired.
    Row("out_of_order, longer", counting, lambda: counting(out_of_order=ms(30)), [1, 12], [2, 13, 50], [2, 1]),
    Row("out_of_order, shorter", lambda: counting(out_of_order=ms(30)), counting, [1, 12], [13, 50], [1, 2, 1]),
    Row(
        "the count of a trigger",
        lambda: counting(trigger=repeat(after_count(3))),
        lambda: counting(trigger=repeat(after_count(4))),
        [1, 2],
        [3, 4, 5],
        [4, 5],
    ),
    Row("a function with the same types", lambda: process(seen), lambda: process(seen, 10), [1, 2], [3], [30]),
    Row(
        "options of asynchronous calls",
        lambda: calling(max_in_flight=1),
        lambda: calling(max_in_flight=9, order="input", timeout=ms(500)),
        [1, 2],
        [3],
        [3],
    ),
    Row("ttl, longer", lambda: process(lambda: seen(10)), lambda: process(lambda: seen(100)), [1, 2], [30], [3]),
    Row("ttl, shorter", lambda: process(lambda: seen(100)), lambda: process(lambda: seen(10)), [1, 2], [30], [1]),
    Row(
        "a state more",
        lambda: process(seen),
        lambda: process(lambda: {**seen(), "more": ListState(str)}),
        [1, 2],
        [3],
        [3],
    ),
    Row(
        "a state less",
        lambda: process(lambda: {**seen(), "more": ListState(str)}),
        lambda: process(seen),
        [1, 2],
        [3],
        [3],
    ),
    Row(
        "timers in processing time that are new",
        lambda: reminding(clock=False),
        lambda: reminding(clock=True),
        [1, 2],
        [3],
        [3, "told: 3"],
    ),
    # The end of the input fires all timers that the processor has.
    Row(
        "timers in processing time that are gone",
        lambda: reminding(clock=True),
        lambda: reminding(clock=False),
        [1, 2],
        [3],
        [3],
    ),
    Row(
        "a field with a default",
        lambda: collecting(Item),
        lambda: collecting(PricedItem),
        [1],
        [2],
        [["PricedItem(name='tea', price=0, tags=[])", "PricedItem(name='milk', price=0, tags=[])"]],
        [{"name": "tea"}, {"name": "milk"}],
    ),
    Row(
        "a field less",
        lambda: collecting(PricedItem),
        lambda: collecting(Item),
        [1],
        [2],
        [["Item(name='tea')", "Item(name='milk')"]],
        [{"name": "tea", "price": 3}, {"name": "milk"}],
    ),
    Row(
        "a field at the end of what is kept by position",
        lambda: collecting(Place),
        lambda: collecting(DeeperPlace),
        [1],
        [2],
        [["DeeperPlace(x=1, y=7)", "DeeperPlace(x=2, y=8)"]],
        [[1], [2, 8]],
    ),
    Row(
        "a field less at the end of what is kept by position",
        lambda: collecting(DeeperPlace),
        lambda: collecting(Place),
        [1],
        [2],
        [["Place(x=1)", "Place(x=2)"]],
        [[1, 7], [2]],
    ),
    Row(
        "a field at the end of a NamedTuple",
        lambda: collecting(Point),
        lambda: collecting(DeeperPoint),
        [1],
        [2],
        [["DeeperPoint(x=1, y=7)", "DeeperPoint(x=2, y=8)"]],
        [[1], [2, 8]],
    ),
    Row(
        "wider conditions",
        lambda: collecting(Annotated[int, msgspec.Meta(ge=1)]),
        lambda: collecting(Annotated[int, msgspec.Meta(ge=-5)]),
        [1],
        [2],
        [["1", "-3"]],
        [1, -3],
    ),
    Row(
        "a wider type",
        lambda: collecting(Priced),
        lambda: collecting(PricedFreely),
        [1],
        [2],
        [["PricedFreely(name='tea', price=3.0)", "PricedFreely(name='milk', price=-0.5)"]],
        [{"name": "tea", "price": 3}, {"name": "milk", "price": -0.5}],
    ),
    Row(
        "a wider type of the items of a list", lambda: listing(int), lambda: listing(float), [1], [2], [["1.0", "1.0"]]
    ),
    Row(
        "an optional type of the items of a list",
        lambda: listing(int),
        lambda: listing(int | None),
        [1],
        [2],
        [["1", "1"]],
    ),
    Row(
        "the default of a field that is not kept",
        lambda: collecting(Item),
        lambda: collecting(DearerItem),
        [1],
        [2],
        [["DearerItem(name='tea', price=9)", "DearerItem(name='milk', price=9)"]],
        [{"name": "tea"}, {"name": "milk"}],
    ),
    Row(
        "keys of int as INT64",
        lambda: counting_by(int),
        lambda: counting_by(INT64),
        [1, 2],
        [3],
        [3],
        key=(5).to_bytes(8, "big"),
    ),
    Row(
        "within of a deduplication, longer",
        lambda: deduplicating(10),
        lambda: deduplicating(100),
        [1],
        [30, 101],
        [7],
        [7, 7, 7],
    ),
    Row(
        "within of a deduplication, longer, for what is forgotten",
        lambda: deduplicating(10),
        lambda: deduplicating(100),
        [1, 50],
        [2, 51],
        [7],
        [7, 8, 7, 8],
    ),
    Row(
        "within of a deduplication, shorter",
        lambda: deduplicating(100),
        lambda: deduplicating(10),
        [1],
        [5, 20],
        [7],
        [7, 7, 7],
    ),
    Row(
        "by of a deduplication, with the same type",
        lambda: deduplicating(10),
        lambda: deduplicating(10, tens),
        [1],
        [2, 3],
        [81],
        [7, 79, 81],
    ),
    Row("an operator more", counting, two_windows, [1, 2], [3], [3]),
    Row("an operator less", two_windows, counting, [1, 2], [3], [3]),
]


def records(row: Row, times: list[int], skip: int = 0) -> list[Record]:
    values = row.values or [1] * (len(row.first) + len(row.then))
    return [(row.key, msgspec.json.encode(values[skip + number]), time, ()) for number, time in enumerate(times)]


@pytest.mark.parametrize("row", ROWS, ids=[row.id for row in ROWS])
def test_on_the_local_engine(row: Row, tmp_path: Path) -> None:
    system = LogSystem(tmp_path, fsync=False)
    system.admin().create("in", 1)
    stopped: list[Progress] = []

    def stop_once_all_is_read(progress: Progress) -> None:
        if progress.lag == 0 and not stopped:
            stopped.append(progress)
            os.kill(os.getpid(), signal.SIGINT)

    write(system, {"in": [records(row, row.first)]})
    with at_each_turn():
        run(row.before(), system=system, until="stopped", progress=stop_once_all_is_read)
    emitted = len(contents(system, "out"))
    write(system, {"in": [records(row, row.then, len(row.first))]})
    run(row.after(), system=system, until="end")
    assert [msgspec.json.decode(record[1] or b"") for record in contents(system, "out")][emitted:] == row.expected


def planned(pipeline: Pipeline) -> Query:
    """The only query of a pipeline."""
    (query,) = queries(plan(pipeline))
    return query


@pytest.mark.parametrize("row", ROWS, ids=[row.id for row in ROWS])
def test_on_spark(row: Row) -> None:
    """In this process, a message a batch: what comes in one batch is in time together."""
    query = planned(row.before())
    for number, record in enumerate(records(row, [*row.first, *row.then])):
        if number == len(row.first):
            query = changed(query, row.after())
            query.written = {}
        query.batch([RecordBatch("in", 0, range(number, number + 1), [record])])
    query.batch([], end=True)
    assert [msgspec.json.decode(message.value or b"") for message in query.written["out"]] == row.expected


def test_timers_that_come_back_fire_on_the_local_engine() -> None:
    """What fell due while the processor had no clock fires at once, with the state as it is then."""
    with PipelineDriver(reminding(clock=True)) as driver:
        driver.send("in", 1, key="k")
        restart_with(driver, reminding(clock=False))
        driver.advance(timedelta(hours=2))
        driver.send("in", 1, key="k")
        restart_with(driver, reminding(clock=True))
        driver.advance(ms(1))
        assert [message.value for message in driver.read("out")] == [1, 2, "told: 2"]


def test_timers_that_come_back_fire_on_spark() -> None:
    query = planned(reminding(clock=True))
    query.now = 100
    query.batch([RecordBatch("in", 0, range(1), [(b"k", b"1", 0, ())])])
    query = changed(query, reminding(clock=False))
    query.now += 2 * HOUR
    query.batch([RecordBatch("in", 0, range(1, 2), [(b"k", b"1", 0, ())])])
    query = changed(query, reminding(clock=True))
    query.batch([])
    assert [msgspec.json.decode(message.value or b"") for message in query.written["out"]] == [1, 2, "told: 2"]
