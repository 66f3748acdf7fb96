"""The workloads on Bytewax, with its own connector; a reader that ends at the end of the input closes its windows.

Its clock is told not to wake on the wall clock: in a replay all wake-ups lie in the past, and each batch would wake
every key.
"""

import asyncio
from datetime import UTC, datetime, timedelta

import bytewax.operators as op
import bytewax.operators.windowing as win
import orjson
from bytewax.connectors.kafka import KafkaSink, KafkaSinkMessage, KafkaSource
from bytewax.dataflow import Dataflow
from bytewax.testing import run_main

from benchmarks.constants import DEAR, GAP, IN_FLIGHT, LOOKUP, MINUTE, OUT_OF_ORDER, WITHIN
from benchmarks.job import Job, Seen

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

job = Job.given()
seen = Seen(job)
flow = Dataflow("benchmark")
loop = asyncio.new_event_loop()


def decode(message):
    """The event."""
    seen.add()
    return orjson.loads(message.value)


def time_of(event):
    """When it was."""
    return datetime.fromtimestamp(event["at"] / 1000, UTC)


def message(key, value):
    """A message to write."""
    return KafkaSinkMessage(key.encode(), orjson.dumps(value))


def dear(record):
    """Decode, filter, map, encode."""
    event = decode(record)
    if event["cents"] < DEAR:
        return None
    event["minute"] = event["at"] // MINUTE
    return KafkaSinkMessage(record.key, orjson.dumps(event))


def add(total, event):
    """One event more."""
    total[0] += 1
    total[1] += event["cents"]
    total[2] = min(total[2], event["at"])
    return total


def merge(one, other):
    """Two sessions that have become one."""
    return [one[0] + other[0], one[1] + other[1], min(one[2], other[2])]


def totals(events, windower, start_of):
    """Count and sum per user and window."""
    users = op.key_on("user", op.map("decode", events, decode), lambda event: event["user"])
    clock = win.EventClock(
        ts_getter=time_of,
        to_system_utc=lambda _: None,
        wait_for_system_duration=timedelta(milliseconds=OUT_OF_ORDER),
    )
    found = win.fold_window("totals", users, clock, windower, lambda: [0, 0, 1 << 62], add, merge)

    def to_total(keyed):
        user, (window, (count, cents, first)) = keyed
        return message(user, {"user": user, "start": start_of(window, first), "count": count, "cents": cents})

    return op.map("encode", found.down, to_total)


def w1(events):
    return op.filter_map("dear", events, dear)


def w2(events):
    windower = win.TumblingWindower(length=timedelta(milliseconds=MINUTE), align_to=EPOCH)
    return totals(events, windower, lambda window, _: window * MINUTE)


def w3(events):
    pages = op.key_on("page", op.map("decode", events, decode), lambda event: event["page"])
    counted = op.stateful_map("count", pages, lambda count, _: ((count or 0) + 1, (count or 0) + 1))
    return op.map("encode", counted, lambda keyed: message(keyed[0], {"page": keyed[0], "count": keyed[1]}))


def w4(events):
    return totals(events, win.SessionWindower(gap=timedelta(milliseconds=GAP)), lambda _, first: first)


async def look_up(record):
    """One lookup."""
    event = orjson.loads(record.value)
    await asyncio.sleep(LOOKUP)
    return KafkaSinkMessage(record.key, orjson.dumps({"seq": event["seq"], "score": len(event["page"])}))


async def look_all_up(records):
    """Lookups at once."""
    return await asyncio.gather(*map(look_up, records))


def lookups(records):
    """It has no asynchronous operator: a batch at a time."""
    seen.add(len(records))
    return [
        answer
        for first in range(0, len(records), IN_FLIGHT)
        for answer in loop.run_until_complete(look_all_up(records[first : first + IN_FLIGHT]))
    ]


def w5(events):
    return op.flat_map_batch("lookup", events, lookups)


def settle(keyed):
    """An order with its payment, if that is not too late."""
    order, (placed, paid) = keyed
    if not 0 <= paid["at"] - placed["at"] <= WITHIN:
        return None
    settled = {"order": order, "amount": placed["amount"], "paid": paid["paid"], "user": placed["user"]}
    return message(order, settled)


def w6(orders, payments):
    """It has no join by time: one by key, which keeps what has no partner, and a filter."""
    placed = op.key_on("order", op.map("decode order", orders, decode), lambda order: order["order"])
    paid = op.key_on("payment", op.map("decode payment", payments, decode), lambda payment: payment["order"])
    return op.filter_map("settle", op.join("join", placed, paid, emit_mode="complete"), settle)


def source(topic):
    """The messages of a topic."""
    return op.input(topic, flow, KafkaSource([job.address], [topic], tail=job.endless, batch_size=1000))


workloads = {"W1": w1, "W2": w2, "W3": w3, "W4": w4, "W5": w5, "W6": w6}
made = workloads[job.workload](*map(source, job.inputs))
op.output("out", made, KafkaSink([job.address], job.output))
run_main(flow)
