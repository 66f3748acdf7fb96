"""The inputs of tasks that have messages behind the end of a run, which is not the end of the streams."""

from collections.abc import Collection
from contextlib import closing

from ..systems.contract import Admin, Consumer, StreamPartition, System
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
    with closing(system.consumer(max_records=1)) as consumer:
        for queue in queues:
            partition = queue.stream, queue.partition
            if partition in member.ends and partition not in followed:
                followed[partition] = _holds_messages(consumer, admin, partition, member.ends[partition])
            queue.followed = followed.get(partition, False)


def _holds_messages(consumer: Consumer, admin: Admin, partition: StreamPartition, start: int) -> bool:
    """Whether a partition has a message at this offset or behind it: offsets alone may be of marks, as of a transaction
    that was aborted."""
    stream, number = partition
    first, end = admin.starts(stream)[number], admin.ends(stream)[number]
    # Closed at once, since `any` leaves the reader where it finds the first message.
    with closing(read_between(consumer, partition, max(start, first), end)) as batches:
        return any(batch.records for batch in batches)
