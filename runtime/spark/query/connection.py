"""How queries read from a system and write to it."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ...systems.contract import System
from ..batch_report import BatchReport
from ..counts import Counts
from ..lowering.query_plan import QueryPlan
from ..worker.outputs import Outputs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Offsets = dict[str, list[int]]
"""By stream, and partition number."""


class BatchSink(Protocol):
    """The end of a query in one run. It runs in this process; a Python data sink of Spark's would start processes in
    each batch."""

    @property
    def outputs(self) -> Outputs:
        """How workers pass on messages that leave the query."""
        ...

    def run(self, rows: "DataFrame", batch: int) -> BatchReport:
        """Run the batch of this number, given the rows of the last level, and return what its tasks have reported. Its
        outputs and counts are durable then. Raises the error of a task that has failed."""
        ...


@dataclass(frozen=True, slots=True)
class StopAt:
    """Where a run stops: at these offsets of the sources. If it `catches_up`, that is no end of input: nothing fires
    there that has not come due."""

    ends: Offsets
    catches_up: bool = False


class Connection(Protocol):
    """How queries read from one system and write to it: the log or Kafka."""

    @property
    def system(self) -> System:
        """The system that all queries of the run read from and write to."""
        ...

    def claim(self, pipeline: str, folder: Path | str) -> AbstractContextManager[None]:
        """Hold the sole right to run the pipeline, whose checkpoints are in `folder`, or at that URL. Raises
        SystemProblem if another run has the right."""
        ...

    def prepare(self, session: "SparkSession") -> None:
        """Register the data sources of this system with a session. Raises FluvialError if the session lacks what they
        need."""
        ...

    def check(self, query: QueryPlan, reset: str) -> None:
        """Raise SystemProblem if the query's checkpoint does not belong to the streams that this system has now.
        `reset` is the command that resets the pipeline."""
        ...

    def rows(
        self,
        session: "SparkSession",
        query: QueryPlan,
        batch_records: int,
        stop_at: StopAt | None,
        requests: str,
        outputs: Outputs,
    ) -> "DataFrame":
        """The rows that level 0 makes of the sources, of at most `batch_records` messages in a batch. With `stop_at`
        the input stops at these offsets, and a row of its end follows, unless the run catches up. By the file
        `requests` the driver asks for batches. `outputs` are those of the query's sink."""
        ...

    def sink(self, query: QueryPlan, session: "SparkSession") -> BatchSink:
        """The end of a query in a run that begins."""
        ...

    def counts(self, query: QueryPlan) -> Counts:
        """The counts of all batches that were written."""
        ...

    def forget(self, group: str) -> None:
        """Remove what the system stores about a checkpoint, which is being removed."""
        ...

    def offsets_left(self, query: QueryPlan, stop_at: StopAt | None) -> int | None:
        """The number of offsets that Spark has still to plan up to the ends at which the run stops; None if there are
        none, or the source knows them itself."""
        ...

    def may_stop(self, query: QueryPlan) -> bool:
        """Whether the query can be stopped now without leaving a part of a batch for others to see."""
        ...

    def offsets(self, lines: Sequence[str]) -> Offsets:
        """The offsets in the lines of Spark's offset log, one line a source."""
        ...
