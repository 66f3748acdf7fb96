"""The right to run a container of a pipeline on a log: held by one process at a time, and gone with it."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socket import gethostname

from ...process.data_files import make_folder
from ..errors import already_claimed
from .disk import Descriptor, explained, read_all, write_all

# More than `process NUMBER on HOST` ever takes: a host's name has at most 255 bytes.
_HOLDER_BYTES = 400


@contextmanager
def claim(directory: Path, pipeline: str, container: str, where: str = "") -> Iterator[None]:
    """Hold the claim; raises SystemProblem at once where another run has it; `where` names what is claimed.

    The operating system releases the claim when the process ends, however it ends. The file stays, without a meaning.
    """
    path = directory / "claims" / f"{pipeline}.{container}"
    with explained("make", path.parent):
        make_folder(path.parent)
    file = Descriptor(path, os.O_RDWR | os.O_CREAT)
    try:
        with explained("lock", path):
            try:
                fcntl.flock(file.number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = read_all(file.number, _HOLDER_BYTES, 0).decode(errors="replace")
                raise already_claimed(pipeline, container, where or f"log:{directory}", holder) from None
            # The name of the last holder may be longer than this one.
            os.ftruncate(file.number, 0)
            write_all(file.number, f"process {os.getpid()} on {gethostname()}".encode(), 0)
        try:
            yield
        finally:
            # Closing alone would leave it to the children that were forked meanwhile.
            fcntl.flock(file.number, fcntl.LOCK_UN)
    finally:
        file.close()
