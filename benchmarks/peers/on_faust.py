"""The workloads on faust-streaming, tables in memory with changelogs.

Its windows do not emit when they close, so W2 writes each change; it has no sessions.
"""

import asyncio
import sys
from datetime import timedelta

import faust

from benchmarks.constants import DEAR, IN_FLIGHT, LOOKUP, MINUTE
from benchmarks.job import Job, Seen

job = Job.given()
seen = Seen(job)
app = faust.App(
    job.name,
    broker=f"kafka://{job.address}",
    datadir=job.folder,
    topic_partitions=4,
    topic_replication_factor=1,
    store="memory://",
    web_enabled=False,
    consumer_auto_offset_reset="earliest",
    value_serializer="json",
)
source = app.topic(job.input, key_type=str, key_serializer="raw", value_serializer="json")
out = app.topic(job.output, key_type=str, key_serializer="raw", value_serializer="json")


async def w1(stream):
    async for key, event in stream.items():
        seen.add()
        if event["cents"] >= DEAR:
            event["minute"] = event["at"] // MINUTE
            await out.send(key=key, value=event)


def totals_of_minutes():
    """Tables for W2, of which a worker must know before it starts."""

    def table(name):
        minutes = app.Table(name, default=int).tumbling(timedelta(milliseconds=MINUTE), expires=timedelta(hours=24))
        return minutes.relative_to(lambda event: event.message.timestamp)

    counts, sums = table("counts"), table("sums")

    async def w2(stream):
        async for event in stream:
            seen.add()
            user = event["user"]
            counts[user] += 1
            sums[user] += event["cents"]
            total = {"count": counts[user].current(), "cents": sums[user].current()}
            await out.send(key=user, value={"user": user, "start": event["at"] // MINUTE * MINUTE, **total})

    return w2


def counts_of_pages():
    """The table for W3."""
    counts = app.Table("pages", default=int)

    async def w3(stream):
        async for event in stream.group_by(lambda event: event["page"], name="page"):
            seen.add()
            page = event["page"]
            counts[page] += 1
            await out.send(key=page, value={"page": page, "count": counts[page]})

    return w3


async def look_up(event):
    await asyncio.sleep(LOOKUP)
    await out.send(key=event["user"], value={"seq": event["seq"], "score": len(event["page"])})


async def w5(stream):
    async for batch in stream.take(IN_FLIGHT, within=0.05):
        seen.add(len(batch))
        await asyncio.gather(*map(look_up, batch))


agents = {"W1": lambda: w1, "W2": totals_of_minutes, "W3": counts_of_pages, "W5": lambda: w5}
app.agent(source)(agents[job.workload]())
sys.argv = ["faust", "worker", "-l", "warn", "--without-web"]
app.main()
