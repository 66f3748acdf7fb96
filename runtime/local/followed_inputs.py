"""The inputs of tasks that have messages behind the end of a run, which is not the end of the streams."""

from collections.abc import Collection
from contextlib import closing
from functools import cache

from ..systems.contract import StreamPartition, System
from ..systems.reads import read_between
from .coordination.membership import Membership
from .task import LocalTask


def note_followed(tasks: Collection[LocalTask], system: System, member: Membership) -> None:
    """Note which inputs that may be idle have messages behind the offsets at which a run ends that catches up. They are
    not idle: they hold time back as if they were read, and the next run finds their messages no later than they are."""
    if member.ends is None or not member.catches_up:
        return
    queues = [queue for task in tasks for queue in task.queues if queue.growth or task.program.may_idle]
    partitions = {(queue.stream, queue.partition) for queue in queues} & member.ends.keys()
    followed = _followed(system, {partition: member.ends[partition] for partition in partitions})
    for queue in queues:
        queue.followed = (queue.stream, queue.partition) in followed


def _followed(system: System, offsets: dict[StreamPartition, int]) -> set[StreamPartition]:
    """The partitions that have messages at these offsets or behind them. Offsets alone may be of marks, as of a
    transaction that was aborted."""
    admin = system.admin()
    starts, ends = cache(admin.starts), cache(admin.ends)  # partitions of a stream need the same offsets
    unread = {
        (stream, number): (max(offset, starts(stream)[number]), ends(stream)[number])
        for (stream, number), offset in offsets.items()
        if offset < ends(stream)[number]
    }
    if not unread:  # as nearly always: a consumer costs a client of its own
        return set()
    with closing(system.consumer(max_records=1)) as consumer:
        followed = set()
        for partition, (start, end) in unread.items():
            # Closed at once, since `any` leaves the reader where it finds the first message.
            with closing(read_between(consumer, partition, start, end)) as batches:
                if any(batch.records for batch in batches):
                    followed.add(partition)
        return followed
