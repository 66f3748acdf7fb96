"""Sessions of one partition, as the loop by hand keeps them."""

from collections.abc import Iterator

from benchmarks.constants import GAP

Span = list[int]
"""A session: first and last event in ms since epoch, number of events, cents."""

_SLOT = 10_000
"""Users are looked at again in groups: those whose first session may be over in the same so many ms."""

_NEVER = 1 << 62


class Sessions:
    """The sessions that are open, by user. No user is looked at before a session of theirs may be over."""

    __slots__ = ("_slots", "_users", "due")

    def __init__(self) -> None:
        self._users: dict[str, list[Span]] = {}
        self._slots: dict[int, list[str]] = {}
        self.due = _NEVER
        """When `over` has something to look at."""

    def add(self, user: str, at: int, cents: int) -> None:
        """Take an event in."""
        spans = self._users.get(user)
        if spans is None:
            self._users[user] = [[at, at, 1, cents]]
            self._look_again(user, at)
            return
        if len(spans) == 1:  # as a rule
            span = spans[0]
            if span[0] <= at <= span[1] + GAP:
                if at > span[1]:
                    span[1] = at
                span[2] += 1
                span[3] += cents
                return
        self._users[user] = _joined(spans, [at, at, 1, cents])

    def over(self, watermark: int) -> Iterator[tuple[str, Span]]:
        """Forget the sessions that no event can join any more, and give them back."""
        for slot in sorted(slot for slot in self._slots if slot <= watermark):
            for user in self._slots.pop(slot):
                spans = self._users.pop(user)
                yield from ((user, span) for span in spans if span[1] + GAP < watermark)
                if left := [span for span in spans if span[1] + GAP >= watermark]:
                    self._users[user] = left
                    self._look_again(user, min(span[1] for span in left))
        self.due = min(self._slots, default=_NEVER)

    def _look_again(self, user: str, last: int) -> None:
        slot = (last + GAP) // _SLOT * _SLOT + _SLOT
        users = self._slots.get(slot)
        if users is None:
            self._slots[slot] = [user]
            self.due = min(self.due, slot)
        else:
            users.append(user)


def _joined(spans: list[Span], new: Span) -> list[Span]:
    apart: list[Span] = []
    for span in spans:
        if span[0] - GAP <= new[1] and new[0] <= span[1] + GAP:
            new = [min(span[0], new[0]), max(span[1], new[1]), span[2] + new[2], span[3] + new[3]]
        else:
            apart.append(span)
    return [*apart, new]
