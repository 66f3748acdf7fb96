"""Opens the journals of a task: what an earlier run has kept is read, from the offset in the checkpoint on."""

from ...planner.journals import journals_in
from ..systems.contract import System
from .checkpoints.checkpoint import Checkpoint
from .input_queue import InputQueues
from .journals.task_journal import TaskJournal, entries_between
from .run_context import RunContext
from .task_setup import TaskSetup


def open_journals(
    run: RunContext, system: System, setup: TaskSetup, checkpoint: Checkpoint, queues: InputQueues
) -> dict[str, TaskJournal]:
    """The journals of a task that goes on from a checkpoint, by operator."""
    streams, writer = journals_in(run.plan, setup.stage), run.commits.journal
    if not streams or writer is None:
        return {}
    admin, offsets = system.admin(), {(queue.stream, queue.partition): queue.landed for queue in queues}
    limits, journals = admin.record_limits([*streams.values()]), dict[str, TaskJournal]()
    for operator, stream in streams.items():
        partition = stream, setup.number
        first, end = admin.starts(stream)[setup.number], admin.ends(stream)[setup.number]
        start = _start(checkpoint.journals.get(operator, first), first, end)
        journal = journals[operator] = TaskJournal(partition, setup, writer, start, limits.get(stream), run.id)
        journal.load(entries_between(system, partition, start, end), end, offsets)
    return journals


def _start(kept: int, first: int, end: int) -> int:
    """The offset to read a journal from. One that was deleted and created again may end before the kept offset."""
    return max(kept, first) if kept <= end else first
