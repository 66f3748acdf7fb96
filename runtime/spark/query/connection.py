"""How queries read from a system and write to it."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ....planner.settings import Settings
from ...systems.contract import System
from ..counts import Tally
from ..lowering.query_plan import QueryPlan
from ..worker.outputs import Outputs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Offsets = dict[str, list[int]]
"""By stream, and partition number."""


class Connection(Protocol):
    """What the engine needs of a system besides the system itself."""

    @property
    def system(self) -> System: ...

    def claim(self, pipeline: str, root: Path) -> AbstractContextManager[None]:
        """Hold the right to run a pipeline whose checkpoints lie in a folder; raises SystemProblem where another run
        has it."""
        ...

    def prepare(self, session: "SparkSession") -> None:
        """Make known to a session what it needs; raise a FluvialError where that cannot be."""
        ...

    def check(self, query: QueryPlan, reset: str) -> None:
        """Raise SystemProblem where a query's checkpoint is not of what this system has now; `reset` is the command
        that resets the pipeline."""
        ...

    def rows(self, session: "SparkSession", query: QueryPlan, settings: Settings, ends: Offsets | None) -> "DataFrame":
        """What level 0 makes of the sources; with `ends` it stops there, and tells the end of input behind it."""
        ...

    def outputs(self, query: QueryPlan) -> Outputs:
        """What workers do with messages that leave the query."""
        ...

    def writer(self, query: QueryPlan) -> "Callable[[DataFrame, int], None]":
        """What runs a batch: takes the last level's rows and the batch's number, and writes the outputs among them.
        A function of Spark's `foreachBatch`, which runs here: a sink of Python's would start processes in each
        batch."""
        ...

    def tally(self, query: QueryPlan) -> Tally:
        """What all batches have counted that were written."""
        ...

    def forget(self, group: str) -> None:
        """Remove what the system knows of the batches of a checkpoint that is removed."""
        ...

    def may_stop(self, query: QueryPlan) -> bool:
        """Whether a query that is stopped now leaves nothing half done that others see."""
        ...

    def offsets(self, told: Sequence[str]) -> Offsets:
        """How far a batch goes, from what Spark has noted of it: a line for each of its sources."""
        ...
