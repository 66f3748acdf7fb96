"""The writer of a log: transactions, and the publication of prepared ones, its own and those of other processes."""

import os
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path

from ....dsl.errors import UsageError
from ....dsl.validation import explain
from ..contract import OtherWriters, StreamPartition, no_others
from .journal import COMPACT_BYTES, Journal
from .publication import Unless, from_token, publish
from .retention import Trimming, trim
from .segments import SEGMENT_BYTES, Segments
from .transaction import LogTransaction


class LogProducer:
    """Writes to the streams of a log. Any number of producers, in any number of processes, may write at once.

    A producer belongs to one thread at a time, and to the process that made it.
    """

    def __init__(
        self,
        directory: Path,
        *,
        writer: str,
        fsync: bool = True,
        compact_bytes: int = COMPACT_BYTES,
        segment_bytes: int = SEGMENT_BYTES,
    ) -> None:
        """`writer` must be a name that no other producer of this log ever had."""
        self._directory = directory
        self._writer = writer
        self._process = os.getpid()
        self._journal = Journal(directory, create=True, fsync=fsync, compact_bytes=compact_bytes)
        self._segments = Segments(directory, writer, fsync=fsync, segment_bytes=segment_bytes)
        self._fsync = fsync
        self._numbers = count(1)
        self._unpublished: set[int] = set()

    @property
    def identity(self) -> str:
        """A name that no other log ever had, nor one in this directory that was removed and created again."""
        return self._journal.identity()

    @property
    def removed(self) -> bool:
        """Whether the log was removed, or another one was made in its directory. Nothing can be written then."""
        return self._journal.removed

    @property
    def durable(self) -> bool:
        """Whether what is published survives a power cut."""
        return self._fsync

    def begin(self) -> LogTransaction:
        """A new transaction; several may be open at once."""
        if os.getpid() != self._process:
            wrong = f"a producer of log:{self._directory} was made in process {self._process} and used in {os.getpid()}"
            expected = "use by the process that made it, since two processes would write to one file"
            raise UsageError(explain(wrong, expected, "call producer() in the process that writes"))
        return LogTransaction(self._journal, self._segments, self._writer, self._next_number)

    def _next_number(self) -> int:
        number = next(self._numbers)
        self._unpublished.add(number)
        return number

    def publish(self, token: bytes) -> None:
        """Make a prepared transaction visible; nothing happens if it is visible already.

        Raises SystemProblem where the token is not of this log, or its files are gone.
        """
        self.publish_all([token])

    def publish_all(
        self,
        tokens: Sequence[bytes],
        group: str = "",
        checkpoints: Mapping[str, bytes] | None = None,
        *,
        unless: Unless | None = None,
    ) -> bool:
        """Make prepared transactions visible, and write checkpoints of `group`, at once or not at all.

        Tokens that are visible already are left out. `unless` is called with the checkpoints of the group while the log
        is locked. If it returns True, nothing happens and the result is False. So a numbered unit of work is published
        once, by whichever process comes first:

            producer.publish_all(tokens, "visits", {"batch": b"7"}, unless=lambda saved: int(saved["batch"]) >= 7)
        """
        prepared = [from_token(token, self._directory) for token in tokens]
        done = publish(self._journal, self._segments, prepared, group, checkpoints, unless)
        for one in prepared if done else []:
            # Not those of other processes, such as Spark's workers: they count their own. A token may also come twice.
            if one.writer == self._writer and one.number in self._unpublished:
                self._unpublished.remove(one.number)
                self._segments.published(one.extents)
        return done

    def trim(self, starts: Mapping[StreamPartition, int], others: OtherWriters = no_others) -> None:
        """Remove the files of these partitions that have no records from these offsets on.

        `others` names the other producers that may still publish to these partitions: their files stay. Files of all
        other producers are removed, unless they have published records that are still to be read.
        """
        by = Trimming(self._writer, self._segments.unpublished(), others)
        self._segments.let_go(trim(self._journal, starts, by))

    def close(self) -> None:
        """Drop what was staged and not prepared."""
        # A child that was forked has the same files, and must not drop what this process has staged.
        if os.getpid() == self._process:
            self._segments.close()
        self._journal.close()
