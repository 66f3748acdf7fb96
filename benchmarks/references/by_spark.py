"""The workloads as one would write them for Structured Streaming: `python -m benchmarks.references.by_spark`.

Values are decoded and encoded by the same code as elsewhere, in batches; Spark itself groups, counts and sums.
"""

import asyncio
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody does
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from benchmarks.constants import DEAR, GAP, IN_FLIGHT, LOOKUP, MINUTE, OUT_OF_ORDER, WITHIN
from benchmarks.contenders import SPARK_CORES, SPARK_MEMORY
from benchmarks.events import Event
from benchmarks.job import FIRST, Job
from benchmarks.sources import PARTITIONS
from benchmarks.workloads import DearEvent, Paid, Placed, Question, Score, Settled, Spent, Total, Views, Visit
from kafka.broker_jars import CONNECTOR

Batches = Iterable[pa.RecordBatch]
Step = Callable[[Batches], Iterator[pa.RecordBatch]]

MESSAGES = "key binary, value binary"
SPENT = "user string, at long, cents long"
PLACED = "order string, user string, at long, amount long"
COUNTED = "page string, count long"
PAID = "of string, at long, paid long"
STATE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def dear(batches: Batches) -> Iterator[pa.RecordBatch]:
    """Decode, filter, map, encode."""
    decode, encode = msgspec.json.Decoder(Event).decode, msgspec.json.Encoder().encode
    for keys, values in columns(batches, "key", "value"):
        rows = [(key, event) for key, event in zip(keys, map(decode, values), strict=True) if event.cents >= DEAR]
        made = (
            encode(DearEvent(e.seq, e.user, e.session, e.page, e.at, e.cents, e.agent, e.referrer, e.at // MINUTE))
            for _, e in rows
        )
        yield messages((key for key, _ in rows), made)


def spent(batches: Batches) -> Iterator[pa.RecordBatch]:
    """What windows need of each event."""
    decode = msgspec.json.Decoder(Spent).decode
    for (values,) in columns(batches, "value"):
        found = [decode(value) for value in values]
        users = pa.array([event.user for event in found], pa.string())
        times = pa.array([event.at for event in found], pa.int64())
        cents = pa.array([event.cents for event in found], pa.int64())
        yield pa.RecordBatch.from_arrays([users, times, cents], names=["user", "at", "cents"])


def totals(batches: Batches) -> Iterator[pa.RecordBatch]:
    """Totals of windows as messages."""
    encode = msgspec.json.Encoder().encode
    for users, *numbers in columns(batches, "user", "start", "count", "cents"):
        rows = zip(users, *numbers, strict=True)
        yield messages((user.encode() for user in users), (encode(Total(*row)) for row in rows))


def pages(batches: Batches) -> Iterator[pa.RecordBatch]:
    """The page of each event."""
    decode = msgspec.json.Decoder(Visit).decode
    for (values,) in columns(batches, "value"):
        yield pa.RecordBatch.from_arrays([pa.array([decode(value).page for value in values])], names=["page"])


def running(page: tuple[str], visits: Iterable[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    """The count of a page at each of its visits."""
    seen = state.get[0] if state.exists else 0
    for frame in visits:
        until = seen + len(frame)
        yield pd.DataFrame({"page": page[0], "count": range(seen + 1, until + 1)})
        seen = until
    state.update((seen,))


def views(batches: Batches) -> Iterator[pa.RecordBatch]:
    """Counts of pages as messages."""
    encode = msgspec.json.Encoder().encode
    for found, counts in columns(batches, "page", "count"):
        made = (encode(Views(page, count)) for page, count in zip(found, counts, strict=True))
        yield messages((page.encode() for page in found), made)


def lookups(batches: Batches) -> Iterator[pa.RecordBatch]:
    """Asynchronous lookups; both cores together have as many in flight as there may be."""
    loop = asyncio.new_event_loop()
    for keys, values in columns(batches, "key", "value"):
        yield messages(keys, loop.run_until_complete(look_all_up(values)))
    loop.close()


async def look_all_up(values: list[bytes]) -> list[bytes]:
    """The answers, in the order of the questions."""
    decode, encode = msgspec.json.Decoder(Question).decode, msgspec.json.Encoder().encode
    waiting = iter(enumerate(values))
    found = [b""] * len(values)

    async def work() -> None:
        for index, value in waiting:
            question = decode(value)
            await asyncio.sleep(LOOKUP)
            found[index] = encode(Score(question.seq, len(question.page)))

    await asyncio.gather(*(work() for _ in range(IN_FLIGHT // SPARK_CORES)))
    return found


def placed(batches: Batches) -> Iterator[pa.RecordBatch]:
    """What the join needs of each order."""
    decode = msgspec.json.Decoder(Placed).decode
    for (values,) in columns(batches, "value"):
        found = [decode(value) for value in values]
        names = pa.array([order.order for order in found], pa.string())
        users = pa.array([order.user for order in found], pa.string())
        times = pa.array([order.at for order in found], pa.int64())
        amounts = pa.array([order.amount for order in found], pa.int64())
        yield pa.RecordBatch.from_arrays([names, users, times, amounts], names=["order", "user", "at", "amount"])


def paid(batches: Batches) -> Iterator[pa.RecordBatch]:
    """What the join needs of each payment."""
    decode = msgspec.json.Decoder(Paid).decode
    for (values,) in columns(batches, "value"):
        found = [decode(value) for value in values]
        names = pa.array([payment.order for payment in found], pa.string())
        times = pa.array([payment.at for payment in found], pa.int64())
        amounts = pa.array([payment.paid for payment in found], pa.int64())
        yield pa.RecordBatch.from_arrays([names, times, amounts], names=["of", "at", "paid"])


def settlements(batches: Batches) -> Iterator[pa.RecordBatch]:
    """Orders with their payments as messages."""
    encode = msgspec.json.Encoder().encode
    for names, *others in columns(batches, "order", "amount", "paid", "user"):
        rows = zip(names, *others, strict=True)
        yield messages((name.encode() for name in names), (encode(Settled(*row)) for row in rows))


def columns(batches: Batches, *names: str) -> Iterator[list[list[Any]]]:
    """The columns of each batch as lists."""
    for batch in batches:
        yield [batch.column(name).to_pylist() for name in names]


def messages(keys: Iterable[bytes], values: Iterable[bytes]) -> pa.RecordBatch:
    """Keys and values as a batch."""
    arrays = [pa.array(list(keys), pa.binary()), pa.array(list(values), pa.binary())]
    return pa.RecordBatch.from_arrays(arrays, names=["key", "value"])


def noting(job: Job, step: Step) -> Step:
    """The step; it notes when it has its first batch."""

    def noted(batches: Batches) -> Iterator[pa.RecordBatch]:
        yield from step(told(batches))

    def told(batches: Batches) -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(batches):
            if not number:
                job.note(FIRST, time.time())
            yield batch

    return noted


def w1(job: Job, source: DataFrame) -> tuple[DataFrame, str]:
    """Decode, filter, map, encode."""
    return source.mapInArrow(noting(job, dear), MESSAGES), "append"


def w2(job: Job, source: DataFrame) -> tuple[DataFrame, str]:
    """Count and sum per user and minute."""
    return _totals(job, source, F.window("time", f"{MINUTE} milliseconds")), "append"


def w3(job: Job, source: DataFrame) -> tuple[DataFrame, str]:
    """Repartition by page, running count: one for each batch."""
    counted = source.select("value").mapInArrow(noting(job, pages), "page string").groupBy("page").count()
    return counted.mapInArrow(views, MESSAGES), "update"


def w3_each(job: Job, source: DataFrame) -> tuple[DataFrame, str]:
    """Repartition by page, running count: one for each event, as the other programs write them."""
    visits = source.select("value").mapInArrow(noting(job, pages), "page string").groupBy("page")
    counted = visits.applyInPandasWithState(running, COUNTED, "seen long", "append", GroupStateTimeout.NoTimeout)
    return counted.mapInArrow(views, MESSAGES), "append"


def w4(job: Job, source: DataFrame) -> tuple[DataFrame, str]:
    """Sessions per user."""
    return _totals(job, source, F.session_window("time", f"{GAP} milliseconds")), "append"


def w5(job: Job, source: DataFrame) -> tuple[DataFrame, str]:
    """Asynchronous lookups."""
    return source.mapInArrow(noting(job, lookups), MESSAGES), "append"


def _totals(job: Job, source: DataFrame, windows: Column) -> DataFrame:
    events = source.select("value").mapInArrow(noting(job, spent), SPENT)
    sums = F.count("*").alias("count"), F.sum("cents").alias("cents")
    found = _timed(events, "time").groupBy("user", windows.alias("span")).agg(*sums)
    rows = found.select("user", F.unix_millis(F.col("span").start).alias("start"), "count", "cents")
    return rows.mapInArrow(totals, MESSAGES)


def w6(job: Job, orders: DataFrame, payments: DataFrame) -> tuple[DataFrame, str]:
    """Orders joined with payments."""
    ordered = _timed(orders.select("value").mapInArrow(noting(job, placed), PLACED), "ordered_at")
    settled = _timed(payments.select("value").mapInArrow(noting(job, paid), PAID), "paid_at")
    near = f"order = of AND paid_at >= ordered_at AND paid_at <= ordered_at + interval {WITHIN} milliseconds"
    rows = ordered.join(settled, F.expr(near)).select("order", "amount", "paid", "user")
    return rows.mapInArrow(settlements, MESSAGES), "append"


def _timed(rows: DataFrame, time: str) -> DataFrame:
    """Rows with their event time, in a column of that name."""
    timed = rows.withColumn(time, F.timestamp_millis("at")).drop("at")
    return timed.withWatermark(time, f"{OUT_OF_ORDER} milliseconds")


JOBS: Mapping[str, Callable[..., tuple[DataFrame, str]]] = {
    "W1": w1,
    "W2": w2,
    "W3": w3,
    "W4": w4,
    "W5": w5,
    "W6": w6,
}
EACH: Mapping[str, Callable[..., tuple[DataFrame, str]]] = {"W3": w3_each}
"""Those that do the same job at more length."""


def session(job: Job) -> SparkSession:
    """Spark on this machine."""
    builder = SparkSession.builder.master(f"local[{SPARK_CORES}]").appName(job.name)
    told = {
        "spark.jars": ",".join(CONNECTOR.paths()),
        "spark.driver.memory": SPARK_MEMORY,
        "spark.driver.host": "127.0.0.1",
        "spark.local.dir": job.folder,
        "spark.log.level": "ERROR",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(PARTITIONS),
        "spark.sql.streaming.stateStore.providerClass": STATE,
        "spark.ui.enabled": "false",
    }
    for name, value in told.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def main() -> None:
    """Run the job of this process."""
    job = Job.given()
    address = {"kafka.bootstrap.servers": job.address}
    reader = session(job).readStream.format("kafka").options(**address, startingOffsets="earliest")
    sources = [reader.option("subscribe", topic).load().select("key", "value") for topic in job.inputs]
    made, mode = (EACH if sys.argv[1:] == ["each"] else JOBS)[job.workload](job, *sources)
    writer = made.writeStream.format("kafka").options(**address, topic=job.output).outputMode(mode)
    writer = writer.option("checkpointLocation", str(Path(job.folder, "checkpoint")))
    query = writer.start() if job.endless else writer.trigger(availableNow=True).start()
    query.awaitTermination()


if __name__ == "__main__":
    main()
