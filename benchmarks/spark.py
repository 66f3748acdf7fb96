"""Spark as a contender: the engine, and the same jobs written by hand for PySpark over the same source and sink."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from benchmarks.memory import peak_mb
from benchmarks.workloads import MINUTE, PARTITIONS, Payment, Total, Workload, is_wanted, time_of, to_charge
from fluvial.runtime import Settings, run
from fluvial.runtime.spark.log_sink import SinkOptions
from fluvial.runtime.spark.log_source import LogOptions
from fluvial.runtime.spark.rows import ARROW_SCHEMA, DATA, OUTPUT, SPARK_SCHEMA
from fluvial.runtime.spark.session import session_for
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
    rows = _source(session, directory, Settings().spark_batch_records).mapInArrow(charges, SPARK_SCHEMA)
    return _sink(rows, directory)


def charges(batches: Batches) -> Iterator[pa.RecordBatch]:
    """Decode, keep about half, make something else of it, encode."""
    decode, encode = msgspec.json.Decoder(Payment).decode, msgspec.json.Encoder().encode
    for batch in batches:
        payments = [decode(value) for value in batch.column("value").to_pylist()]
        kept = [index for index, payment in enumerate(payments) if is_wanted(payment)]
        made = [encode(to_charge(payments[index])) for index in kept]
        columns = dict(zip(batch.schema.names, batch.take(pa.array(kept, pa.int32())).columns, strict=True))
        columns |= {"level": _same(OUTPUT, kept), "stream": _same("out", kept), "value": pa.array(made, pa.binary())}
        yield _rows(columns)


def count(session: SparkSession, directory: Path) -> DataStreamWriter:
    """Spark's own aggregation, in a single batch, so that every window is over when it writes."""
    session.conf.set("spark.sql.streaming.stateStore.encodingFormat", "unsaferow")
    minutes = _source(session, directory, 1 << 31).mapInArrow(minutes_of, "key binary, minute long")
    counted = minutes.groupBy("key", "minute").count()
    return _sink(counted.mapInArrow(totals, SPARK_SCHEMA), directory).outputMode("complete")


def minutes_of(batches: Batches) -> Iterator[pa.RecordBatch]:
    """The key and the window of each payment."""
    decode = msgspec.json.Decoder(Payment).decode
    for batch in batches:
        times = (time_of(decode(value)) for value in batch.column("value").to_pylist())
        minutes = pa.array([at - at % MINUTE for at in times], pa.int64())
        yield pa.RecordBatch.from_arrays([batch.column("key"), minutes], names=["key", "minute"])


def totals(batches: Batches) -> Iterator[pa.RecordBatch]:
    """What was counted, as records."""
    encode = msgspec.json.Encoder().encode
    for batch in batches:
        keys, minutes, counts = (column.to_pylist() for column in batch.columns)
        found = zip(keys, minutes, counts, strict=True)
        values = [encode(Total(key.decode(), minute, number)) for key, minute, number in found]
        columns = {
            "level": _same(OUTPUT, keys),
            "bucket": _same(0, keys),
            "kind": _same(DATA, keys),
            "stream": _same("out", keys),
            "producer": _same(0, keys),
            "position": _same(0, keys),
            "key": batch.column(0),
            "value": pa.array(values, pa.binary()),
            "timestamp": pa.array([minute + MINUTE - 1 for minute in minutes], pa.int64()),
            "headers": _same(None, keys),
        }
        yield _rows(columns)


def _same(value: object, like: list[int]) -> pa.Array:
    return pa.array([value] * len(like))


def _rows(columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
    arrays = [columns[field.name].cast(field.type) for field in ARROW_SCHEMA]
    return pa.RecordBatch.from_arrays(arrays, schema=ARROW_SCHEMA)


def _source(session: SparkSession, directory: Path, batch_records: int) -> DataFrame:
    ends = LogSystem(directory).admin().ends("payments")
    told = LogOptions(str(directory), {"payments": [0] * PARTITIONS}, {"payments": ends}, batch_records)
    return session.readStream.format("fluvial_log").option("told", msgspec.json.encode(told).decode()).load()


def _sink(rows: DataFrame, directory: Path) -> DataStreamWriter:
    told = SinkOptions(str(directory), False, {"out": PARTITIONS}, "by-hand")
    return (
        rows.writeStream.format("fluvial_log_sink")
        .trigger(availableNow=True)
        .option("told", msgspec.json.encode(told).decode())
        .option("checkpointLocation", str(directory / "by-hand"))
    )


_JOBS: Mapping[str, Callable[[SparkSession, Path], DataStreamWriter]] = {
    "filter_map": filter_map,
    "count_1k": count,
    "count_100k": count,
}
