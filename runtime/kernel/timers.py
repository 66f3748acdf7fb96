"""Timers by key: kept with the state in slots of time, and in memory in their order once their slot has come."""

from collections.abc import Callable, Iterator
from heapq import heappop, heappush

from .state import Bytes, Change, TimedState
from .times import END, START


class Timers:
    """Which keys ring at which times, in ms. A key has one timer in each slot of `slot` ms: the earliest that was set.

    Slots are few, though times may all differ. A slot that the watermark has come to is open: its timers are in a heap
    too, and those set in it since. `on_new(time)` is called when a timer is set, and for the slots that were kept.
    """

    def __init__(self, name: str, below: Bytes, slot: int, complete: bool, on_new: Callable[[int], None]) -> None:
        self._slot = max(1, slot)
        self._on_new = on_new
        self._heap: list[tuple[int, bytes]] = []
        self._open: set[int] = set()
        self._reached = START
        self._state = TimedState(name, below, int, _never, complete, on_new)

    def set(self, time: int, key: bytes) -> None:
        """Let a key ring at a time, if it would ring later or not at all in that slot."""
        slot = time - time % self._slot
        times = self._state.fresh(slot)
        if time < times[key]:
            times[key] = time
            if slot <= self._reached:
                if slot not in self._open:
                    self._open_slot(slot)
                else:
                    heappush(self._heap, (time, key))
            self._on_new(time)

    def ring(self, watermark: int) -> Iterator[tuple[int, list[bytes]]]:
        """The times up to the watermark that have timers, the earliest first, with their keys in order. They are gone
        then; timers that are set meanwhile ring too."""
        heap, at, size = self._heap, self._state.at, self._slot
        self._open_up_to(watermark)
        while heap and heap[0][0] <= watermark:
            time, keys = heap[0][0], []
            layer = at[time - time % size]
            while heap and heap[0][0] == time:
                key = heappop(heap)[1]
                if layer.fresh[key] == time:  # else an earlier one took its place
                    layer.delete(key)
                    keys.append(key)
            if keys:
                yield time, keys
        self._drop_up_to(watermark)

    def _open_up_to(self, watermark: int) -> None:
        if watermark > self._reached:
            self._reached = watermark
            for slot in [slot for slot in self._state.at if slot <= watermark and slot not in self._open]:
                self._open_slot(slot)

    def _open_slot(self, slot: int) -> None:
        self._open.add(slot)
        for key, time in self._state.at[slot].items():
            heappush(self._heap, (time, key))

    def _drop_up_to(self, watermark: int) -> None:
        for slot in [slot for slot in self._open if slot + self._slot <= watermark]:
            self._open.remove(slot)
            self._state.drop(slot)

    def wake(self) -> int:
        """The watermark from which `ring` has something to do; END if there are no timers."""
        if self._heap:  # slots that are not open yet come later
            return self._heap[0][0]
        return min((slot for slot in self._state.at if slot not in self._open), default=END)

    def changes(self) -> Iterator[Change]:
        return self._state.changes()

    def settle(self, room: int) -> int:
        return self._state.settle(room)


def _never() -> int:
    return END
