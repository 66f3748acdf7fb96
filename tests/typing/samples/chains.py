"""What types chain through the public API: checked by mypy and pyright as a user's file, without an error."""
# pyright: strict

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, Self, assert_type

from fluvial.dsl import (
    FLOAT64,
    INT64,
    Adaptive,
    Aggregate,
    Batch,
    Breaker,
    Cache,
    ClockTimers,
    Collector,
    Context,
    Envelope,
    ErrorPolicy,
    KeyedProcessor,
    KeyedStream,
    ListState,
    MapState,
    Message,
    MessageStream,
    Pane,
    Pipeline,
    PooledFunction,
    ProcessedStream,
    RemoteTable,
    Resource,
    Retry,
    Serde,
    Sink,
    StreamTask,
    Table,
    Tag,
    Tagged,
    TaskCoordinator,
    TaskStream,
    Timer,
    Trigger,
    ValueState,
    Window,
    after,
    after_count,
    aggregate,
    any_of,
    collect,
    count,
    dead_letter,
    hopping,
    in_processes,
    in_threads,
    maximum,
    mean,
    minimum,
    msgpack,
    reduce,
    repeat,
    resource,
    session,
    total,
    tumbling,
    unbounded,
)
from fluvial.planner import Plan, PlannedStage, draw, plan
from fluvial.runtime import KafkaSystem, KeyedExecutor, Report, Settings, run
from fluvial.runtime.testing import PipelineDriver

MINUTE = timedelta(minutes=1)


@dataclass(frozen=True)
class Click:
    """A value of the user's."""

    user: str
    at: int


async def fetch(click: Click) -> list[str]:
    return [click.user]


pipeline = Pipeline("p", on_error=dead_letter())
assert_type(dead_letter(), ErrorPolicy)

# Streams without a key.
clicks = pipeline.stream("clicks", value=Click, timestamp=lambda click: click.at, out_of_order=MINUTE)
assert_type(clicks, MessageStream[Click])
assert_type(clicks.map(lambda click: click.user), MessageStream[str])
assert_type(clicks.filter(lambda click: click.at > 0), MessageStream[Click])
assert_type(clicks.split(lambda click: click.at > 0), tuple[MessageStream[Click], ...])
assert_type(clicks.flat_map(lambda click: [click.at]), MessageStream[int])
assert_type(clicks.async_flat_map(fetch, id="fetch", retry=Retry(attempts=2)), MessageStream[str])
assert_type(clicks.map_messages(lambda message: Message(None, message.value.at, 0)), MessageStream[int])
assert_type(clicks.merge(clicks, clicks), MessageStream[Click])
assert_type(clicks.broadcast(id="everywhere"), MessageStream[Click])
assert_type(clicks.partition_by(lambda click: click.user, id="by-user", key_type=str), KeyedStream[str, Click])
assert_type(clicks.partition_by(lambda click: (click.user, click.at), id="by-two"), KeyedStream[tuple[str, int], Click])
assert_type(clicks.send_to("out", key=lambda click: click.user, value=Click), None)

# Samza's spellings are the same methods.
assert_type(clicks.flatMap(lambda click: [click.at]), MessageStream[int])
assert_type(clicks.asyncFlatMap(fetch, id="fetch-too"), MessageStream[str])
assert_type(clicks.partitionBy(lambda click: click.at, id="by-time", key_type=int), KeyedStream[int, Click])
assert_type(clicks.sendTo("out"), None)

# Streams with a key.
numbers = pipeline.stream("numbers", key=str, value=int)
assert_type(numbers, KeyedStream[str, int])
assert_type(numbers.map(float), KeyedStream[str, float])
assert_type(numbers.filter(lambda number: number > 1), KeyedStream[str, int])
assert_type(numbers.split(lambda number: number > 1), tuple[KeyedStream[str, int], ...])
assert_type(numbers.flat_map(range), KeyedStream[str, int])
assert_type(numbers.flatMap(lambda number: [str(number)]), KeyedStream[str, str])
assert_type(numbers.merge(numbers), KeyedStream[str, int])
unkeyed = pipeline.stream("unkeyed", value=int)
assert_type(numbers.merge(unkeyed), MessageStream[int])
assert_type(unkeyed.merge(numbers), MessageStream[int])
assert_type(pipeline.stream("wide", key=INT64, value=FLOAT64), KeyedStream[int, float])
assert_type(pipeline.stream("packed", key=str, value=msgpack(Click)), KeyedStream[str, Click])
assert_type(Serde("hex", int, lambda n: b"%x" % n, lambda data: int(data, 16)).decode(b"ff"), int)


async def asked(number: int) -> Sequence[str]:
    return [str(number)]


assert_type(numbers.async_flat_map(asked, id="asked"), KeyedStream[str, str])
assert_type(numbers.asyncFlatMap(asked, id="asked-too"), KeyedStream[str, str])

# Duplicates.
assert_type(numbers.deduplicate(MINUTE, id="once"), KeyedStream[str, int])
assert_type(numbers.deduplicate(MINUTE, by=str, id="once-by-text"), KeyedStream[str, int])
assert_type(numbers.deduplicate(MINUTE, by=lambda n: n + 1, by_type=int, id="once-by-number"), KeyedStream[str, int])
assert_type(numbers.deduplicate(MINUTE, by=lambda n: n + 1, by_type=INT64, id="once-by-64"), KeyedStream[str, int])
by_two = numbers.deduplicate(MINUTE, by=lambda n: (n, str(n)), by_type=tuple[int, str], id="once-by-two")
assert_type(by_two, KeyedStream[str, int])

# Windows.
per_minute = tumbling(MINUTE)
assert_type(numbers.window(per_minute, count(), id="count"), KeyedStream[str, Pane[str, int]])
assert_type(numbers.window(per_minute, total(lambda n: n), id="total"), KeyedStream[str, Pane[str, int]])
assert_type(numbers.window(per_minute, total(lambda n: n / 2), id="half"), KeyedStream[str, Pane[str, float]])
assert_type(numbers.window(per_minute, mean(lambda n: n), id="mean"), KeyedStream[str, Pane[str, float]])
assert_type(numbers.window(per_minute, minimum(lambda n: str(n)), id="least"), KeyedStream[str, Pane[str, str]])
assert_type(numbers.window(per_minute, maximum(lambda n: -n), id="most"), KeyedStream[str, Pane[str, int]])
assert_type(numbers.window(session(MINUTE), collect(), id="all"), KeyedStream[str, Pane[str, list[int]]])
words = pipeline.stream("words", key=str, value=str)
assert_type(words.window(per_minute, total(len), id="letters"), KeyedStream[str, Pane[str, int]])
assert_type(numbers.window(unbounded(), reduce(lambda a, b: a + b), id="sum"), KeyedStream[str, Pane[str, int]])


def insert(seen: set[int], number: int) -> set[int]:
    return seen | {number}


distinct: Aggregate[int, set[int]] = aggregate(set, insert)
often = repeat(any_of(after_count(9), after(first=MINUTE)))
assert_type(often, Trigger)
panes = numbers.window(hopping(MINUTE, every=MINUTE), distinct, id="distinct", trigger=often, lateness=MINUTE)
assert_type(panes, KeyedStream[str, Pane[str, set[int]]])
assert_type(panes.map(lambda pane: pane.key), KeyedStream[str, str])
assert_type(panes.map(lambda pane: pane.window), KeyedStream[str, Window])
assert_type(panes.map(lambda pane: len(pane.value)), KeyedStream[str, int])


def told(pane: Pane[str, set[int]]) -> str:
    assert_type(pane.kind, Literal["early", "on_time", "late"])
    assert_type(pane.replaces, tuple[Window, ...])
    return pane.kind


assert_type(panes.map(told), KeyedStream[str, str])

# Joins: whether a side may be missing is known from how=.
pairs = numbers.join(words, lambda n, word: (n + 1, word.upper()), id="inner", within=MINUTE)
assert_type(pairs, KeyedStream[str, tuple[int, str]])
left = numbers.join(words, lambda n, word: (n + 1, word), id="left", within=MINUTE, how="left")
assert_type(left, KeyedStream[str, tuple[int, str | None]])
outer = numbers.join(words, lambda n, word: (n, word), id="outer", within=MINUTE, how="outer", retain="latest")
assert_type(outer, KeyedStream[str, tuple[int | None, str | None]])

# Tables.
users = pipeline.table("users", key=str, value=Click)
assert_type(users, Table[str, Click])
assert_type(users.changes(), KeyedStream[str, Click | None])
assert_type(numbers.join(users, lambda n, user: user.at + n, id="known"), KeyedStream[str, int])
known = numbers.join(users, lambda n, user: user.user if user else str(n), id="maybe", how="left")
assert_type(known, KeyedStream[str, str])


def both(user: Click, word: str | None) -> str:
    return f"{user.user} {word}"


towns = pipeline.table("towns", key=str, value=str)
assert_type(users.join(towns, both, id="both", how="left"), Table[str, str])
numbers.map(str).send_to(towns)


async def read(key: str) -> float | None:
    return None if key == "" else 1.0


async def read_many(keys: Sequence[str]) -> Mapping[str, float]:
    return dict.fromkeys(keys, 1.0)


rates = pipeline.remote_table("rates", read=read, cache=Cache(size=9), timeout=MINUTE)
assert_type(rates, RemoteTable[str, float])
assert_type(pipeline.remote_table("many", read=read_many, batch=Batch(size=9)), RemoteTable[str, float])
calm = pipeline.remote_table("calm", read=read, breaker=Breaker("rates"), concurrency=Adaptive(), hedge=MINUTE / 2)
assert_type(calm, RemoteTable[str, float])
assert_type(numbers.join(rates, lambda n, rate: n * rate, id="rated"), KeyedStream[str, float])
rated = numbers.join(rates, lambda _, rate: rate, id="rated-left", how="left")
assert_type(rated, KeyedStream[str, float | None])


# Resources: what a function is given is known from what the factory makes.
class Client:
    """A context manager, as clients of libraries are."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def get(self, key: str) -> float | None:
        return float(key)


class Pool:
    """What is opened by a method of its own."""

    async def open(self) -> None:
        pass

    def close(self) -> None:
        pass


@resource
def clients() -> Client:
    return Client()


@resource
@asynccontextmanager
async def pools() -> AsyncGenerator[Pool, None]:
    yield Pool()


async def connected() -> Pool:
    return Pool()


async def entered() -> Client:
    return Client()


async def got(number: int, client: Client) -> list[float | None]:
    return [await client.get(str(number))]


async def row_of(key: str, client: Client) -> float | None:
    return await client.get(key)


async def rows_of(keys: Sequence[str], client: Client) -> Mapping[str, float]:
    return {key: await client.get(key) or 0.0 for key in keys}


async def put(key: str, row: float | None, client: Client) -> None:
    del key, row, client


assert_type(clients, Resource[Client])
assert_type(pools, Resource[Pool])
assert_type(resource(Pool), Resource[Pool])
assert_type(resource(connected), Resource[Pool])
assert_type(resource(entered), Resource[Client])
assert_type(resource(dict[str, int]), Resource[dict[str, int]])
assert_type(numbers.async_flat_map(got, id="got", resource=clients), KeyedStream[str, float | None])
assert_type(unkeyed.async_flat_map(got, id="got-too", resource=clients), MessageStream[float | None])
kept = pipeline.remote_table("kept", read=row_of, write=put, resource=clients)
assert_type(kept, RemoteTable[str, float])
assert_type(pipeline.remote_table("batched", read=rows_of, batch=Batch(), resource=clients), RemoteTable[str, float])
assert_type(numbers.join(kept, lambda n, row: n * row, id="joined-kept"), KeyedStream[str, float])
numbers.map(float).send_to(kept)
PipelineDriver(pipeline, resources={clients: Client()})


# Batches of calls.
async def got_all(values: Sequence[int]) -> list[list[float] | Exception]:
    return [[float(value)] for value in values]


async def got_lists(values: list[int]) -> list[list[float]]:
    return [[float(value)] for value in values]


async def got_with(values: list[int], client: Client) -> Sequence[Sequence[str] | OSError]:
    del client
    return [[str(value)] for value in values]


assert_type(numbers.async_flat_map(got_all, id="all", batch=Batch(size=9)), KeyedStream[str, float])
assert_type(numbers.async_flat_map(got_lists, id="lists", batch=Batch(), order="none"), KeyedStream[str, float])
assert_type(unkeyed.async_flat_map(got_with, id="with", batch=Batch(), resource=clients), MessageStream[str])


# Plain functions in threads.
def waited(value: int) -> list[str]:
    return [str(value)]


def waited_all(values: list[int], client: Client) -> list[list[str] | Exception]:
    del client
    return [[str(value)] for value in values]


def row_in_thread(key: str) -> float:
    return float(key)


pooled: PooledFunction[[list[int], Client], list[list[str] | Exception]] = in_threads(waited_all, threads=4)
assert_type(numbers.async_flat_map(in_threads(waited, threads=4), id="waited"), KeyedStream[str, str])
assert_type(unkeyed.async_flat_map(pooled, id="waited-all", batch=Batch(), resource=clients), MessageStream[str])
assert_type(pipeline.remote_table("waited", read=in_threads(row_in_thread, threads=4)), RemoteTable[str, float])
assert_type(unkeyed.async_flat_map(in_processes(waited, processes=2), id="computed"), MessageStream[str])
assert_type(KeyedExecutor(in_threads(row_in_thread, threads=4)), KeyedExecutor[str, float])


# Processors.
class Limits(KeyedProcessor[str, int, str]):
    """Keeps and emits something of every kind."""

    total = ValueState(int, 0)
    last = ValueState(int)
    recent = ListState(str, ttl=MINUTE)
    seen = MapState(str, float)
    clock = ClockTimers()
    high = Tag("high", int)

    def on_message(self, message: Message[int], context: Context[str]) -> Iterable[str | Tagged[int]]:
        assert_type(message.value, int)
        assert_type(context.key, str)
        assert_type(self.total.value, int)
        assert_type(self.last.value, int | None)
        assert_type(list(self.recent), list[str])
        assert_type(self.seen.get("x"), float | None)
        self.clock.set("tick", 1)
        context.timers.set("quiet", message.timestamp)
        yield self.high(message.value)

    def on_timer(self, timer: Timer, context: Context[str]) -> list[str]:
        assert_type(timer.time_is, Literal["event", "processing"])
        return [context.key]


processed = numbers.process(Limits(), id="limits")
assert_type(processed, ProcessedStream[str, str])
assert_type(processed.tagged(Limits.high), KeyedStream[str, int])
assert_type(processed.map(len), KeyedStream[str, int])


class Handing(StreamTask[str, int, str]):
    """A stream task with a state and a side output."""

    seen = ValueState(int, 0)
    high = Tag("high", int)

    def process(self, envelope: Envelope[str, int], collector: Collector[str], coordinator: TaskCoordinator) -> None:
        assert_type(envelope.key, str)
        assert_type(envelope.offset, int | None)
        self.seen.value += envelope.value
        collector.send(envelope.key)
        collector.send(envelope.value, to=self.high)
        coordinator.commit("all")


handed = pipeline.task(Handing, numbers, id="handed")
assert_type(handed, ProcessedStream[str, str])
assert_type(handed.tagged(Handing.high), KeyedStream[str, int])
by_task = pipeline.task(Handing, [numbers], id="by-task", state="task")
assert_type(by_task, TaskStream[str])
assert_type(by_task.tagged(Handing.high), MessageStream[int])


class Printer:
    """A sink."""

    def open(self) -> None: ...
    def write(self, messages: Sequence[Message[int]]) -> None: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...


sink: Sink[int] = Printer()
assert_type(numbers.sink(Printer(), id="printer"), None)

# Plans and runs.
made = plan(pipeline, partitions={"clicks": 4}, settings=Settings(commit_interval=MINUTE, guarantee="exactly_once"))
assert_type(made, Plan)
assert_type(made.stages, tuple[PlannedStage, ...])
assert_type(draw(made, "svg"), str)


def start() -> None:
    """Run it; never called here."""
    assert_type(run(pipeline, engine="spark", system="log:here", until="end"), Report)
    run(pipeline, system=KafkaSystem("kafka://localhost:9092"))


with PipelineDriver(Pipeline("empty"), partitions={"in": 1}) as driver:
    driver.send("in", 1, key="a", timestamp=0)
    driver.advance(MINUTE)
    assert_type(driver.read("out"), list[Message[Any]])
    assert_type(driver.report(), Report)

called: Callable[[Click], Awaitable[Iterable[str]]] = fetch


# Types that are several: unions and optional ones.
several = Pipeline("several")
optional = several.stream("optional", value=int | None)
assert_type(optional, MessageStream[int | None])
optional.partition_by(str, id="by", key_type=str, value=int | None).send_to("shown", value=int | None)
optional.broadcast(id="all", value=int | None)
assert_type(several.stream("either", key=str, value=int | str), KeyedStream[str, int | str])
assert_type(several.table("rows", key=str, value=int | str), Table[str, int | str])
assert_type(msgpack(int | None), Serde[int | None])


class Several(KeyedProcessor[str, int, int]):
    """States of several types."""

    latest = ValueState(int | str)
    first = ValueState(int | str, 0)
    items = ListState(int | None)
    named = MapState(str, int | None)

    def on_message(self, message: Message[int], context: Context[str]) -> Iterable[int]:
        self.named[context.key] = message.value
        assert_type(self.latest.value, int | str | None)
        assert_type(self.first.value, int | str)
        assert_type(list(self.items), list[int | None])
        assert_type(self.named["a"], int | None)
        return ()
