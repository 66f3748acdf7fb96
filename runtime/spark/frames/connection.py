"""Queries with DataFrames of the user's among their inputs and outputs, beside the streams of a system or without one.

Each batch is computed once, and kept while it is written: first to the DataFrames of the outputs, then to the system,
which commits it.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....dsl.errors import UnsupportedError
from ....dsl.validation import explain
from ....planner.plan import Plan
from ...data_frames.bindings import DataFrames
from ...systems.contract import System
from ..batch_report import BatchReport
from ..connectors.end_of_input import EndDataSource, control_frame
from ..connectors.written_counts import CountingSink, counts_file, read_counts, reports_of
from ..counts import Counts
from ..lowering.lowering import components
from ..lowering.query_plan import QueryPlan
from ..query.checkpoint_log import is_between_batches
from ..query.connection import BatchSink, Connection, Offsets, StopAt
from ..rows import FRAMES, Row
from ..state_claim import claim_state
from ..worker.outputs import Output, Outputs, RowOutputs, report_row
from .batch_run import write_output
from .input_rows import input_rows
from .output_schema import OutputSchema, typed_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def refuse_shared(plan: Plan, frames: DataFrames) -> None:
    """Raise UnsupportedError for an output that several queries would write, each with batches of its own."""
    parts = [{name for stage in stages for name in stage.outputs} for stages in components(plan)]
    letters = {stream.name for stream in plan.streams if stream.kind == "dead-letters"}
    for stream in frames.outputs:
        if sum(stream in part for part in parts) > 1 or (stream in letters and len(parts) > 1):
            wrong = (
                f"outputs: {stream!r} is written by parts of the pipeline that nothing connects, and each has batches "
            )
            wrong += "of its own"
            remedy = "write to a stream for each part, or make each a pipeline"
            raise UnsupportedError(explain(wrong, "an output of one query", remedy, plan.pipeline.origin))


class FrameConnection:
    """The `Connection` of queries to DataFrames, and to what `inner` connects them to besides."""

    def __init__(self, inner: Connection, frames: DataFrames, schemas: Mapping[str, OutputSchema], theirs: Any) -> None:
        """`theirs` is the session of the user's in which outputs are written."""
        self._inner, self._frames, self._schemas, self._theirs = inner, frames, schemas, theirs

    @property
    def system(self) -> System:
        """The system with the other streams."""
        return self._inner.system

    def claim(self, pipeline: str, folder: Path | str) -> AbstractContextManager[None]:
        """Hold the claim of the system."""
        return self._inner.claim(pipeline, folder)

    def prepare(self, session: "SparkSession") -> None:
        """Register the sources of the system."""
        self._inner.prepare(session)

    def check(self, query: QueryPlan, reset: str) -> None:
        """Raise SystemProblem as the system does. What a DataFrame reads, Spark checks itself."""
        self._inner.check(query, reset)

    def rows(
        self,
        session: "SparkSession",
        query: QueryPlan,
        batch_records: int,
        stop_at: StopAt | None,
        requests: str,
        outputs: Outputs,
    ) -> "DataFrame":
        """The rows of the system's sources and of control, if there are some, and then those of DataFrames: `offsets`
        finds the system's first in Spark's log."""
        parts: list[DataFrame] = []
        if query.sources or query.keeps_state:
            parts.append(self._inner.rows(session, query, batch_records, stop_at, requests, outputs))
        names = [name for name in query.levels.of_stream if name in self._frames.inputs]
        parts += [input_rows(session, query.plan, name, self._frames, query.shipped, outputs) for name in names]
        return reduce(lambda one, other: one.union(other), parts)

    def sink(self, query: QueryPlan, session: "SparkSession") -> BatchSink:
        """The sink of the system for its own streams, behind the DataFrames of the outputs."""
        inner = self._inner.sink(replace(query, plan=self._frames.system_part(query.plan)), session)
        stages = set(query.levels.of_stage)
        written = {name for operator in query.plan.operators if operator.stage in stages for name in operator.writes}
        letters = {stream.name for stream in query.plan.streams if stream.kind == "dead-letters"}
        own = {name: schema for name, schema in self._schemas.items() if name in written | letters}
        return FrameSink(inner, query, self._frames, own, self._theirs) if own else inner

    def counts(self, query: QueryPlan) -> Counts:
        """The counts of all batches that were written."""
        return self._inner.counts(query)

    def forget(self, group: str) -> None:
        """Remove what the system stores about a checkpoint."""
        self._inner.forget(group)

    def offsets_left(self, query: QueryPlan, stop_at: StopAt | None) -> int | None:
        """What is left of the system's streams. Of DataFrames Spark alone knows it."""
        return self._inner.offsets_left(query, stop_at)

    def may_stop(self, query: QueryPlan) -> bool:
        """Whether the query is between two batches: one that is stopped would be written once more."""
        return is_between_batches(query.checkpoint)

    def offsets(self, lines: Sequence[str]) -> Offsets:
        """The offsets of the system's streams."""
        return self._inner.offsets(lines)


class FrameSink:
    """The `BatchSink` that hands the rows of each batch to the functions that write them, and the rest to another."""

    def __init__(
        self, inner: BatchSink, query: QueryPlan, frames: DataFrames, schemas: Mapping[str, OutputSchema], theirs: Any
    ) -> None:
        self._inner, self._query, self._frames, self._schemas, self._theirs = inner, query, frames, schemas, theirs

    @property
    def outputs(self) -> Outputs:
        """The outputs of the other sink: messages for DataFrames are rows, whatever these do."""
        return _FrameOutputs(self._inner.outputs)

    def run(self, rows: "DataFrame", batch: int) -> BatchReport:
        """Write the outputs once no task has failed; the other sink ends the batch."""
        persisted = rows.persist()
        try:
            report = reports_of(persisted)
            for stream, schema in self._schemas.items():
                frame = typed_frame(persisted, self._query.shipped, stream, schema)
                write_output(self._query.plan, stream, self._frames, frame, batch, self._theirs)
            if isinstance(self._inner, CountingSink):  # it has no more to ask of the rows
                self._inner.count(report, batch)
                return report
            return self._inner.run(persisted.where(f"level <> {FRAMES}"), batch)
        finally:
            persisted.unpersist()


@dataclass(frozen=True, slots=True)
class _FrameOutputs:
    """Outputs of another sink, whose failures are seen before any DataFrame is written."""

    inner: Outputs

    def __call__(self) -> AbstractContextManager[Output]:
        """Open those of the other sink."""
        return self.inner()

    def failure_rows(self, report: BatchReport) -> list[Row]:
        """Those of the other sink, and one for this one."""
        return [report_row(0, report), *self.inner.failure_rows(report)]


class NoSystem:
    """The `Connection` of queries that read DataFrames and write such alone; `system` is not asked for anything."""

    def __init__(self, system: System) -> None:
        self._system = system

    @property
    def system(self) -> System:
        """The system of the run, which has none of its streams."""
        return self._system

    def claim(self, pipeline: str, folder: Path | str) -> AbstractContextManager[None]:
        """Hold the claim of the pipeline's state."""
        return claim_state(folder, pipeline, f"the state in {folder}")

    def prepare(self, session: "SparkSession") -> None:
        """Register the source of control rows."""
        session.dataSource.register(EndDataSource)

    def check(self, query: QueryPlan, reset: str) -> None:
        """Nothing: Spark checks what DataFrames read."""

    def rows(
        self,
        session: "SparkSession",
        query: QueryPlan,
        batch_records: int,
        stop_at: StopAt | None,
        requests: str,
        outputs: Outputs,
    ) -> "DataFrame":
        """Control rows alone."""
        return control_frame(session, query, stop_at, requests, at_once=stop_at is not None)

    def sink(self, query: QueryPlan, session: "SparkSession") -> CountingSink:
        """A sink that notes the counts of each batch."""
        return CountingSink(RowOutputs(), counts_file(query))

    def counts(self, query: QueryPlan) -> Counts:
        """The counts of all batches, from the file beside the checkpoint."""
        return read_counts(counts_file(query))

    def forget(self, group: str) -> None:
        """Nothing is stored beside the folder of the checkpoint."""

    def offsets_left(self, query: QueryPlan, stop_at: StopAt | None) -> int | None:
        """None: Spark alone knows it."""
        return None

    def may_stop(self, query: QueryPlan) -> bool:
        """Whether the query is between two batches."""
        return is_between_batches(query.checkpoint)

    def offsets(self, lines: Sequence[str]) -> Offsets:
        """There are none."""
        return {}
