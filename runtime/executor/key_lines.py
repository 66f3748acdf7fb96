"""The messages of an executor that wait for others of their key."""

from collections import deque
from collections.abc import Hashable

from .submission import Entry


class KeyLines:
    """Entries in line, by key. The first of each line is in flight, and the next begins once it has left. Entries whose
    key is None, and those of an executor that does not order by key, stand in no line."""

    def __init__(self, ordered: bool) -> None:
        self._ordered = ordered
        self._lines: dict[Hashable, deque[Entry]] = {}

    def join(self, entry: Entry) -> bool:
        """Put an entry at the end of its line. Returns whether it may begin."""
        key = entry.submission.key
        if not self._ordered or key is None:
            return True
        line = self._lines.setdefault(key, deque())
        line.append(entry)
        return len(line) == 1

    def leave(self, entry: Entry) -> Entry | None:
        """The first of a line has ended. Returns the one that may begin, if there is one."""
        key = entry.submission.key
        if not self._ordered or key is None:
            return None
        line = self._lines[key]
        line.popleft()
        if line:
            return line[0]
        del self._lines[key]
        return None

    def withdraw(self, entry: Entry) -> bool:
        """Take an entry out of its line, unless it is in flight. Returns whether it was taken out."""
        line = self._lines.get(entry.submission.key, ())
        if not line or line[0] is entry or entry not in line:
            return False
        self._lines[entry.submission.key].remove(entry)
        return True

    def length(self, key: Hashable) -> int:
        """How many messages of a key are in flight or wait for their turn; 0 where the key orders nothing."""
        return len(self._lines.get(key, ()))

    def clear(self) -> None:
        """Forget all entries."""
        self._lines.clear()
