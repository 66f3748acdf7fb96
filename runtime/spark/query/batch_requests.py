"""How the driver asks a source for a batch without messages: by a file of this machine.

Spark plans a batch when a source has a new offset, and asks sources in a process of their own beside the driver. The
file is written anew after each batch. It says whether buckets are due now, and from which processing time on, and how
much of the input is left in a run with an end.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path

import msgspec

from ...process.clock import wall_clock
from ...process.data_files import write_file

# Later than any clock, in ms, and still a whole number of 64 bits.
NEVER = 1 << 62


class BatchRequest(msgspec.Struct, frozen=True):
    """A request: its number in this run, and the processing time from which on it asks for a batch. `left` is the
    number of offsets that Spark has still to plan up to the end of the input, None where there is no such end."""

    number: int = 0
    since: int = NEVER
    left: int | None = None


class BatchRequests:
    """The requests of one query, in one run; the driver writes them. `left` returns what each of them says of it."""

    def __init__(self, left: Callable[[], int | None]) -> None:
        self._left = left
        self._folder = tempfile.TemporaryDirectory(prefix="fluvial-requests-")
        self.file = str(Path(self._folder.name, "request"))
        self._number = 0

    def request(self, since: int) -> None:
        """Ask for a batch from a processing time on, in place of what was asked for before."""
        self._number += 1
        new = Path(f"{self.file}.new")
        write_file(new, msgspec.json.encode(BatchRequest(self._number, since, self._left())))
        # At one stroke: the source reads it at any time, from another process.
        new.replace(self.file)

    def close(self) -> None:
        """Remove the file."""
        self._folder.cleanup()


class RequestReader:
    """The requests as a source reads them. `at_once` says that it serves those alone that ask for a batch now: in a run
    with an end the passing of time makes no batch, or it would never end. `wall` returns the time now, in ms since
    epoch."""

    def __init__(self, file: str, *, at_once: bool, wall: Callable[[], int] = wall_clock) -> None:
        self._file, self._at_once, self._wall = Path(file), at_once, wall
        self._served = 0

    def is_new(self) -> bool:
        """Whether there is a request that is due, and was not served. Then it is served now."""
        request = self._request()
        due = request.since <= (0 if self._at_once else self._wall())
        if request.number == self._served or not due:
            return False
        # By its number, not by its time: two requests may be for one millisecond, and each is to make a batch.
        self._served = request.number
        return True

    def left(self) -> int | None:
        """The number of offsets that are left to plan; None if the input does not end."""
        return self._request().left

    def _request(self) -> BatchRequest:
        if not self._file.name:
            return BatchRequest()  # a query without state, which asks for nothing
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=BatchRequest)
        except FileNotFoundError:
            return BatchRequest()  # the run is over
