"""Gives a query more key buckets than its checkpoint has, by splitting each of them.

The query goes on in a new checkpoint, whose sources begin where the old one has ended. Its first batch begins with the
old state, read by Spark's own reader and split by bucket; before it is planned, all state is read once to see that it
can be split. That batch decides: before Spark has planned it the new checkpoint is nothing, and the next run begins it
anew. From then on the new one counts; the old one, which nobody changes any more, is read again until the batch is
done, and is removed by the run after that.
"""

import logging
from collections.abc import Callable, Mapping
from functools import reduce
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
from msgspec.structs import replace

from ....planner.plan import Plan, PlannedStage
from ..atomic_file import make_path, read, write
from ..key_buckets import KeyBuckets
from ..lowering.lowering import levels
from ..lowering.query_plan import BucketSplit, QueryPlan
from ..worker.state_split import HeldBlobs, check_state, levels_in, split_state
from .checkpoint_log import DONE, PLANNED, is_between_batches, last_batch, last_end_offsets
from .checkpoint_record import QueryCheckpoint, remove_query
from .connection import Connection
from .query_times import TimesRecord

if TYPE_CHECKING:
    from pyspark.sql import GroupedData, SparkSession

_log = logging.getLogger(__name__)
_COPIED = ("identities",)
"""Files beside a checkpoint that say the same of the new one."""
_GO_BACK = "leave out spark_buckets: the query goes on as before"
_START_OVER = "restore the checkpoint from a copy, or start over with fluvial reset --all"
"""What is left once the first batch is planned."""
_SCHEMA = "bucket int, name binary, data binary"
_ARROW = pa.schema([("bucket", pa.int32()), ("name", pa.binary()), ("data", pa.binary())])


def split_times(record: TimesRecord, before: int, count: int) -> TimesRecord:
    """What the driver knows of a query that has `before` buckets, once it has `count`. No batch was begun yet."""
    buckets = {
        level: {new: due for bucket, due in of_level.items() for new in range(bucket, count, before)}
        for level, of_level in record.buckets.items()
    }
    return replace(record, batch=-1, buckets=buckets)


def begin_split(plan: Plan, checkpoint: QueryCheckpoint, wanted: int | None, connection: Connection) -> QueryCheckpoint:
    """The checkpoint with which the query goes on: a new one with the `wanted` number of buckets, whose record names
    the old one, or `checkpoint` as it is."""
    record = checkpoint.record
    if record is None or wanted in (None, record.buckets) or not checkpoint.begun:
        return checkpoint
    assert wanted is not None
    if not any(record.stages.values()):
        return checkpoint  # a query without state has none to split
    times = checkpoint.folder / "times"
    if not times.exists():
        _log.warning(
            "%s does not exist, from which the split of key buckets begins: an earlier version wrote none, or it was "
            "removed. %s goes on with %d key buckets, and its next batch writes the file; then start a run with %d",
            times,
            plan.name,
            record.buckets,
            wanted,
        )
        return checkpoint
    if record.split_of or not is_between_batches(checkpoint.checkpoint):
        _log.warning(
            "the last batch of %s was cut off, and is run again with %d key buckets; the next run may have %d",
            plan.name,
            record.buckets,
            wanted,
        )
        return checkpoint
    _log.warning("the state of %s is split: it has %d key buckets, and gets %d", plan.name, record.buckets, wanted)
    folder = checkpoint.folder.parent / plan.fingerprint(wanted, list(record.stages))
    make_path(folder)
    ends = last_end_offsets(checkpoint.checkpoint, DONE)
    assert ends is not None
    write(folder / "starts", msgspec.json.encode(connection.offsets(ends)))
    write(folder / "times", msgspec.json.encode(split_times(read(times, TimesRecord), record.buckets, wanted)))
    for name in _COPIED:
        if (checkpoint.folder / name).exists():
            write(folder / name, (checkpoint.folder / name).read_bytes())
    split = replace(record, buckets=wanted, balanced=True, split_of=checkpoint.folder.name)
    # The record comes last: without it no run finds the folder.
    QueryCheckpoint(folder, split).save(split)
    return QueryCheckpoint(folder, split)


def split_source(plan: Plan, stages: list[PlannedStage], checkpoint: QueryCheckpoint) -> BucketSplit | None:
    """What the first batch of a query begins with; None if that is nothing, or the batch is done."""
    record = checkpoint.record
    if record is None or not record.split_of or last_batch(checkpoint.checkpoint, DONE) >= 0:
        return None
    before = QueryCheckpoint.of(checkpoint.folder.parent / record.split_of)
    assert before.record is not None
    producers = levels(plan, stages, before.record.buckets).producers
    path = str(before.checkpoint.absolute())
    return BucketSplit(path, before.record.key_buckets, record.states, producers, record.resets)


def end_split(plan: Plan, checkpoint: QueryCheckpoint, connection: Connection) -> QueryCheckpoint:
    """The checkpoint of a query, without the one that it was split from, if its first batch is done."""
    record = checkpoint.record
    if record is None or not record.split_of or last_batch(checkpoint.checkpoint, DONE) < 0:
        return checkpoint
    before = checkpoint.folder.parent / record.split_of
    if before.exists():
        remove_query(plan, connection, before)
    whole = replace(record, split_of="")
    checkpoint.save(whole)
    return QueryCheckpoint(checkpoint.folder, whole)


def first_state(session: "SparkSession", query: QueryPlan, level: int) -> "GroupedData | None":
    """The state with which a level begins in the first batch, by label of its bucket; None once that batch is done."""
    split = query.split
    if split is None or last_batch(query.checkpoint, DONE) >= 0:
        return None
    return (
        _old_state(session, query, split)
        .applyInArrow(_splitter(split, query.buckets, query.levels.of_stage, level), _SCHEMA)
        .groupBy("bucket")
    )


def check_split(session: "SparkSession", query: QueryPlan) -> None:
    """Read the state once, as long as the first batch is not planned. Raises the error of a bucket that cannot be
    split: the query can still go on with the old checkpoint."""
    split = query.split
    if split is None or last_batch(query.checkpoint, PLANNED) >= 0:
        return
    splitter = _splitter(split, query.buckets, query.levels.of_stage, None, remedy=_GO_BACK)
    _old_state(session, query, split).applyInArrow(splitter, _SCHEMA).collect()


def _old_state(session: "SparkSession", query: QueryPlan, split: BucketSplit) -> "GroupedData":
    """The state that is to be split, by operator of Spark's and label of the old bucket."""
    reader = session.read.format("statestore").option("path", split.checkpoint).option("stateVarName", "pages")
    # Which of Spark's operators has which level is not said anywhere: a bucket tells its stages.
    frames = [
        reader.option("operatorId", operator)
        .load()
        .selectExpr(f"{operator} AS operator", "key.bucket", "user_map_key.name", "user_map_value.data")
        for operator in range(query.levels.count - 1)
    ]
    return reduce(lambda one, other: one.union(other), frames).groupBy("operator", "bucket")


def _splitter(
    split: BucketSplit, after: KeyBuckets, of_stage: Mapping[str, int], level: int | None, *, remedy: str = _START_OVER
) -> Callable[[pa.Table], pa.Table]:
    """What makes the blobs of one old bucket into those of new ones: none if it is of another level; `of_stage` has the
    level of each stage. Without a level all are checked, and none is split. `remedy` says what to do about
    what cannot be split.
    Spark asks for the types of a function, which a `partial` has not."""

    def split_rows(rows: pa.Table) -> pa.Table:
        blobs = HeldBlobs(zip(rows["name"].to_pylist(), rows["data"].to_pylist(), strict=True))
        pieces: list[tuple[int, bytes, bytes]] = []
        bucket = split.before.of_label[rows["bucket"][0].as_py()]
        present = levels_in(blobs, bucket, of_stage, remedy=remedy)
        states, producers, resets, before = split.states, split.producers, split.resets, split.before.count
        if level is None:
            check_state(blobs, bucket, before, states, resets, remedy=remedy)
        elif level in present:
            parts = split_state(blobs, bucket, before, after.count, states, producers, resets, remedy=remedy)
            pieces = [(after.labels[new], name, data) for new, part in parts.items() for name, data in part.items()]
        columns = zip(*pieces, strict=True) if pieces else [()] * len(_ARROW)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, _ARROW, strict=True)]
        return pa.Table.from_arrays(arrays, schema=_ARROW)

    return split_rows
