"""Timers by key: kept with the state in slots of time, and in memory in their order once their slot has come."""

from collections.abc import Callable, Iterator
from heapq import heappop, heappush

from .state import Bytes, Change, TimedState
from .times import END


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
        self._state = TimedState(name, below, int, _never, complete, on_new)

    def set(self, time: int, key: bytes) -> None:
        """Let a key ring at a time, if it would ring later or not at all in that slot."""
        slot = time - time % self._slot
        times = self._state.fresh(slot)
        if time < times[key]:
            times[key] = time
            if slot in self._open:
                heappush(self._heap, (time, key))
            self._on_new(time)

    def ring(self, watermark: int) -> tuple[int, list[bytes]] | None:
        """The earliest time up to the watermark that has timers, and their keys in order; they are gone then."""
        self._open_up_to(watermark)
        while self._heap and self._heap[0][0] <= watermark:
            time, keys = self._heap[0][0], []
            layer = self._state.at[time - time % self._slot]
            while self._heap and self._heap[0][0] == time:
                key = heappop(self._heap)[1]
                if layer.fresh[key] == time:  # else an earlier one took its place
                    layer.delete(key)
                    keys.append(key)
            if keys:
                return time, keys
        self._drop_up_to(watermark)
        return None

    def _open_up_to(self, watermark: int) -> None:
        for slot in [slot for slot in self._state.at if slot <= watermark and slot not in self._open]:
            self._open.add(slot)
            for key, time in self._state.at[slot].items():
                heappush(self._heap, (time, key))

    def _drop_up_to(self, watermark: int) -> None:
        for slot in [slot for slot in self._open if slot + self._slot <= watermark]:
            self._open.remove(slot)
            self._state.drop(slot)

    def wake(self) -> int:
        """The watermark from which `ring` has something to do; END if there are no timers."""
        first = self._heap[0][0] if self._heap else END
        return min(first, min((slot for slot in self._state.at if slot not in self._open), default=END))

    def changes(self) -> Iterator[Change]:
        return self._state.changes()

    def settle(self, room: int) -> int:
        return self._state.settle(room)


def _never() -> int:
    return END
