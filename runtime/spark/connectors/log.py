"""Queries on the embedded log: they read and write it through a source and a sink of ours."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ...systems.log import LogSystem
from ...systems.provisioning import bootstrap_streams
from ..counts import Counts, published_counts
from ..lowering.query_plan import QueryPlan
from ..query.connection import Offsets, StopAt
from ..worker.outputs import Outputs
from .log_sink import LogSink, SinkOptions
from .log_source import LogDataSource, LogOffsets, LogOptions
from .published_batches import check_published

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class LogConnection:
    """The `Connection` of queries to the embedded log."""

    def __init__(self, system: LogSystem) -> None:
        self._log = system
        self._directory = str(system.directory.absolute())

    @property
    def system(self) -> LogSystem:
        """The system whose streams the queries read and write: the embedded log."""
        return self._log

    def claim(self, pipeline: str, folder: Path | str) -> AbstractContextManager[None]:
        """Hold the log's own claim of the pipeline; `folder` needs none."""
        return self._log.claim(pipeline)

    def prepare(self, session: "SparkSession") -> None:
        """Register the source of the log with the session."""
        session.dataSource.register(LogDataSource)

    def check(self, query: QueryPlan, reset: str) -> None:
        """Raise SystemProblem if Spark's checkpoint and the log do not have the same batches."""
        check_published(query, self._log.admin().checkpoints(query.group), self._log.url, reset)

    def rows(
        self,
        session: "SparkSession",
        query: QueryPlan,
        batch_records: int,
        stop_at: StopAt | None,
        requests: str,
        outputs: Outputs,
    ) -> "DataFrame":
        """The records of a query's sources as rows of Spark, those of bootstrap streams first."""
        admin = self._log.admin()
        options = LogOptions(
            directory=self._directory,
            starts=query.starts,
            ends=None if stop_at is None else {name: stop_at.ends[name] for name in query.sources},
            closing=stop_at is not None and query.keeps_state and not stop_at.catches_up,
            batch_records=batch_records,
            first={name: admin.ends(name) for name in query.sources if name in bootstrap_streams(query.plan)},
            shipped=query.shipped,
            requests=requests,
            ends_apart=query.levels.ends_apart,
        )
        text = msgspec.json.encode(options).decode()
        return session.readStream.format(LogDataSource.name()).option("options", text).load()

    def sink(self, query: QueryPlan, session: "SparkSession") -> LogSink:
        """The sink of a query: it publishes the outputs of a batch at one stroke, with the number of the batch."""
        options = SinkOptions(
            directory=self._directory,
            fsync=self._log.fsync,
            partitions={stream.name: stream.partitions for stream in query.plan.streams},
            group=query.group,
            checkpoint=str(query.checkpoint.absolute()),
        )
        return LogSink(options)

    def counts(self, query: QueryPlan) -> Counts:
        """The counts of all batches that are published."""
        return published_counts(self._log.admin().checkpoints(query.group))

    def forget(self, group: str) -> None:
        """Delete the checkpoint that the log has for a query."""
        if saved := self._log.admin().checkpoints(group):
            with closing(self._log.producer()) as producer:
                producer.begin().commit(group, dict.fromkeys(saved, b""))

    def offsets_left(self, query: QueryPlan, stop_at: StopAt | None) -> None:
        """None: the source of the log knows its ends."""

    def may_stop(self, query: QueryPlan) -> bool:
        """True: a batch publishes its outputs at its end, or never."""
        return True  # a batch publishes its staged records at its end, or never

    def offsets(self, lines: Sequence[str]) -> Offsets:
        """The offsets in a file of Spark's offset log, by stream."""
        return msgspec.json.decode(lines[0], type=LogOffsets).streams
