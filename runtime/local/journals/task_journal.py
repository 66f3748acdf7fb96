"""The journal of one operator in one task: the results of calls whose messages are not committed, from before a crash
and of now, and the offset from which a next start has to read it."""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field

from msgspec import DecodeError

from ...kernel.calls.call_journal import MessageName, PaneName, named
from ...size_limit import SizeLimit, record_bytes
from ...systems.contract import StreamPartition, System
from ...systems.reads import read_between
from ..task_setup import TaskSetup
from .writers import JournalWriter

_log = logging.getLogger(__name__)

# With fewer, a call that takes long keeps more of the journal from being trimmed; each costs a number for each
# partition.
MOST_STRETCHES = 64
"""Stretches of a journal that are distinguished. There is one for each commit while a call takes long."""

NO_ENTRY = (DecodeError, UnicodeDecodeError, IndexError, ZeroDivisionError)
"""What reading a record raises that something else has written: by its name, by its length, or by its elasticity."""

Fired = Callable[[str], int | None]
"""The watermark up to which an operator has fired, in ms since epoch; None if no such operator is in the stage."""


@dataclass(slots=True)
class _Stretch:
    """Entries from an offset of the journal on: for each input partition the last offset that they are of."""

    start: int
    last: dict[StreamPartition, int] = field(default_factory=dict)

    def add(self, name: MessageName) -> None:
        partition = name.stream, name.partition
        self.last[partition] = max(name.offset, self.last.get(partition, -1))

    def is_needed(self, offsets: Mapping[StreamPartition, int]) -> bool:
        """Whether some entry is of a message that is not committed, given the offsets of a commit."""
        return any(last >= offsets.get(partition, 0) for partition, last in self.last.items())


class TaskJournal:
    """Keeps the results of an operator's calls in one task, and has those that were kept before. `partition` is the
    partition of the journal, which the key buckets of a task number share.

    In memory is what lies above the checkpoint: what was in flight, and what had been processed since that commit. An
    entry that is taken leaves memory.
    """

    def __init__(
        self,
        partition: StreamPartition,
        setup: TaskSetup,
        writer: JournalWriter,
        start: int,
        limit: SizeLimit | None = None,
        run: str = "",
    ) -> None:
        """`start` is the offset of the journal from which entries may be needed; `limit` that of its records. `run` is
        the present run: what the ends of input of others have fired is not asked for any more."""
        self.partition = partition
        self.answered = 0
        """Calls that were not made, since their results had been kept."""
        self.kept = 0
        """Calls whose results were kept."""
        self._writer = writer
        self._tag = bytes((setup.elasticity, setup.bucket))
        self._limit = limit
        self._run = run
        self._warned = False
        self._entries: dict[bytes, tuple[MessageName | PaneName, bytes]] = {}
        self._done: deque[_Stretch] = deque()
        self._open = _Stretch(start)

    def load(self, entries: Iterable[tuple[bytes, bytes]], end: int, offsets: Mapping[StreamPartition, int]) -> None:
        """Take the entries of an earlier run, up to the offset `end` of the journal. Those of other key buckets, of
        messages before these `offsets` of the task's partitions, and of the ends of input of other runs are left out;
        so is what is no entry, with a warning.
        """
        strange = 0
        for name, entry in entries:
            try:
                what = named(name)
                own = self._is_own(entry)
            except NO_ENTRY:
                strange += 1
                continue
            if not own:
                continue
            if isinstance(what, PaneName):
                if what.run not in ("", self._run):
                    continue
            elif what.offset < offsets.get((what.stream, what.partition), 1 << 63):
                continue
            else:
                self._open.add(what)
            # The last one of a name counts, as of a call that was made twice.
            self._entries[name] = what, entry[2:]
        if strange:
            _log.warning(
                "%s has %d records that are no entries of a journal: they are left out, and if there were entries in "
                "their place, these calls are made again",
                self.partition[0],
                strange,
            )
        self._close(end)

    def take(self, name: bytes) -> bytes | None:
        """The results that an earlier run has kept under a name, once."""
        entry = self._entries.pop(name, None)
        if entry is None:
            return None
        self.answered += 1
        return entry[1]

    def keep(self, name: bytes, results: bytes) -> None:
        """Write the results of a call that has ended."""
        entry = self._tag + results
        if self._limit is not None and not _fits(self._limit, name, entry):
            self._warn(len(entry), self._limit)
            return
        what = named(name)
        if isinstance(what, MessageName):
            self._open.add(what)
        self.kept += 1
        self._writer.write(self.partition, name, entry)

    def start(self, offsets: Mapping[StreamPartition, int], fired: Fired) -> int:
        """The offset of the journal from which a task has to read it that goes on from a commit with these offsets. All
        panes that have fired are in that commit."""
        self._forget(offsets, fired)
        panes = any(isinstance(what, PaneName) for what, _ in self._entries.values())
        while self._done and not self._done[0].is_needed(offsets) and not panes:
            self._done.popleft()
        return self._done[0].start if self._done else self._open.start

    def committed(self) -> None:
        """A commit has flushed the journal: entries from now on begin a new stretch, behind its present end."""
        end = self._writer.end(self.partition)
        # Else nothing was written since: an empty stretch would push out one that tells something.
        if end is not None and end > self._open.start:
            self._close(end)

    def _close(self, end: int) -> None:
        self._done.append(self._open)
        if len(self._done) > MOST_STRETCHES:
            first, second = self._done.popleft(), self._done[0]
            # Joined to the later one, not dropped: what the first had is still needed, so the journal is read from
            # there.
            second.start = first.start
            for partition, last in first.last.items():
                second.last[partition] = max(last, second.last.get(partition, -1))
        self._open = _Stretch(end)

    def _forget(self, offsets: Mapping[StreamPartition, int], fired: Fired) -> None:
        """Forget entries of before that no call has asked for: their messages are committed, or their windows have
        fired, or are in this stage no longer."""
        for name, (what, _) in list(self._entries.items()):
            if isinstance(what, PaneName):
                passed = fired(what.window)
                over = passed is None or passed >= what.end
            else:
                over = what.offset < offsets.get((what.stream, what.partition), 0)
            if over:
                del self._entries[name]

    def _is_own(self, entry: bytes) -> bool:
        """Whether an entry may be of this task's key bucket: that of its writer was of another elasticity, perhaps."""
        elasticity = min(entry[0], self._tag[0])
        return entry[1] % elasticity == self._tag[1] % elasticity

    def _warn(self, size: int, limit: SizeLimit) -> None:
        if not self._warned:
            self._warned = True
            text = "%s takes records of up to %d bytes, and one of %d bytes is not kept: after a crash such a call is "
            _log.warning(text + "made again; %s", self.partition[0], limit.largest, size, limit.remedy)


NO_JOURNALS: Mapping[str, TaskJournal] = {}
"""Those of a task without calls whose results are kept."""


def _fits(limit: SizeLimit, name: bytes, entry: bytes) -> bool:
    fits = record_bytes(name, entry, ()) <= limit.largest
    return fits or (limit.fits is not None and limit.fits(name, entry, ()))


def entries_between(system: System, partition: StreamPartition, start: int, end: int) -> Iterable[tuple[bytes, bytes]]:
    """The entries of a journal's partition from `start` to before `end`."""
    if start >= end:
        return
    with closing(system.consumer()) as consumer:
        for batch in read_between(consumer, partition, start, end):
            yield from ((key, value) for key, value, _, _ in batch.records if key and value)


def journal_starts(
    journals: Mapping[str, TaskJournal], setup: TaskSetup, offsets: Mapping[str, int], fired: Fired
) -> dict[str, int]:
    """The offset of each journal from which a task has to read it that goes on from a commit with these offsets of
    inputs."""
    partitions = {partition: offsets[name] for name, partition in setup.partitions.items() if name in offsets}
    return {operator: journal.start(partitions, fired) for operator, journal in journals.items()}
