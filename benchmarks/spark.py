"""Spark as a contender: the engine, and the same jobs written by hand for PySpark over the same source and sink."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from benchmarks.memory import peak_mb
from benchmarks.rows import SCHEMA, RowSink, RowSource, arrow_batch
from benchmarks.workloads import MINUTE, PARTITIONS, Payment, Total, Workload, is_wanted, time_of, to_charge
from fluvial.runtime import Settings, run
from fluvial.runtime.spark.log_sink import SinkOptions
from fluvial.runtime.spark.log_source import LogOptions
from fluvial.runtime.spark.session import session_for
from fluvial.runtime.spark.shipping import Shipment
from fluvial.runtime.systems import LogSystem

Batches = Iterable[pa.RecordBatch]


def engine(workload: Workload, directory: Path) -> tuple[float, int]:
    """The Spark engine; the session has started before."""
    with session_for(None, Settings()) as session:
        begin = time.perf_counter()
        run(
            workload.pipeline,
            engine="spark",
            system=LogSystem(directory, fsync=False),
            until="end",
            spark=session,
        )
        return time.perf_counter() - begin, peak_mb()


def by_hand(workload: Workload, directory: Path) -> tuple[float, int]:
    """Structured Streaming as one would write it for this job alone."""
    with session_for(None, Settings()) as session:
        begin = time.perf_counter()
        query = _JOBS[workload.name](session, directory).start()
        query.awaitTermination()
        return time.perf_counter() - begin, peak_mb()


def filter_map(session: SparkSession, directory: Path) -> DataStreamWriter:
    """One pass over Arrow batches, some at a time."""
    rows = _source(session, directory, Settings().spark_batch_records).mapInArrow(charges, SCHEMA)
    return _sink(rows, directory)


def charges(batches: Batches) -> Iterator[pa.RecordBatch]:
    """Decode, keep about half, make something else of it, encode."""
    decode, encode = msgspec.json.Decoder(Payment).decode, msgspec.json.Encoder().encode
    for batch in batches:
        payments = [decode(value) for value in batch.column("value").to_pylist()]
        kept = [index for index, payment in enumerate(payments) if is_wanted(payment)]
        made = [encode(to_charge(payments[index])) for index in kept]
        taken = batch.take(pa.array(kept, pa.int32()))
        yield arrow_batch(taken.column("key"), made, taken.column("timestamp"))


def count(session: SparkSession, directory: Path) -> DataStreamWriter:
    """Spark's own aggregation, in a single batch, so that every window is over when it writes."""
    session.conf.set("spark.sql.streaming.stateStore.encodingFormat", "unsaferow")
    minutes = _source(session, directory, 1 << 31).mapInArrow(minutes_of, "key binary, minute long")
    counted = minutes.groupBy("key", "minute").count()
    return _sink(counted.mapInArrow(totals, SCHEMA), directory).outputMode("complete")


def minutes_of(batches: Batches) -> Iterator[pa.RecordBatch]:
    """The key and the window of each payment."""
    decode = msgspec.json.Decoder(Payment).decode
    for batch in batches:
        times = (time_of(decode(value)) for value in batch.column("value").to_pylist())
        minutes = pa.array([at - at % MINUTE for at in times], pa.int64())
        yield pa.RecordBatch.from_arrays([batch.column("key"), minutes], names=["key", "minute"])


def totals(batches: Batches) -> Iterator[pa.RecordBatch]:
    """What was counted, as messages."""
    encode = msgspec.json.Encoder().encode
    for batch in batches:
        keys, minutes, counts = (column.to_pylist() for column in batch.columns)
        found = zip(keys, minutes, counts, strict=True)
        values = [encode(Total(key.decode(), minute, number)) for key, minute, number in found]
        yield arrow_batch(keys, values, [minute + MINUTE - 1 for minute in minutes])


def _source(session: SparkSession, directory: Path, batch_records: int) -> DataFrame:
    session.dataSource.register(RowSource)
    ends = LogSystem(directory).admin().ends("payments")
    starts, nothing = {"payments": [0] * PARTITIONS}, Shipment("", b"")
    told = LogOptions(str(directory), starts, {"payments": ends}, False, batch_records, nothing)
    return session.readStream.format("bench_log").option("told", msgspec.json.encode(told).decode()).load()


def _sink(rows: DataFrame, directory: Path) -> DataStreamWriter:
    rows.sparkSession.dataSource.register(RowSink)
    told = SinkOptions(str(directory), False, {"out": PARTITIONS}, "by-hand")
    return (
        rows.writeStream.format("bench_log_sink")
        .trigger(availableNow=True)
        .option("told", msgspec.json.encode(told).decode())
        .option("checkpointLocation", str(directory / "by-hand"))
    )


_JOBS: Mapping[str, Callable[[SparkSession, Path], DataStreamWriter]] = {
    "filter_map": filter_map,
    "count_1k": count,
    "count_100k": count,
}
