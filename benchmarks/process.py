"""A contender's process: started in a folder and a session of its own, watched, and ended with all it has started."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from benchmarks.contenders import Contender, environment
from benchmarks.job import Job, Notes
from benchmarks.sampling import Sampler
from benchmarks.topics import Topics

_SECONDS_TO_STOP = 15.0
_LINES = 30


class Running:
    """A contender at work."""

    def __init__(self, contender: Contender, job: Job) -> None:
        self.job = job
        self._output = Path(job.folder, "output.txt")
        with self._output.open("wb") as output:
            self.spawned = time.time()
            self._process = subprocess.Popen(
                contender.command(job),
                cwd=job.folder,
                env=environment(job),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self.sampler = Sampler(self._process.pid)
        self.sampler.start()
        self.first: float | None = None

    @property
    def pid(self) -> int:
        """Of the process that was started; others are below it."""
        return self._process.pid

    def look(self) -> int | None:
        """See what it has noted; its exit code, if it has ended."""
        if self.first is None:
            self.first = self.notes().first
            if self.first is not None:
                self.sampler.begin()
        return self._process.poll()

    def notes(self) -> Notes:
        """What it has noted so far."""
        return Notes.of(self.job)

    def said(self) -> list[str]:
        """The lines that it has said so far."""
        return self._output.read_text(errors="replace").splitlines()

    def tail(self) -> str:
        """The end of what it has said."""
        return "\n".join(self.said()[-_LINES:])

    def end(self) -> None:
        """Let it end well, as hard as needed where it does not; whatever it has started ends with it."""
        self.sampler.stop()
        self._signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_SECONDS_TO_STOP)
        self._signal(signal.SIGKILL)
        self._process.wait()

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):  # all of them have ended
            os.killpg(self._process.pid, number)


@contextmanager
def running(
    contender: Contender, workload: str, topics: Topics, sources: tuple[str, ...], *, endless: bool = False
) -> Iterator[Running]:
    """A contender on a new output; in the end its process, folder and topics are removed."""
    name = f"{contender.name}-{workload}-{uuid4().hex[:8]}".lower()
    folder = tempfile.mkdtemp(prefix="fluvial-bench-")
    before = topics.names()
    notes = str(Path(folder, "notes"))
    job = Job(workload, name, topics.address, sources, f"{name}-out", folder, notes, contender.tasks, endless)
    topics.create(job.output, message_timestamp_type="LogAppendTime")
    try:
        process = Running(contender, job)
        try:
            yield process
        finally:
            process.end()
    finally:
        topics.remove(topics.names() - before)
        shutil.rmtree(folder, ignore_errors=True)
