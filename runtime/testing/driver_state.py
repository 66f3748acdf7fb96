"""What the tasks of a pipeline driver hold: rows of tables, and watermarks."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ...dsl.errors import UsageError
from ...dsl.validation import require
from ...dsl.verb_calls import explained_object
from ...planner.plan import Plan
from ..kernel.time.bounds import START
from ..local.task import LocalTask
from .decoded_outputs import rows_of


@partial(explained_object, error=UsageError)
class DriverState:
    """Reads what the tasks of a driver hold now. Every method raises UsageError while the driver is crashed.

    >>> pipeline = Pipeline("latest")
    >>> scores = pipeline.table("scores", key=str, value=int)
    >>> pipeline.stream("games", key=str, value=int).send_to(scores)
    >>> with PipelineDriver(pipeline) as driver:
    ...     for score in (3, 5):
    ...         driver.send("games", score, key="ann")
    ...     driver.state.table("scores")
    {'ann': 5}
    """

    def __init__(self, plan: Plan, tasks: Callable[[], Sequence[LocalTask]]) -> None:
        self._plan = plan
        self._tasks = tasks

    def table(self, id: str) -> dict[Any, Any]:
        """The rows of a table now, committed or not, by key; of all partitions. Raises UsageError for an id that is no
        table's."""
        return rows_of(self._plan, id, self._tasks())

    def watermark(self, operator: str) -> int | None:
        """The watermark of an operator's input, in ms since epoch: the least of its tasks; None as long as one of them
        has none. Raises UsageError for an id that is no operator's."""
        tasks = self._tasks()
        known = [planned.id for planned in self._plan.operators]
        wrong, expected = f"the pipeline has no operator {operator!r}", f"one of {', '.join(map(repr, known))}"
        require(operator in known, UsageError, wrong, expected, "name one of them")
        watermarks = [mark for task in tasks if (mark := task.view.watermark_of(operator)) is not None]
        return None if START in watermarks else min(watermarks)
