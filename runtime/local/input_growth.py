"""Follows the growth of sources while a container runs: its tasks get the partitions that are new."""

import logging
from collections.abc import Collection, Mapping

from ...planner.growths import partitions_read
from ...planner.plan import Plan
from ..preflight.input_streams import LOGGER, InputStreamMonitor
from ..systems.contract import ProducingSystem, StreamOffsets, StreamPartition
from ..systems.end_offsets import EndOffsets
from .open_tasks import TaskOpener
from .task import LocalTask

_log = logging.getLogger(LOGGER)


class _LogEnds:
    """The ends of streams as their logs have them: what is not committed yet counts."""

    def __init__(self, offsets: StreamOffsets) -> None:
        self._offsets = offsets

    def ends(self, stream: str) -> list[int]:
        return self._offsets.log_ends(stream)


class InputGrowth:
    """Lets the tasks of a container have the partitions that sources have got, and releases those that are held.

    `inputs` looks at the streams. A task that has got partitions is committed and opened again with them, as if it had
    been started anew, within the container (`reopened`): a pause of a moment, and one way for starts and for growth.
    """

    def __init__(self, opener: TaskOpener, inputs: InputStreamMonitor, system: ProducingSystem) -> None:
        self._opener = opener
        self._inputs = inputs
        self._plan = opener.run.plan
        self._ends = EndOffsets(_LogEnds(system.admin().offsets), threaded=True)
        self._held_seconds = system.admin().metadata_ms / 1000
        self._asked: int | None = None

    def step(self, tasks: Collection[LocalTask], ends: Mapping[StreamPartition, int] | None) -> None:
        """Mark the tasks that have got partitions, and release what need not be held. A run that ends at `ends` reads
        the partitions that it has begun with."""
        if self._inputs.grown:
            self._opener.grow(self._inputs.grown)
        plan = self._opener.run.plan
        if plan is not self._plan:  # also where a task that was taken over knew of it
            self._log_growth(plan)
            self._plan = plan
            self._inputs.follow(plan)
            for task in tasks:
                task.reopens = task.setup.partitions != partitions_read(plan, task.setup.stage, task.setup.number)
        if holding := [task for task in tasks if task.holds.known]:
            self._learn_ends(holding)
            for task in holding:
                task.holds.release(ends)

    def reopened(self, task: LocalTask) -> LocalTask:
        """A task with the partitions that it has now. It is committed, and nothing is in flight."""
        return self._opener.reopened(task)

    def _log_growth(self, plan: Plan) -> None:
        """Say which partitions are new: they are held for a while, in which lag grows."""
        for stream in plan.streams:
            before = self._plan.stream(stream.name).partitions
            if stream.partitions > before:
                _log.warning(
                    "stream %r has %d partitions now, and had %d: what is in the new ones is processed behind what "
                    "producers may still write to the others for %.0f s",
                    stream.name,
                    stream.partitions,
                    before,
                    self._held_seconds,
                )

    def _learn_ends(self, tasks: Collection[LocalTask]) -> None:
        """Learn what the partitions of before hold, once no producer writes to them what belongs in later ones."""
        if self._asked is not None and self._ends.answered:
            for task in tasks:
                task.holds.learn(self._ends.latest or {}, self._asked)
            self._asked = None
        now = self._opener.wall()
        if self._asked is None and (streams := {stream for task in tasks for stream in task.holds.asks(now)}):
            self._asked = now
            self._ends.request(sorted(streams))
