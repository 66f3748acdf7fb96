"""What users' functions raise that is no `Exception`: an error of its message, as any other, wherever it is raised; but
for what ends the process. On the local engine's tasks, and on Spark's levels without Spark."""

import asyncio
import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest

from engines.spark_in_process import queries
from fluvial.dsl import (
    Batch,
    ClockTimers,
    Context,
    KeyedProcessor,
    KeyedStream,
    Message,
    MessageError,
    Pipeline,
    Retry,
    Serde,
    Timer,
    after_count,
    aggregate,
    collect,
    fail,
    reduce,
    repeat,
    session,
    skip,
    total,
    tumbling,
)
from fluvial.dsl.message import Record
from fluvial.planner import plan
from fluvial.runtime.systems.contract import RecordBatch
from fluvial.runtime.testing import PipelineDriver

pytestmark = pytest.mark.slow  # all together

Check = Callable[[Any], Any]
"""Returns what it is given; raises if that is 3, or has a 3 in it."""
Keyed = KeyedStream[str, int]
Build = Callable[[Pipeline, Keyed, Check], Any]
"""Adds operators to a stream, of which one function makes the check; returns the last stream, None if there is none."""


class Unusual(BaseException):
    """No Exception."""


NO_EXCEPTIONS = [asyncio.CancelledError, GeneratorExit, Unusual]
TIMES = [0, 100, 50, 200, 150, 400]
"""The value of a message is its number: 2 and 4 connect sessions that were apart."""


def ms(number: int) -> timedelta:
    return timedelta(milliseconds=number)


def checking(kind: type[BaseException]) -> Check:
    def check(value: Any) -> Any:
        if value == 3 or (isinstance(value, list) and 3 in value):
            raise kind("why")
        return value

    return check


def checked(message: Message[int], check: Check) -> Message[int]:
    check(message.value)
    return message


def joined(**options: Any) -> Build:
    """A join of a stream with itself, without the message 4 on one side."""

    def build(_: Pipeline, keyed: Keyed, check: Check) -> Any:
        def pair(left: int | None, right: int | None) -> int:
            return 10 * (check(left) or 0) + (right or 0)

        return keyed.join(keyed.filter(lambda number: number != 4), pair, id="j", within=ms(60), **options)

    return build


def processed(at: str) -> Build:
    """A processor that checks each message, a timer for it, or one in processing time."""

    def build(_: Pipeline, keyed: Keyed, check: Check) -> Any:
        class Checking(KeyedProcessor[str, int, int]):
            clock = ClockTimers()

            def on_message(self, message: Message[int], context: Context[str]) -> Iterable[int]:
                if at == "timer":
                    context.timers.set(str(message.value), message.timestamp + 5)
                elif at == "clock":
                    self.clock.set(str(message.value), self.clock.now + 5)
                yield check(message.value) if at == "message" else message.value

            def on_timer(self, timer: Timer, context: Context[str]) -> Iterable[int]:  # noqa: ARG002
                yield check(int(timer.name))

        return keyed.process(Checking(), id="p")

    return build


def windowed(kind: Callable[[Check], Any], **options: Any) -> Build:
    return lambda _, keyed, check: keyed.window(session(ms(60)), kind(check), id="w", **options).map(
        lambda pane: pane.value
    )


def gathering(check_in_add: Check | None = None, check_in_merge: Check | None = None) -> Any:
    def add(numbers: list[int], number: int) -> list[int]:
        return [*numbers, number if check_in_add is None else check_in_add(number)]

    def merge(one: list[int], more: list[int]) -> list[int]:
        return one + more if check_in_merge is None else check_in_merge(one) + check_in_merge(more)

    return aggregate(list, add, merge=merge)


def shown(check: Check) -> Any:
    return dataclasses.replace(collect(), result=check)


def filled_table(pipeline: Pipeline, name: str, keyed: Keyed) -> Any:
    table = pipeline.table(name, key=str, value=int)
    keyed.send_to(table)
    return table


def looked_up(pipeline: Pipeline, keyed: Keyed, check: Check) -> Any:
    rows = filled_table(pipeline, "rows", keyed)
    return keyed.join(rows, lambda number, _: check(number), id="j", how="left")


def joined_tables(pipeline: Pipeline, keyed: Keyed, check: Check) -> Any:
    def pair(left: int, right: int | None) -> int:
        check(left)
        return 10 * left + (right or 0)

    left, right = (pipeline.table(name, key=str, value=int) for name in ("left", "right"))
    return keyed.map(str).merge(left.join(right, pair, id="j", how="left").changes().map(str))


def remote(*, reads: bool = False, writes: bool = False, joins: bool = False, batch: Batch | None = None) -> Build:
    """A remote table whose functions, or whose join, make the check. The keys of reads are those of messages."""

    def build(pipeline: Pipeline, keyed: Keyed, check: Check) -> Any:
        async def read(key: int) -> int | None:
            return check(key) if reads else key

        async def read_many(keys: Sequence[int]) -> Mapping[int, int]:
            return {key: check(key) if reads else key for key in keys}

        async def write(_: int, row: int | None) -> None:
            if writes:
                check(row)

        options: dict[str, Any] = {"read": read if batch is None else read_many, "batch": batch}
        options |= {"write": write} if writes else {}
        table = pipeline.remote_table("far", **options, retry=Retry(attempts=1))
        numbered = keyed.partition_by(lambda number: number, id="by", key_type=int, value=int)
        if writes:
            return numbered.send_to(table)
        return numbered.join(table, lambda number, _: check(number) if joins else number, id="j")

    return build


def as_text(number: int) -> bytes:
    return b"%d" % number


def written(check: Check) -> Serde[int]:
    return Serde("written", int, lambda number: as_text(check(number)), int)


def read(check: Check) -> Serde[int]:
    return Serde("read", int, as_text, lambda data: check(int(data)))


def regrouped(key: Callable[[Check], Any], value: Callable[[Check], Any]) -> Build:
    return lambda _, keyed, check: keyed.partition_by(
        lambda number: number, id="by", key_type=key(check), value=value(check)
    )


def of_int(_: Check) -> type[int]:
    return int


BUILDS: dict[str, Build] = {
    "map": lambda _, keyed, check: keyed.map(check),
    "filter": lambda _, keyed, check: keyed.filter(lambda number: check(number) is not None),
    "split": lambda _, keyed, check: keyed.split(lambda number: check(number) is not None)[0],
    "flat_map": lambda _, keyed, check: keyed.flat_map(lambda number: [check(number)]),
    "generators": lambda _, keyed, check: keyed.flat_map(lambda number: (check(number) for _ in range(2))),
    "map_messages": lambda _, keyed, check: keyed.map_messages(lambda message: checked(message, check)),
    "partition_by": lambda _, keyed, check: keyed.partition_by(check, id="by", key_type=int, value=int),
    "keys of outputs": lambda _, keyed, check: keyed.send_to("out", key=check),
    "values of outputs": lambda _, keyed, check: keyed.send_to("out", value=written(check)),
    "keys written between stages": regrouped(written, of_int),
    "values written between stages": regrouped(of_int, written),
    "keys read between stages": lambda *given: regrouped(read, of_int)(*given).map_messages(lambda message: message),
    "values read between stages": regrouped(of_int, read),
    "joins": joined(),
    "outer joins": joined(how="outer"),
    "latest joins": joined(how="left", retain="latest"),
    "tables": looked_up,
    "joined tables": joined_tables,
    "remote joins": remote(joins=True),
    "remote reads": remote(reads=True),
    "batches of remote reads": remote(reads=True, batch=Batch(size=1)),
    "remote writes": remote(writes=True),
    "on_message": processed("message"),
    "on_timer": processed("timer"),
    "on_timer by the clock": processed("clock"),
    "deduplicate": lambda _, keyed, check: keyed.deduplicate(ms(10), by=check, by_type=int, id="d"),
    "add": windowed(lambda check: gathering(check_in_add=check)),
    "merge": windowed(lambda check: gathering(check_in_merge=check)),
    "merge with triggers": windowed(lambda check: gathering(check_in_merge=check), trigger=repeat(after_count(1))),
    "result": windowed(shown),
    "result of early panes": windowed(shown, trigger=repeat(after_count(1))),
    "total": windowed(total),
    "reduce": windowed(lambda check: reduce(lambda one, number: one + check(number))),
    "behind panes": lambda _, keyed, check: keyed.window(tumbling(ms(10)), total(int), id="w").map(
        lambda pane: check(pane.value)
    ),
}


def built(build: Build, kind: type[BaseException], policy: Any, *, calls: bool) -> Pipeline:
    """With `calls`, behind asynchronous calls: messages are then tracked, and effects released in their order."""

    async def itself(number: int) -> list[int]:
        return [number]

    pipeline = Pipeline("p", on_error=policy)
    keyed: Keyed = pipeline.stream("in", key=str, value=int, out_of_order=ms(100))
    stream = build(pipeline, keyed.async_flat_map(itself, id="call") if calls else keyed, checking(kind))
    if stream is not None:
        stream.map(lambda value: value).send_to("out", value=Any)
    return pipeline


def records() -> list[Record]:
    return [(b"k", b"%d" % number, time, ()) for number, time in enumerate(TIMES)]


Outcome = tuple[Counter[bytes | None], dict[str, int]]
"""What was written, and the failures by operator."""


def on_driver(pipeline: Pipeline) -> Outcome:
    with PipelineDriver(pipeline) as driver:
        for source in pipeline.sources:
            driver.records.send(source.stream, records())
        driver.advance(timedelta(seconds=1))
        report = driver.end()
        out = driver.records.read("out") if "out" in driver._admin.streams() else []
        return Counter(record[1] for record in out), dict(report.failed)


def on_spark(pipeline: Pipeline) -> Outcome:
    streams = [source.stream for source in pipeline.sources]
    (query,) = queries(plan(pipeline, partitions=dict.fromkeys(streams, 1)))
    for number, record in enumerate(records()):
        query.batch([RecordBatch(stream, 0, range(number, number + 1), [record]) for stream in streams])
    query.now += 1000
    query.batch([])
    query.batch([], end=True)
    failed = dict(query.counts.by_kind.get("failed", {}))
    return Counter(message.value for message in query.written.get("out", [])), failed


ENGINES = [on_driver, on_spark]
OF_EACH = [
    pytest.mark.parametrize("calls", [False, True], ids=["", "calls"]),
    pytest.mark.parametrize("build", BUILDS.values(), ids=BUILDS),
    pytest.mark.parametrize("engine", ENGINES),
]


def of_each(test: Any) -> Any:
    for mark in OF_EACH:
        test = mark(test)
    return test


@of_each
def test_it_is_skipped_as_any_error_is(engine: Callable[[Pipeline], Outcome], build: Build, calls: bool) -> None:
    out, failed = engine(built(build, ValueError, skip(), calls=calls))
    assert failed
    assert out or build is BUILDS["remote writes"]
    for kind in NO_EXCEPTIONS:
        assert engine(built(build, kind, skip(), calls=calls)) == (out, failed)


@of_each
def test_it_ends_a_run_as_any_error_does(engine: Callable[[Pipeline], Outcome], build: Build, calls: bool) -> None:
    with pytest.raises(MessageError) as usual:
        engine(built(build, ValueError, fail(), calls=calls))
    with pytest.raises(MessageError) as raised:
        engine(built(build, Unusual, fail(), calls=calls))
    unnamed = [str(error.value).replace("RuntimeError: ", "") for error in (usual, raised)]
    assert unnamed[0].replace("ValueError", "Unusual") == unnamed[1]
    assert raised.value.exit_code == 5


@of_each
def test_what_ends_the_process_is_no_error_of_a_message(
    engine: Callable[[Pipeline], Outcome], build: Build, calls: bool
) -> None:
    with pytest.raises(KeyboardInterrupt):
        engine(built(build, KeyboardInterrupt, skip(), calls=calls))
    # A worker of Spark must not end; the local engine says the same at the end of its run.
    with pytest.raises(MessageError if engine is on_spark else SystemExit, match="why"):
        engine(built(build, SystemExit, skip(), calls=calls))
