"""Timers by key: stored in time slots, and also in an ordered list once their slot has begun."""

from bisect import bisect_right, insort
from collections.abc import Callable, Iterable, Iterator

from ..state_backend import Change, StateBackend
from ..state_cache import TimeBucketedState, WriteBackCache
from .bounds import END


class Timers:
    """Timers of keys, at times in ms. A key has one timer in each slot of `slot` ms: the earliest that was set.

    There are few slots, though all times may differ. A slot that the watermark has reached is open: its timers are also
    in a list, in order. A timer that has fired stays stored until its slot is removed; it is known by its time, which
    is not after the last time that fired. `on_new(time)` is called when a timer is set, and for the stored slots.
    `mark`, a byte, distinguishes the timers from other state of an operator.
    """

    def __init__(
        self,
        name: str,
        backend: StateBackend,
        slot: int,
        complete: bool,
        on_new: Callable[[int], None],
        fired: int,
        *,
        mark: bytes = b"t",
    ) -> None:
        self._size = max(1, slot)
        self._on_new = on_new
        self._fired = self._reached = fired
        self._state = TimeBucketedState(name, backend, int, _never, complete, on_new, mark=mark)
        self._due: list[tuple[int, bytes]] = []
        self._next = 0  # in that list
        self._open: list[int] = []
        self._closed = sorted(self._state.at)

    def set(self, time: int, key: bytes) -> None:
        """Set a timer of a key at a time after the last watermark, unless the key has an earlier one in that slot.
        While timers fire, a timer may be set only for the key that fires: another key may be due at the same time."""
        slot = time - time % self._size
        cache = self._state.at.get(slot)
        if cache is None:
            times = self._state.fresh(slot)
            insort(self._closed, slot)
        else:
            times = cache.fresh
        known = times[key]
        if time < known or known <= self._fired:
            times[key] = time
            if slot <= self._reached:
                self._set_in_open(slot, time, key)
            self._on_new(time)

    def _set_in_open(self, slot: int, time: int, key: bytes) -> None:
        if slot in self._open:
            insort(self._due, (time, key), self._next)
        else:
            self._open_reached()

    def fire(self, watermark: int) -> Iterator[tuple[int, bytes]]:
        """Yield the timers up to the watermark as (time, key), in order. Each fires once. Timers that are set during
        the iteration fire too."""
        due, at, size = self._due, self._state.at, self._size
        last: tuple[int, bytes] | None = None
        # The first condition spares the call in nearly all cases.
        while (self._next < len(due) and due[self._next][0] <= watermark) or self._has_due(watermark):
            timer = due[self._next]
            time, key = timer
            self._next += 1
            # Otherwise an earlier timer has replaced it, or it has fired.
            if at[time - time % size].fresh[key] == time and timer != last:
                last, self._fired = timer, time
                yield timer
        if watermark < END:
            self._fired = max(self._fired, watermark)
        if self._next > len(due) // 2:  # timers that have fired are removed many at a time
            del due[: self._next]
            self._next = 0
        while self._open and self._open[0] + self._size <= watermark:
            self._state.drop(self._open.pop(0))

    def waiting(self) -> Iterator[tuple[int, list[bytes]]]:
        """Yield the keys of the timers that have not fired, slot by slot, each with the time at which its slot is over.
        The timers stay; others may be set meanwhile, in later slots."""
        slot: int | None = None
        while (slot := self.slot_behind(slot)) is not None:
            yield slot + self._size, self.waiting_in(slot)

    def waiting_in(self, slot: int) -> list[bytes]:
        """The keys of the timers of a slot that have not fired."""
        return [key for key, time in self._state.at[slot].items() if time > self._fired]

    def slot_behind(self, slot: int | None) -> int | None:
        """The first slot that begins after this time; None: the first of all."""
        slots = (self._open, self._closed)
        starts = (0 if slot is None else bisect_right(sorted_slots, slot) for sorted_slots in slots)
        behind = (found[start] for found, start in zip(slots, starts, strict=True) if start < len(found))
        return min(behind, default=None)

    def _has_due(self, watermark: int) -> bool:
        """Whether there is a timer up to the watermark. Slots are opened one by one, for all may not fit in memory."""
        while self._next == len(self._due) and self._closed and self._closed[0] <= watermark:
            self._reached = max(self._reached, self._closed[0])
            self._due.clear()
            self._next = 0
            self._open_reached()
        if self._next < len(self._due) and self._due[self._next][0] <= watermark:
            return True
        self._reached = max(self._reached, watermark)
        return False

    def _open_reached(self) -> None:
        while self._closed and self._closed[0] <= self._reached:
            slot = self._closed.pop(0)
            insort(self._open, slot)
            timers = sorted((time, key) for key, time in self._state.at[slot].items() if time > self._fired)
            if self._next < len(self._due) and timers and timers[0] < self._due[-1]:
                self._due[self._next :] = sorted([*self._due[self._next :], *timers])
            else:
                self._due.extend(timers)

    def next_due(self) -> int:
        """The least watermark at which `fire` has something to do: a timer, or the removal of a slot that is over; END
        if there is nothing."""
        over = self._open[0] + self._size if self._open else END
        if self._next < len(self._due):  # slots that are not open yet come later
            return min(over, self._due[self._next][0])
        return min(over, self._closed[0]) if self._closed else over

    @property
    def changed(self) -> int:
        """About how many entries have changed since the last commit."""
        return self._state.changed

    def changes(self) -> Iterator[Change]:
        """The changes since the last commit, as bytes for the backend."""
        return self._state.changes()

    def mark_committed(self) -> None:
        """Take the changes as committed, so that their entries may be evicted."""
        self._state.mark_committed()

    def caches(self) -> Iterable[WriteBackCache]:
        """The caches that hold this state in memory."""
        return self._state.caches()


def _never() -> int:
    return END
