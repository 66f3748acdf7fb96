"""Whether the records that a run before has left in intermediate streams are read as they were written."""

from collections.abc import Iterable
from contextlib import closing

from ....dsl.errors import PlanError
from ....dsl.message import Record
from ....dsl.validation import explain
from ....planner.border_schema import BorderSchema, schemas_as_read
from ....planner.plan import Plan
from ....planner.state_schema import differences
from ....planner.stream_names import intermediate
from ....planner.task_assignment import TaskId
from ...kernel.time.border_watermarks import TRAILER_HEADER, read_control
from ...systems.contract import System
from ...systems.reads import read_to_ends
from .checkpoint import Checkpoint, Checkpoints


def last_border_schemas(checkpoints: Iterable[Checkpoint]) -> dict[str, BorderSchema]:
    """The last record of each intermediate stream, by stream, out of the checkpoints of the tasks that have written
    it."""
    last: dict[str, BorderSchema] = {}
    for checkpoint in checkpoints:
        for stream, record in checkpoint.borders.items():
            if stream not in last or last[stream].number < record.number:
                last[stream] = record
    return last


def refuse_changed_borders(plan: Plan, system: System, stored: Checkpoints) -> None:
    """Raise PlanError where an intermediate stream has records that nobody has read yet, and the plan would read them
    with another serde or type than they were written with, or take partial aggregates for others.

    A stream without a record of its schema, of versions that kept none, is taken to be unchanged.
    """
    wanted, last = schemas_as_read(plan), last_border_schemas(stored.values())
    for border in plan.pipeline.borders:
        stream = intermediate(plan.name, border.id)
        changes = differences(last[stream].schema, wanted[stream]) if stream in last else []
        # A stream is read only if this matters: it may be long.
        if changes and holds_unread_messages(system, stream, stored):
            wrong = f"messages that {border.label} has left in the stream {stream!r}, and that were not read yet, "
            wrong += f"have another meaning: {'; '.join(changes)}"
            expected = "the types and serdes that they were written with, as long as some were not read"
            remedy = "run the version before with --until end, which reads them, and this one then; "
            remedy += "or give it another id, and they are not read any more"
            raise PlanError(explain(wrong, expected, remedy, border.origin))


def holds_unread_messages(system: System, stream: str, stored: Checkpoints) -> bool:
    """Whether an intermediate stream has messages that its tasks have not read, besides control messages."""
    admin = system.admin()
    if admin.partitions(stream) is None:
        return False
    first, ends = admin.starts(stream), admin.ends(stream)
    starts = [max(start, _read_up_to(stream, partition, stored)) for partition, start in enumerate(first)]
    # Closed at once, since `any` leaves the reader where it finds the first message.
    with closing(read_to_ends(system, stream, starts, ends)) as batches:
        return any(not _is_control(record) for batch in batches for record in batch.records)


def _read_up_to(stream: str, partition: int, stored: Checkpoints) -> int:
    """The offset of a partition before which a task has read everything, or each of the tasks that are split by key,
    whatever their stage was called."""
    groups: dict[tuple[str, int], list[int]] = {}
    for task, one in stored.items():
        stage, number, _, elasticity = TaskId.parse(task)
        if number == partition:
            groups.setdefault((stage, elasticity), []).append(one.offsets.get(stream, 0))
    whole = (min(offsets) for (_, elasticity), offsets in groups.items() if len(offsets) == elasticity)
    return max(whole, default=0)


def _is_control(record: Record) -> bool:
    """Whether a record is a control message, which is read alike by all versions."""
    _, value, _, headers = record
    if value is not None or not headers or headers[-1][0] != TRAILER_HEADER:
        return False
    try:
        return read_control(headers[-1][1]) is not None
    except ValueError:  # another program has written it
        return False
