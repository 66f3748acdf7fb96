"""The workloads in Fluvial's language; both engines run these. A function is given its job, or finds it around it."""

import asyncio
import os
import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import msgspec

from benchmarks.constants import DEAR, GAP, IN_FLIGHT, LOOKUP, MINUTE, OUT_OF_ORDER, WITHIN
from benchmarks.events import Event
from benchmarks.job import FIRST, VARIABLE, Job
from benchmarks.workloads import DearEvent, Paid, Placed, Question, Score, Settled, Spent, Total, Views, Visit
from fluvial.dsl import (
    Context,
    KeyedProcessor,
    Message,
    Pane,
    Pipeline,
    Serde,
    ValueState,
    aggregate,
    session,
    tumbling,
)

Counted = tuple[int, int]
"""Events, and their cents."""

waiting = True


def note_first() -> None:
    """Note that this process has its first message, if it is measured. It costs the others a look at `waiting`."""
    global waiting  # noqa: PLW0603 - one job in a process
    waiting = False
    if VARIABLE in os.environ:
        Job.given().note(FIRST, time.time())


def is_dear(event: Event) -> bool:
    """True of about every other event."""
    if waiting:
        note_first()
    return event.cents >= DEAR


def with_minute(event: Event) -> DearEvent:
    """The event with its minute."""
    return DearEvent(
        event.seq,
        event.user,
        event.session,
        event.page,
        event.at,
        event.cents,
        event.agent,
        event.referrer,
        event.at // MINUTE,
    )


def w1(job: Job | None = None) -> Pipeline:
    """Decode, filter, map, encode."""
    job = job or Job.given()
    pipeline = Pipeline(job.name)
    pipeline.stream(job.input, value=Event, key=str).filter(is_dear).map(with_minute).send_to(job.output)
    return pipeline


def nothing() -> Counted:
    """What a window begins with."""
    return 0, 0


_decode = msgspec.json.Decoder(Spent).decode


def read(data: bytes) -> Spent:
    """What is read of an event. Spark reads a message, and takes it through a shuffle, long before a window has it."""
    if waiting:
        note_first()
    return _decode(data)


SPENT = Serde("spent", Spent, msgspec.json.Encoder().encode, read)


def add(counted: Counted, spent: Spent) -> Counted:
    """One event more."""
    return counted[0] + 1, counted[1] + spent.cents


def merge(one: Counted, other: Counted) -> Counted:
    """Two sessions that have become one."""
    return one[0] + other[0], one[1] + other[1]


def to_total(pane: Pane[str, Counted]) -> Total:
    """What a window says."""
    return Total(pane.key, pane.window.start, *pane.value)


def _totals(assigner: Any, job: Job | None) -> Pipeline:
    job = job or Job.given()
    pipeline = Pipeline(job.name)
    (
        pipeline.stream(job.input, value=SPENT, key=str, out_of_order=timedelta(milliseconds=OUT_OF_ORDER))
        .window(assigner, aggregate(nothing, add, merge=merge), id="totals")
        .map(to_total)
        .send_to(job.output)
    )
    return pipeline


def w2(job: Job | None = None) -> Pipeline:
    """Count and sum per user and minute."""
    return _totals(tumbling(timedelta(milliseconds=MINUTE)), job)


def page_of(visit: Visit) -> str:
    """The page."""
    if waiting:
        note_first()
    return visit.page


class CountViews(KeyedProcessor[str, Visit, Views]):
    """Tells at each visit how often its page has been seen by now."""

    seen = ValueState(int, 0)

    def on_message(self, message: Message[Visit], context: Context[str]) -> list[Views]:  # noqa: ARG002
        """Count one more."""
        self.seen.value = seen = self.seen.value + 1
        return [Views(message.value.page, seen)]


def w3(job: Job | None = None) -> Pipeline:
    """Repartition by page, running count."""
    job = job or Job.given()
    pipeline = Pipeline(job.name)
    (
        pipeline.stream(job.input, value=Visit)
        .partition_by(page_of, id="by-page", key_type=str, value=Visit)
        .process(CountViews(), id="views")
        .send_to(job.output)
    )
    return pipeline


def w4(job: Job | None = None) -> Pipeline:
    """Sessions per user."""
    return _totals(session(timedelta(milliseconds=GAP)), job)


async def look_up(question: Question) -> list[Score]:
    """Ask a service that takes its time."""
    if waiting:
        note_first()
    await asyncio.sleep(LOOKUP)
    return [Score(question.seq, len(question.page))]


def w5(job: Job | None = None) -> Pipeline:
    """Asynchronous lookups; their results may leave in any order, as those of the loop by hand do."""
    job = job or Job.given()
    pipeline = Pipeline(job.name)
    (
        pipeline.stream(job.input, value=Question, key=str)
        .async_flat_map(look_up, id="lookup", max_in_flight=IN_FLIGHT // job.tasks, order="none")
        .send_to(job.output)
    )
    return pipeline


_decode_order = msgspec.json.Decoder(Placed).decode
_decode_payment = msgspec.json.Decoder(Paid).decode


def read_order(data: bytes) -> Placed:
    """What is read of an order."""
    if waiting:
        note_first()
    return _decode_order(data)


def read_payment(data: bytes) -> Paid:
    """What is read of a payment; it may be what comes first."""
    if waiting:
        note_first()
    return _decode_payment(data)


PLACED = Serde("placed", Placed, msgspec.json.Encoder().encode, read_order)
PAID = Serde("paid", Paid, msgspec.json.Encoder().encode, read_payment)


def settle(order: Placed, payment: Paid) -> Settled:
    """An order with its payment."""
    return Settled(order.order, order.amount, payment.paid, order.user)


def w6(job: Job | None = None) -> Pipeline:
    """Orders joined with payments."""
    job = job or Job.given()
    pipeline = Pipeline(job.name)
    from_orders, from_payments = job.inputs
    out_of_order = timedelta(milliseconds=OUT_OF_ORDER)
    orders = pipeline.stream(from_orders, value=PLACED, key=str, out_of_order=out_of_order)
    payments = pipeline.stream(from_payments, value=PAID, key=str, out_of_order=out_of_order)
    orders.join(payments, settle, id="settled", within=timedelta(milliseconds=WITHIN)).send_to(job.output)
    return pipeline


PIPELINES: Mapping[str, Any] = {"W1": w1, "W2": w2, "W3": w3, "W4": w4, "W5": w5, "W6": w6}
