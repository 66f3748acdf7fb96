"""The watermarks, ends and idleness that a task reports at its borders to the next stages, as control messages."""

from collections.abc import Callable
from typing import Protocol

from msgspec import structs

from ...planner.plan import Plan, PlannedStage
from ..kernel.time.border_watermarks import ControlMessage, control_record
from ..kernel.time.bounds import END, START
from .commit.contract import StagedOutputs

_Reported = tuple[int, bool, bool]
"""A watermark in ms since epoch, whether the border has ended, and whether it is idle."""
_NOTHING: _Reported = (START, False, False)


class StageProgress(Protocol):
    """The watermarks of a stage by operator, as `StageTask` provides them."""

    @property
    def busy(self) -> bool:
        """Whether messages or firings are in flight."""
        ...

    def watermark_of(self, operator: str) -> int:
        """The watermark in front of an operator, in ms since epoch; END once its inputs have ended."""
        ...

    def reported_watermark_of(self, operator: str) -> int:
        """The watermark in front of an operator that messages have given it: the end of input does not count."""
        ...

    def has_ended(self, operator: str) -> bool:
        """Whether no more comes to an operator in this run, once nothing is in flight."""
        ...

    def is_idle(self, operator: str) -> bool:
        """Whether all inputs in front of an operator are idle."""
        ...


class BorderProgress:
    """The borders of one task, and the last report at each.

    Create it after the inputs of which the task has no partition have ended in the stage, and before any other input
    has.
    """

    def __init__(
        self, plan: Plan, stage: PlannedStage, work: StageProgress, control: Callable[[int, bool, bool], ControlMessage]
    ) -> None:
        """`control` makes the task's control message of a watermark, whether it ended, and whether it is idle."""
        borders = [border.id for border in plan.pipeline.borders if border.id in stage.operators]
        streams = {id: plan.stream(plan.operator(id).writes[0]) for id in borders}
        self._partitions = {id: (stream.name, stream.partitions) for id, stream in streams.items()}
        self._work = work
        self._control = control
        # No input of this task leads to these borders: the next stage must not wait for its watermark there.
        self._silent = {id for id in borders if work.watermark_of(id) == END}
        self._reported = dict.fromkeys(borders, _NOTHING)

    @property
    def has_unreported_end(self) -> bool:
        """Whether a next stage still waits for the end of this task's outputs, so that one more commit is needed."""
        return any(self._work.has_ended(id) and not ended for id, (_, ended, _) in self._reported.items())

    def report(self, staged_outputs: StagedOutputs, parts: int = 0) -> bool:
        """Write control messages for each border whose state has changed. Returns whether any has. With `parts` they
        are the last ones of a task that is split into so many: written for each border."""
        changed = {id: now for id, last in self._reported.items() if (now := self._now(id)) != last or parts}
        for id, now in changed.items():
            stream, partitions = self._partitions[id]
            record = control_record(structs.replace(self._control(*now), parts=parts), max(now[0], 0))
            for partition in range(partitions):
                staged_outputs.append(stream, partition, [record])
        self._reported |= changed
        return bool(changed)

    def _now(self, id: str) -> _Reported:
        busy = self._work.busy
        watermark = END if id in self._silent else self._work.reported_watermark_of(id)
        ended = self._work.has_ended(id) and not busy
        return watermark, ended, self._work.is_idle(id) and not busy
