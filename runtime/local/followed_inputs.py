"""The inputs of tasks that have messages behind the end of a run, which is not the end of the streams."""

from collections.abc import Collection
from contextlib import closing
from functools import cache

from ..systems.contract import Consumer, StreamPartition, System
from ..systems.reads import read_between
from .coordination.membership import Membership
from .task import LocalTask


def note_followed(tasks: Collection[LocalTask], system: System, member: Membership) -> None:
    """Note which inputs that may be idle have messages behind the offsets at which a run ends that catches up. They are
    not idle: they hold time back as if they were read, and the next run finds their messages no later than they are."""
    if member.ends is None or not member.catches_up:
        return
    queues = [queue for task in tasks for queue in task.queues if queue.growth or task.program.may_idle]
    admin, followed = system.admin(), dict[StreamPartition, bool]()
    starts, ends = cache(admin.starts), cache(admin.ends)  # partitions of a stream need the same offsets
    with closing(system.consumer(max_records=1)) as consumer:
        for queue in queues:
            partition = stream, number = queue.stream, queue.partition
            if partition in member.ends and partition not in followed:
                followed[partition] = _holds_messages(
                    consumer, partition, max(member.ends[partition], starts(stream)[number]), ends(stream)[number]
                )
            queue.followed = followed.get(partition, False)


def _holds_messages(consumer: Consumer, partition: StreamPartition, start: int, end: int) -> bool:
    """Whether a partition has a message between two offsets: these alone may be of marks, as of a transaction that was
    aborted."""
    # Closed at once, since `any` leaves the reader where it finds the first message.
    with closing(read_between(consumer, partition, start, end)) as batches:
        return any(batch.records for batch in batches)
