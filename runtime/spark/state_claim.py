"""The right to run a pipeline on Spark with the state in a folder: held by one run at a time."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

from ..systems.errors import already_claimed
from ..systems.log.claim import claim

_lock = Lock()
_claimed: set[tuple[str, str]] = set()
"""The URLs that runs of this process have, each with a pipeline."""


@contextmanager
def claim_state(folder: Path | str, pipeline: str, where: str) -> Iterator[None]:
    """Hold the right. `where` names what is claimed.

    On another file system, at a URL, Spark's log of batches lets one of two runs go on. But within a process Spark
    would stop the query of the first run without a word, so a second one is refused. Raises SystemProblem at once where
    another run has the right.
    """
    if isinstance(folder, Path):
        with claim(folder, pipeline, "0", where):
            yield
        return
    # The same folder with and without the last slash is one to Spark.
    claimed = folder.rstrip("/"), pipeline
    with _lock:
        if claimed in _claimed:
            raise already_claimed(pipeline, "0", where, f"process {os.getpid()}, which is this one")
        _claimed.add(claimed)
    try:
        yield
    finally:
        with _lock:
            _claimed.discard(claimed)
