"""The workloads as loops over the Kafka client: `python -m benchmarks.references.raw`. State is in memory alone.

A loop knows its job: it calls no function that it could write in place, and decodes no field that it does not need.
"""

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from benchmarks.constants import DEAR, IN_FLIGHT, LOOKUP, MINUTE, OUT_OF_ORDER, WITHIN
from benchmarks.events import Event
from benchmarks.job import Job
from benchmarks.references.client import Client
from benchmarks.references.spans import Sessions
from benchmarks.sources import PARTITIONS
from benchmarks.workloads import DearEvent, Paid, Placed, Question, Score, Settled, Spent, Total, Views, Visit

END = 1 << 62
"""A time after all times."""

SWEEP = 50_000
"""W6 looks after so many messages for what is too old to be joined."""


def w1(job: Job, client: Client) -> None:
    """Decode, filter, map, encode."""
    decode, encode = msgspec.json.Decoder(Event).decode, msgspec.json.Encoder().encode
    produce, out = client.produce, job.output
    for batch in client.batches():
        for message in batch:
            event = decode(message.value())
            if event.cents < DEAR:
                continue
            value = encode(
                DearEvent(
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
            )
            try:
                produce(out, value, message.key())
            except BufferError:
                send(client, out, value, message.key())


def w2(job: Job, client: Client) -> None:
    """Count and sum per user and minute; a minute is over in a partition when a message comes that is late enough."""
    decode = msgspec.json.Decoder(Spent).decode
    minutes: list[dict[int, dict[str, list[int]]]] = [defaultdict(dict) for _ in range(64)]
    oldest = [END] * 64
    for batch in client.batches():
        for message in batch:
            spent, partition = decode(message.value()), message.partition()
            at = spent.at
            start = at - at % MINUTE
            users = minutes[partition][start]
            total = users.get(spent.user)
            if total is None:
                users[spent.user] = [1, spent.cents]
                if start < oldest[partition]:
                    oldest[partition] = start
            else:
                total[0] += 1
                total[1] += spent.cents
            if at - OUT_OF_ORDER - MINUTE >= oldest[partition]:
                oldest[partition] = close_minutes(job, client, minutes[partition], at - OUT_OF_ORDER - MINUTE)
    for windows in minutes:
        close_minutes(job, client, windows, END)


def close_minutes(job: Job, client: Client, windows: dict[int, dict[str, list[int]]], last: int) -> int:
    """Write the minutes that start at `last` or before; the start of the oldest that is left."""
    encode, produce, out = msgspec.json.Encoder().encode, client.produce, job.output
    for start in sorted(start for start in windows if start <= last):
        for user, (count, cents) in windows.pop(start).items():
            value = encode(Total(user, start, count, cents))
            try:
                produce(out, value, user)
            except BufferError:
                send(client, out, value, user)
    return min(windows, default=END)


def w3(job: Job, client: Client) -> None:
    """Repartition by page, running count."""
    decode, encode = msgspec.json.Decoder(Visit).decode, msgspec.json.Encoder().encode
    produce, out, source, middle = client.produce, job.output, job.input, f"{job.name}-by-page"
    counts: dict[str, int] = defaultdict(int)
    client.make(middle)
    for batch in client.batches(middle):
        for message in batch:
            visit = decode(message.value())
            page = visit.page
            if message.topic() == source:
                topic, value = middle, encode(visit)
            else:
                counts[page] = count = counts[page] + 1
                topic, value = out, encode(Views(page, count))
            try:
                produce(topic, value, page)
            except BufferError:
                send(client, topic, value, page)


def w4(job: Job, client: Client) -> None:
    """Sessions per user; one is over when a message comes that is more than the gap behind its last."""
    decode = msgspec.json.Decoder(Spent).decode
    partitions = [Sessions() for _ in range(64)]
    for batch in client.batches():
        for message in batch:
            spent = decode(message.value())
            sessions = partitions[message.partition()]
            sessions.add(spent.user, spent.at, spent.cents)
            if spent.at - OUT_OF_ORDER >= sessions.due:
                close_sessions(job, client, sessions, spent.at - OUT_OF_ORDER)
    for sessions in partitions:
        close_sessions(job, client, sessions, END)


def close_sessions(job: Job, client: Client, sessions: Sessions, watermark: int) -> None:
    """Write the sessions that are over."""
    encode, produce, out = msgspec.json.Encoder().encode, client.produce, job.output
    for user, (start, _, count, cents) in sessions.over(watermark):
        value = encode(Total(user, start, count, cents))
        try:
            produce(out, value, user)
        except BufferError:
            send(client, out, value, user)


def w5(job: Job, client: Client) -> None:
    """Asynchronous lookups, each by one of as many workers as there may be lookups in flight."""
    asyncio.run(look_all_up(job, client))


async def look_all_up(job: Job, client: Client) -> None:
    """Hand messages to idle workers. Nobody waits for a worker: those at work look for more before they rest."""
    decode, encode = msgspec.json.Decoder(Question).decode, msgspec.json.Encoder().encode
    produce, out, left = client.produce, job.output, client.begin()
    queue: deque[Any] = deque()
    idle: list[asyncio.Event] = []

    async def work() -> None:
        rested = asyncio.Event()
        while True:
            while not queue:
                rested.clear()
                idle.append(rested)
                await rested.wait()
            message = queue.popleft()
            question = decode(message.value())
            await asyncio.sleep(LOOKUP)
            value = encode(Score(question.seq, len(question.page)))
            try:
                produce(out, value, message.key())
            except BufferError:
                send(client, out, value, message.key())

    workers = [asyncio.create_task(work()) for _ in range(IN_FLIGHT)]
    await asyncio.sleep(0)
    while left > 0 or queue or len(idle) < IN_FLIGHT:
        batch = client.take() if left > 0 and len(queue) < IN_FLIGHT else []
        left -= len(batch)
        queue.extend(batch)
        for _ in range(min(len(queue), len(idle))):
            idle.pop().set()
        await asyncio.sleep(0 if batch else 0.001)
    for worker in workers:
        worker.cancel()


def w6(job: Job, client: Client) -> None:
    """Join orders with payments, of which each has one at most; what is too old to be joined is forgotten at times."""
    decode_order, decode_payment = msgspec.json.Decoder(Placed).decode, msgspec.json.Decoder(Paid).decode
    encode, produce, out = msgspec.json.Encoder().encode, client.produce, job.output
    orders: dict[str, Placed] = {}
    payments: dict[str, Paid] = {}
    source, ordered, settled, kept = job.inputs[0], [0] * PARTITIONS, [0] * PARTITIONS, 0
    for batch in client.batches():
        for message in batch:
            if message.topic() == source:
                order = decode_order(message.value())
                name = order.order
                orders[name] = order
                ordered[message.partition()] = order.at
                payment = payments.get(name)
                if payment is None:
                    continue
            else:
                payment = decode_payment(message.value())
                name = payment.order
                payments[name] = payment
                settled[message.partition()] = payment.at
                found = orders.get(name)
                if found is None:
                    continue
                order = found
            if not 0 <= payment.at - order.at <= WITHIN:
                continue
            value = encode(Settled(name, order.amount, payment.paid, order.user))
            try:
                produce(out, value, name)
            except BufferError:
                send(client, out, value, name)
        kept += len(batch)
        if kept > SWEEP:
            kept, oldest = 0, min(*ordered, *settled) - OUT_OF_ORDER - WITHIN
            orders = {name: order for name, order in orders.items() if order.at >= oldest}
            payments = {name: payment for name, payment in payments.items() if payment.at >= oldest}


def send(client: Client, topic: str, value: bytes, key: Any) -> None:
    """Produce, however long the queue is full."""
    while True:
        client.make_room()
        try:
            return client.produce(topic, value, key)
        except BufferError:
            continue


LOOPS: Mapping[str, Callable[[Job, Client], None]] = {"W1": w1, "W2": w2, "W3": w3, "W4": w4, "W5": w5, "W6": w6}


def main() -> None:
    """Run the job of this process."""
    job = Job.given()
    client = Client(job)
    LOOPS[job.workload](job, client)
    client.close()


if __name__ == "__main__":
    main()
