"""Queries on Kafka: they read through Spark's connector, and workers write with a producer of ours."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from pyspark.errors import AnalysisException

from ....dsl.errors import MissingExtraError, SystemProblem, UsageError
from ....dsl.validation import explain
from ...systems.kafka import KafkaSystem
from ...systems.provisioning import bootstrap_streams
from ..atomic_file import read, write
from ..counts import Counts
from ..lowering.query_plan import QueryPlan
from ..query.checkpoint_log import is_between_batches, unfinished_batch
from ..query.connection import BatchSink, Offsets, StopAt
from ..rows import SPARK_SCHEMA
from ..state_claim import claim_state
from ..worker.outputs import Outputs
from .connector_version import connector_version, warn_of_mix
from .end_of_input import EndDataSource, control_frame, offsets_left
from .java_client import java_settings
from .kafka_format import offsets_text, parse_offsets, settings_text
from .kafka_sink import KafkaOutputs
from .kafka_source import columns, through_level_zero
from .kafka_transactions import KafkaTarget, TransactionalSink, output_partitions
from .written_counts import CountingSink, counts_file, read_counts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamReader

_SPECULATION = "spark.speculation"
"""Spark's setting: whether a slow task is run a second time beside the first one."""


class KafkaConnection:
    """The `Connection` of queries to a Kafka cluster."""

    def __init__(self, system: KafkaSystem) -> None:
        self._kafka = system

    @property
    def system(self) -> KafkaSystem:
        """The system whose streams the queries read and write: the Kafka cluster."""
        return self._kafka

    def claim(self, pipeline: str, folder: Path | str) -> AbstractContextManager[None]:
        """Hold the claim of a pipeline's state, since the cluster has no claims."""
        return claim_state(folder, pipeline, f"{self._kafka.url} with its state in {folder}")

    def prepare(self, session: "SparkSession") -> None:
        """Register the source of control rows. Raises MissingExtraError if the session has no Kafka connector, and
        warns of one of another version than Spark's."""
        session.dataSource.register(EndDataSource)
        try:
            self._reader(session, {}).load()
        except AnalysisException as error:
            raise _without_connector(session) from error
        warn_of_mix(session.version, connector_version(session))

    def check(self, query: QueryPlan, reset: str) -> None:
        """Raise SystemProblem if a topic was deleted and created again: its offsets now belong to other messages."""
        admin, file = self._kafka.admin(), query.folder / "identities"
        identities = {name: admin.identity(name) for name in query.sources}
        if not file.exists():
            write(file, msgspec.json.encode(identities))
        recorded = read(file, dict[str, str])
        for name in query.sources:
            if identities[name] != recorded[name]:
                wrong = f"the stream {name!r} of {self._kafka.url} is not the one that {query.plan.name!r} has read"
                remedy = f"remove {query.folder} to start over, or set state_dir to another folder for another cluster"
                raise SystemProblem(explain(wrong, "the same topic as in the run before", remedy))

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
        first, others = _bootstrap_and_others(query)
        ends = None if stop_at is None else {name: stop_at.ends[name] for name in query.sources}
        rest = None if ends is None else {name: ends[name] for name in others}
        in_one_batch = rest is not None and offsets_left(query.checkpoint, query.starts, rest) <= batch_records
        at_once = in_one_batch and not query.levels.ends_apart
        # At once means no limit: a limit could leave a part of the input out of the batch that reports the end.
        limit = {} if at_once else {"maxOffsetsPerTrigger": str(batch_records)}
        parts: list[DataFrame] = []
        if others:
            parts.append(self._rows_of(session, query, others, outputs, limit))
        if first:
            # No limit: each batch takes all that these streams hold, and buckets process them before the others.
            parts.append(self._rows_of(session, query, first, outputs, {}))
        if query.keeps_state:
            parts.append(control_frame(session, query, stop_at, requests, at_once=at_once))
        return reduce(lambda one, other: one.union(other), parts)

    def _rows_of(
        self,
        session: "SparkSession",
        query: QueryPlan,
        names: Sequence[str],
        outputs: Outputs,
        options: Mapping[str, str],
    ) -> "DataFrame":
        """The rows that level 0 makes of some of the sources."""
        starts = {name: query.starts[name] for name in names}
        read = self._reader(session, starts).options(**options).load().selectExpr(*columns(names))
        return read.mapInArrow(through_level_zero(query.shipped, names, outputs), SPARK_SCHEMA)

    def _reader(self, session: "SparkSession", starts: Offsets) -> "DataStreamReader":
        kafka = self._kafka.settings
        client = {"isolation.level": "read_committed", **java_settings(kafka.conf), "bootstrap.servers": kafka.servers}
        return session.readStream.format("kafka").options(
            assign=_json({topic: list(range(len(offsets))) for topic, offsets in starts.items()}),
            startingOffsets=offsets_text(starts),
            includeHeaders="true",
            failOnDataLoss="true",
            groupIdPrefix="fluvial",
            **{f"kafka.{name}": value for name, value in client.items()},
        )

    def sink(self, query: QueryPlan, session: "SparkSession") -> BatchSink:
        """The sink that the guarantee needs. Raises UsageError for exactly_once in a session in which Spark runs slow
        tasks twice at a time."""
        written = (stream for stream in query.plan.streams if stream.kind not in ("source", "intermediate"))
        streams = {stream.name: stream.partitions for stream in written}
        settings = settings_text(self._kafka.settings)
        if not query.once or not streams:
            # Calls end in any order, and so their results come.
            calls = any(operator.async_call is not None for operator in query.plan.pipeline.operators)
            outputs = KafkaOutputs(streams, settings, query.group if query.ids else "", by_content=calls)
            return CountingSink(outputs, counts_file(query))
        context = session.sparkContext
        if context.getConf().get(_SPECULATION, "false").lower() == "true":
            wrong = f"{_SPECULATION} is on, and the guarantee is exactly_once"
            remedy = f"set {_SPECULATION} to false, or choose at_least_once"
            raise UsageError(explain(wrong, "a task that runs once at a time", remedy, query.plan.pipeline.origin))
        tasks = min(sum(streams.values()), context.defaultParallelism)
        unfinished = unfinished_batch(query.checkpoint)
        partitions = output_partitions(query.folder / "transactions", streams, tasks, unfinished)
        target = KafkaTarget(settings, query.group, partitions)
        sink = TransactionalSink(target, query.checkpoint, counts_file(query), unfinished)
        sink.check()
        return sink

    def counts(self, query: QueryPlan) -> Counts:
        """The counts of all batches, from the file beside the checkpoint."""
        return read_counts(counts_file(query))

    def forget(self, group: str) -> None:
        """Kafka stores nothing about batches: their counts are in the folder of the checkpoint."""

    def offsets_left(self, query: QueryPlan, stop_at: StopAt | None) -> int | None:
        """What Spark has still to plan up to the ends."""
        if stop_at is None:
            return None
        return offsets_left(query.checkpoint, query.starts, {name: stop_at.ends[name] for name in query.sources})

    def may_stop(self, query: QueryPlan) -> bool:
        """Whether the query is between two batches."""
        # A batch that is stopped now would send its messages a second time.
        return is_between_batches(query.checkpoint)

    def offsets(self, lines: Sequence[str]) -> Offsets:
        """The offsets in a file of Spark's offset log, by stream."""
        return parse_offsets(lines)


def _bootstrap_and_others(query: QueryPlan) -> tuple[list[str], list[str]]:
    """The sources that are read before the others, and the others; where all are to be first, none is."""
    first = [name for name in query.sources if name in bootstrap_streams(query.plan)]
    others = [name for name in query.sources if name not in first]
    return (first, others) if others else ([], first)


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _without_connector(session: "SparkSession") -> MissingExtraError:
    wanted = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{session.version}"
    wrong = "Spark has not loaded its connector to Kafka"
    remedy = (
        f"pass --spark-conf spark.jars.packages={wanted}, or set it where the session is made; without network, name "
        "the files of the connector and of what it needs with spark.jars"
    )
    return MissingExtraError(explain(wrong, wanted, remedy))
