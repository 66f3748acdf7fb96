"""Tracks which messages of a partition have landed, and so the offset that a checkpoint may contain.

That offset is the largest one before which every message has landed, in whatever order messages land.
"""

from collections import deque
from collections.abc import Sequence


class _Batch:
    """Messages in flight of one batch: a mark for each, 1 once it has landed."""

    __slots__ = ("marks", "offsets", "start")

    def __init__(self, offsets: Sequence[int], start: int, stop: int) -> None:
        self.offsets = offsets
        self.start = start
        self.marks = bytearray(stop - start)


class OffsetTracker:
    """The messages in flight of one partition. Batches begin in the order of their offsets."""

    def __init__(self, position: int) -> None:
        self._position = position
        self._batches: deque[_Batch] = deque()

    def begin(self, offsets: Sequence[int], start: int, stop: int) -> bytearray:
        """Messages offsets[start:stop] are in flight. Returns a mark for each, to be set to 1 once it has landed."""
        batch = _Batch(offsets, start, stop)
        self._batches.append(batch)
        return batch.marks

    def withdraw(self, count: int) -> None:
        """The last messages of the batch that began last, so many, are not in flight after all."""
        if count:
            marks = self._batches[-1].marks
            del marks[len(marks) - count :]
            if not marks:
                self._batches.pop()

    def land_all(self, offsets: Sequence[int], stop: int) -> None:
        """All messages before offsets[stop] have landed. No message may be in flight."""
        self._position = offsets[stop - 1] + 1

    def position(self) -> int:
        """The offset before which every message has landed."""
        while self._batches:
            batch = self._batches[0]
            first = batch.marks.find(0)
            if first >= 0:
                self._position = batch.offsets[batch.start + first]
                break
            self._position = batch.offsets[batch.start + len(batch.marks) - 1] + 1
            self._batches.popleft()
        return self._position

    @property
    def open_batches(self) -> int:
        """How many batches have begun that the position has not passed."""
        self.position()
        return len(self._batches)

    @property
    def idle(self) -> bool:
        """Whether no message is in flight."""
        self.position()
        return not self._batches
