"""The workloads on Pathway: a read that ends with the input. It tells nothing of single messages: its start counts.

Windows write each change, for those that are to write once lose data in a replay.
"""

import asyncio
import time

import pathway as pw

from benchmarks.constants import DEAR, GAP, IN_FLIGHT, LOOKUP, MINUTE, WITHIN
from benchmarks.job import FIRST, Job

job = Job.given()
settings = {"bootstrap.servers": job.address, "group.id": job.name, "auto.offset.reset": "earliest"}


class Event(pw.Schema):
    """A click."""

    seq: int
    user: str
    session: str
    page: str
    at: int
    cents: int
    agent: str
    referrer: str


class Order(pw.Schema):
    """An order, as far as it is read."""

    order: str
    user: str
    at: int
    amount: int


class Payment(pw.Schema):
    """A payment, as far as it is read."""

    order: str
    at: int
    paid: int


@pw.udf(executor=pw.udfs.async_executor(capacity=IN_FLIGHT))
async def score(page: str) -> int:
    """One lookup."""
    await asyncio.sleep(LOOKUP)
    return len(page)


def totals(events, window):
    """Count and sum per user and window."""
    return events.windowby(events.at, window=window, instance=events.user).reduce(
        user=pw.this._pw_instance,
        start=pw.this._pw_window_start,
        count=pw.reducers.count(),
        cents=pw.reducers.sum(pw.this.cents),
    )


def w1(events):
    kept = events.filter(events.cents >= DEAR)
    return kept.with_columns(minute=kept.at // MINUTE)


def w2(events):
    return totals(events, pw.temporal.tumbling(duration=MINUTE))


def w3(events):
    return events.groupby(events.page).reduce(events.page, count=pw.reducers.count())


def w4(events):
    return totals(events, pw.temporal.session(max_gap=GAP))


def w5(events):
    return events.select(events.seq, score=score(events.page))


def w6(orders, payments):
    within = pw.temporal.interval(0, WITHIN)
    joined = orders.interval_join(payments, orders.at, payments.at, within, orders.order == payments.order)
    return joined.select(orders.order, orders.amount, payments.paid, orders.user)


def read(topic, schema):
    """The messages of a topic."""
    mode = "streaming" if job.endless else "static"
    return pw.io.kafka.read(settings, topic=topic, schema=schema, format="json", mode=mode, autocommit_duration_ms=100)


workloads = {"W1": w1, "W2": w2, "W3": w3, "W4": w4, "W5": w5, "W6": w6}
schemas = [Order, Payment] if job.workload == "W6" else [Event]
made = workloads[job.workload](*map(read, job.inputs, schemas))
pw.io.kafka.write(made, {"bootstrap.servers": job.address}, job.output, format="json")
job.note(FIRST, time.time())
pw.run(monitoring_level=pw.MonitoringLevel.NONE)
