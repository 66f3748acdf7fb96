"""A pipeline with every kind of operator, each with options that its plan is to show."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from fluvial.dsl import (
    AsyncCollector,
    AsyncStreamTask,
    Batch,
    Cache,
    ClockTimers,
    Collector,
    Context,
    Envelope,
    KeyedProcessor,
    KeyedStream,
    ListState,
    MapState,
    Message,
    Pipeline,
    Retry,
    StreamTask,
    Tag,
    Tagged,
    TaskCoordinator,
    Timer,
    ValueState,
    after,
    after_count,
    any_of,
    collect,
    count,
    dead_letter,
    hopping,
    maximum,
    mean,
    msgpack,
    repeat,
    session,
    total,
    tumbling,
    unbounded,
)

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Order:
    """What somebody ordered."""

    user: str
    item: str
    cents: int
    at: int


@dataclass(frozen=True, slots=True)
class Payment:
    """What somebody paid."""

    user: str
    cents: int


@dataclass(frozen=True, slots=True)
class Paid:
    """An order and its payment; None as long as there is none."""

    order: Order
    payment: Payment | None


class Quiet(KeyedProcessor[str, Order, str]):
    """Keeps one of each state, sets timers of both times, and has a side output."""

    large = Tag("large", Order)
    last = ValueState(int, 0, ttl=HOUR)
    items = ListState(str)
    cents = MapState(str, int)
    clock = ClockTimers()

    def on_message(self, message: Message[Order], context: Context[str]) -> Iterable[str | Tagged[Order]]:
        context.timers.set("quiet", message.timestamp + 60_000)
        return [self.large(message.value)]

    def on_timer(self, timer: Timer, context: Context[str]) -> Iterable[str]:
        return [f"{context.key}: {timer.name}"]


class Refunds(StreamTask[str, Payment, str]):
    """A stream task with a state by key."""

    paid = ValueState(int, 0)

    def process(
        self, envelope: Envelope[str, Payment], collector: Collector[str], coordinator: TaskCoordinator
    ) -> None:
        self.paid.value += 1
        collector.send(f"{envelope.key}: {self.paid.value}")
        coordinator.commit()


class Receipts(AsyncStreamTask[str, Payment, str]):
    """An asynchronous stream task."""

    max_in_flight = 20

    async def process(
        self, envelope: Envelope[str, Payment], collector: AsyncCollector[str], coordinator: TaskCoordinator
    ) -> None:
        del coordinator
        collector.send(envelope.key)


class Ledger:
    """A sink."""

    def open(self) -> None:
        """Open nothing."""

    def write(self, messages: Sequence[Message[Any]]) -> None:
        """Leave the messages out."""

    flush = close = open


def at(order: Order) -> int:
    return order.at


def user(order: Order) -> str:
    return order.user


def item(order: Order) -> str:
    return order.item


def cents(order: Order) -> int:
    return order.cents


def is_large(order: Order) -> bool:
    return order.cents > 10_000


def is_free(order: Order) -> bool:
    return order.cents == 0


def items(order: Order) -> list[str]:
    return order.item.split()


def stamped(message: Message[Order]) -> Message[str]:
    return Message(message.key, message.value.item, message.timestamp)


def paid(order: Order, payment: Payment | None) -> Paid:
    return Paid(order, payment)


def either(order: Order | None, payment: Payment | None) -> str:
    return f"{order} {payment}"


def with_name(order: Order, name: str | None) -> str:
    return f"{name}: {order.item}"


def person(name: str, town: str | None) -> str:
    return f"{name} of {town}"


async def score(order: Order) -> list[int]:
    return [order.cents]


async def prices(names: Sequence[str]) -> Mapping[str, int]:
    return dict.fromkeys(names, 0)


async def keep(rows: Mapping[str, int | None]) -> None:
    """Keep nothing."""


def every_kind() -> Pipeline:
    """A pipeline in which each kind of operator is."""
    pipeline = Pipeline("every-kind", on_error=dead_letter())
    orders = pipeline.stream("orders", value=Order, timestamp=at, out_of_order=SECOND, idle_after=MINUTE)
    _passing(pipeline, orders)
    by_user = orders.partition_by(user, id="by-user")
    _windows(by_user)
    _meetings(pipeline, by_user)
    _tables(pipeline, by_user)
    return pipeline


def _passing(pipeline: Pipeline, orders: Any) -> None:
    """What keeps nothing."""
    large, free, others = orders.split(is_large, is_free)
    large.filter(lambda order: order.at > 0).map(item).send_to("items", key=len)
    free.flat_map(items).send_to("items")
    others.map_messages(stamped).sink(Ledger(), id="ledger")
    rules = pipeline.stream("rules", value=str, bootstrap=True).broadcast(id="rules")
    orders.map(item).merge(rules).send_to("items")
    retry = Retry(attempts=2, on=(OSError,))
    scores = orders.async_flat_map(score, id="score", max_in_flight=7, order="input", timeout=SECOND, retry=retry)
    scores.send_to("scores", value=msgpack(int))


def _windows(orders: KeyedStream[str, Order]) -> None:
    """Each assigner, with aggregates and triggers."""
    early, late = repeat(any_of(after_count(9), after(first=SECOND))), after_count(2)
    day = tumbling(timedelta(days=1))
    orders.window(
        day, count(), id="daily", trigger=early, late_trigger=late, lateness=HOUR, late_to="late-orders"
    ).send_to("counts")
    orders.window(hopping(HOUR, MINUTE), total(cents), id="hourly", accumulate=False).send_to("totals")
    orders.window(session(MINUTE), collect(), id="visits").send_to("visits")
    orders.window(unbounded(), mean(cents), id="ever", trigger=repeat(after_count(1))).send_to("means")
    orders.window(tumbling(MINUTE), maximum(cents), id="busiest", time="processing").send_to("busiest")


def _meetings(pipeline: Pipeline, orders: KeyedStream[str, Order]) -> None:
    """What keeps messages of two inputs, or of a key."""
    payments = pipeline.stream("payments", key=str, value=Payment)
    orders.join(payments, paid, id="paid", within=HOUR, how="left").send_to("paid")
    orders.join(payments, either, id="latest", within=MINUTE, how="outer", retain="latest").send_to("latest")
    orders.join(payments, paid, id="now", within=MINUTE, time="processing").send_to("paid")
    once = orders.deduplicate(HOUR, by=item, id="once")
    quiet = once.process(Quiet(), id="quiet")
    quiet.send_to("quiet")
    quiet.tagged(Quiet.large).send_to("large")
    pipeline.task(Refunds, payments, id="refunds").send_to("refunds")
    pipeline.task(Receipts, payments, id="receipts").send_to("receipts")


def _tables(pipeline: Pipeline, orders: KeyedStream[str, Order]) -> None:
    """Tables of the pipeline, and one that is kept elsewhere."""
    names = pipeline.table("names", key=str, value=str)
    towns = pipeline.table("towns", key=str, value=str)
    last = pipeline.table("last", key=str, value=Order)
    orders.send_to(last)
    people = names.join(towns, person, id="people", how="left")
    people.changes().send_to("people")
    orders.join(people, with_name, id="named", how="left").send_to("named")
    cache, batch = Cache(size=100, ttl=MINUTE), Batch(size=10, delay=SECOND)
    remote = pipeline.remote_table("prices", read=prices, write=keep, cache=cache, batch=batch, reads_per_second=50)
    priced = orders.join(remote, lambda order, price: order.cents - price, id="priced")
    priced.map(abs).send_to(remote)
