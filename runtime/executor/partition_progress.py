"""How far an executor is with a partition: what was submitted of it, what is in flight, and the offset to commit."""

from collections.abc import Hashable

from ...dsl.errors import UsageError
from ...dsl.validation import explain
from ..local.offset_tracker import OffsetTracker


class PartitionProgress:
    """The offsets of one partition. They are submitted in growing order, and land in any."""

    def __init__(self, partition: Hashable, first: int) -> None:
        self._partition = partition
        self._tracker = OffsetTracker(first)
        self._next = first
        self.in_flight = 0
        self.revoked = False

    def begin(self, offset: int) -> bytearray:
        """A message is in flight. Returns its mark, to be set to 1 by `land`. Raises UsageError for an offset that is
        not above those before it."""
        if offset < self._next:
            wrong = f"KeyedExecutor: offset {offset} of partition {self._partition!r} came after {self._next - 1}"
            remedy = "call `await executor.revoke(partition)` before you read it again from an earlier offset"
            raise UsageError(explain(wrong, "the offsets of a partition in growing order", remedy))
        self._next = offset + 1
        self.in_flight += 1
        return self._tracker.begin((offset,), 0, 1)

    def land(self, mark: bytearray) -> None:
        """A message has landed."""
        mark[0] = 1
        self.in_flight -= 1

    @property
    def position(self) -> int:
        """The offset before which every message has landed."""
        return self._tracker.position()

    @property
    def ahead(self) -> int:
        """How many messages were submitted from `position` on: they are read again where a program starts there."""
        return self._tracker.open_batches
