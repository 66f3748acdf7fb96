"""The embedded log as a system: makes the admin, consumers and producers of a directory."""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from .admin import LogAdmin
from .claim import claim
from .consumer import LogConsumer
from .journal import COMPACT_BYTES
from .producer import LogProducer
from .segments import SEGMENT_BYTES


def random_writer() -> str:
    """A name that no writer ever had."""
    return os.urandom(8).hex()


class LogSystem:
    """Streams in a directory of a local disk: durable, transactional, shared by any number of processes, no server.

    Committed records survive a kill at any moment, and with `fsync` a power cut; without it, a power cut may lose or
    damage records that were committed in the last seconds, and leave stores behind records that runs have trimmed: for
    logs that can be made anew. All records are retained, except those that a producer's
    `trim` gives up: runs trim their intermediate streams.

    Each admin, consumer and producer is for one thread at a time and one process. After a fork make new ones. The
    system itself can be shared by threads and pickled, and holds nothing open. The directory is made by the first
    `create` or producer; reading never makes it.

    `compact_bytes` and `segment_bytes` say when the journal is rewritten and when a new segment file is begun;
    `new_writer` names producers, and must never return the same name twice for one directory.

    >>> from tempfile import mkdtemp
    >>> log = LogSystem(mkdtemp())
    >>> log.admin().create("clicks", partitions=2)
    >>> writing = log.producer().begin()
    >>> writing.append("clicks", 0, [(b"ada", b"/home", 1_700_000_000_000, ())])
    >>> writing.commit("visits", {"task-0": b"offset 1"})
    >>> log.admin().ends("clicks"), log.admin().checkpoints("visits")
    ([1, 0], {'task-0': b'offset 1'})
    >>> reading = log.consumer()
    >>> reading.assign({("clicks", 0): 0})
    >>> reading.poll()[0].records
    [(b'ada', b'/home', 1700000000000, ())]
    """

    def __init__(
        self,
        directory: str | Path,
        fsync: bool = True,
        *,
        compact_bytes: int = COMPACT_BYTES,
        segment_bytes: int = SEGMENT_BYTES,
        new_writer: Callable[[], str] = random_writer,
    ) -> None:
        self.directory = Path(directory)
        self.fsync = fsync
        self._compact_bytes = compact_bytes
        self._segment_bytes = segment_bytes
        self._new_writer = new_writer

    @property
    def url(self) -> str:
        """`log:` and the directory."""
        return f"log:{self.directory}"

    def admin(self) -> LogAdmin:
        """Creates streams, and returns their partition counts, offsets and checkpoints."""
        return LogAdmin(self.directory, fsync=self.fsync)

    def consumer(self, *, max_records: int = 10_000) -> LogConsumer:
        """`max_records` bounds a batch, in messages; a batch also ends early, after about 256 KB."""
        return LogConsumer(self.directory, max_records=max_records)

    def producer(self, name: str = "") -> LogProducer:
        """`name` is one that no other producer of this log ever had; by default it is a random one."""
        return LogProducer(
            self.directory,
            writer=name or self._new_writer(),
            fsync=self.fsync,
            compact_bytes=self._compact_bytes,
            segment_bytes=self._segment_bytes,
        )

    def claim(self, pipeline: str, container: str = "0") -> AbstractContextManager[None]:
        """Hold the right to run a container, by a lock on a file. Raises SystemProblem where another process has it."""
        return claim(self.directory, pipeline, container)
