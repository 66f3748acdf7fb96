"""A source of Spark's that reports the end of input, and makes the batches that the driver asks for, beside Spark's
connector to Kafka.

In a run to the end the connector reads up to the ends that the topics have when the query starts. It does not say
which batch is its last. If one batch can take the whole input, this source reports the end in that batch, and every
window fires in it. Else the driver tells how much of the input Spark has still to plan; when that is nothing, this
source reports the end in one more batch. The source is part of a query from its first start, since Spark accepts no new
source later. A later run continues, and reports another end.

The ends that this source waits for are fetched before the query starts. So they are at or before the ends at which the
connector stops. Messages between the two are read at the latest in the batch that reports the end.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow

from ...state.checkpoint_path import CheckpointPath
from ..lowering.query_plan import QueryPlan
from ..lowering.shipped_plan import ShippedPlan
from ..query.batch_requests import RequestReader
from ..query.checkpoint_log import PLANNED, last_end_offsets
from ..query.connection import Offsets, StopAt
from ..rows import SPARK_SCHEMA
from ..worker.control_rows import control_partitions, control_rows
from .kafka_format import parse_offsets

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class EndOptions(msgspec.Struct, frozen=True):
    """The options of the source.

    `ends` says that the input has an end, and `at_once` that the next batch takes all of it. `shipped` names the levels
    and buckets to report to. By the file `requests` the driver asks for batches, and tells how much of the input is
    left. A run that `catches_up` reports no end of input.
    """

    ends: bool
    at_once: bool
    shipped: ShippedPlan
    requests: str = ""
    catches_up: bool = False


def offsets_left(checkpoint: CheckpointPath, starts: Offsets, ends: Offsets) -> int:
    """The number of offsets between what Spark has planned to read and the ends."""
    lines = last_end_offsets(checkpoint, PLANNED)
    planned = starts if lines is None else {**starts, **parse_offsets(lines)}
    pairs = ((at, end) for name, offsets in ends.items() for at, end in zip(planned[name], offsets, strict=True))
    return sum(max(0, end - at) for at, end in pairs)


def control_frame(
    session: "SparkSession", query: QueryPlan, stop_at: StopAt | None, requests: str, *, at_once: bool
) -> "DataFrame":
    """The control rows of a query, from this source, which the session has registered."""
    catches_up = stop_at is not None and stop_at.catches_up
    options = EndOptions(stop_at is not None, at_once, query.shipped, requests, catches_up)
    text = msgspec.json.encode(options).decode()
    return session.readStream.format(EndDataSource.name()).option("options", text).load()


class EndDataSource(DataSource):
    """The source of the control rows, in the form in which a session of Spark registers sources."""

    @classmethod
    def name(cls) -> str:
        """The name by which Spark knows the source."""
        return "fluvial_end"

    def schema(self) -> str:
        """The columns of a row, as Spark writes a schema."""
        return SPARK_SCHEMA

    def streamReader(self, schema: Any) -> "EndStreamReader":
        """The reader of one query, with the options that the query has given."""
        return EndStreamReader(msgspec.json.decode(self.options["options"], type=EndOptions))


class EndStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans the control partitions of a query on Kafka. Its offsets count the ends of input, and the requests of the
    driver that were served."""

    def __init__(self, options: EndOptions) -> None:
        self._options = options
        self._last: int | None = None
        self._requests = RequestReader(options.requests, at_once=options.ends)

    def initialOffset(self) -> dict[str, Any]:
        """The offset before the first batch."""
        return {"ends": 0, "requests": 0}

    def prepareForTriggerAvailableNow(self) -> None:
        """Nothing: the query was given its ends as options, so Spark need not fix them at this moment."""

    def getDefaultReadLimit(self) -> ReadLimit:
        """No limit: control rows are few."""
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The offset up to which the next batch reads: after the end of input once the whole input is planned, and
        after a request of the driver."""
        reported: int = start["ends"]
        # Once for a query: it is one more than what the checkpoint has, so that a later run reports another end.
        if self._last is None:
            self._last = reported + (not self._options.catches_up)
        count = self._last if self._still_left() == 0 else reported
        ended = not self._options.catches_up and reported == self._last
        # What comes due behind the end of input waits for the next run.
        return {"ends": count, "requests": _requests(start) + (not ended and self._requests.is_new())}

    def _still_left(self) -> int | None:
        """The number of offsets that are left to plan after this batch; None if the input does not end."""
        if self._options.at_once:
            return 0
        return self._requests.left() if self._options.ends else None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The control partitions of a batch: one for the end of input, one for a request."""
        return control_partitions((start["ends"], end["ends"]), (_requests(start), _requests(end)))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The control rows of a partition."""
        rows = control_rows(partition, self._options.shipped)
        if rows is not None:
            yield rows


def _requests(offsets: dict[str, Any]) -> int:
    requests: int = offsets.get("requests", 0)  # offsets that older versions wrote lack it
    return requests
