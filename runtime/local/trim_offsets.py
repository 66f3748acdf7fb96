"""The offsets before which a task reads no record again, so that the streams may be trimmed."""

from collections.abc import Mapping

from ...planner.plan import Plan
from ..systems.contract import StreamPartition
from .checkpoints.checkpoint import Checkpoint
from .input_queue import InputQueues
from .journals.task_journal import TaskJournal
from .task_setup import TaskSetup


def trim_offsets(
    plan: Plan, setup: TaskSetup, queues: InputQueues, committed: Checkpoint, journals: Mapping[str, TaskJournal]
) -> dict[StreamPartition, int]:
    """The offsets of intermediate streams and journals before which a task that has `committed` this reads no record
    again, not even after a power cut: its store is synced."""
    kinds = {queue.name: plan.stream(queue.stream).kind for queue in queues}
    known = {name: committed.offsets.get(name) for name, kind in kinds.items() if kind == "intermediate"}
    offsets = {setup.partitions[name]: offset for name, offset in known.items() if offset is not None}
    starts = committed.journals
    offsets |= {journal.partition: starts[id] for id, journal in journals.items() if id in starts}
    if offsets:
        # Else a power cut could leave the store behind these offsets, and it would need the records again.
        setup.store.sync()
    return offsets
