"""What one run is told, and what it tells back. The standard library alone: peers run in environments of their own."""

import json
import os
import threading
import time
from dataclasses import asdict, dataclass
from typing import Self

VARIABLE = "BENCHMARK_JOB"
"""The environment variable that holds a job."""

FIRST, PROGRESS = "first", "progress"


@dataclass(frozen=True, slots=True)
class Job:
    """One run of one contender on one workload.

    `name` is that of no other run: consumer groups and pipelines are called by it. `inputs` are the topics that it
    reads, in the order of the workload. `folder` is for what it leaves behind, `notes` the file that it writes its
    notes to. `tasks` is how many tasks it processes at once. A run that is `endless` waits for more at the end of the
    input; others may end there, or wait until they are stopped.
    """

    workload: str
    name: str
    address: str
    inputs: tuple[str, ...]
    output: str
    folder: str
    notes: str
    tasks: int = 1
    endless: bool = False

    @classmethod
    def given(cls) -> Self:
        """The job of this process."""
        told = json.loads(os.environ[VARIABLE])
        return cls(inputs=tuple(told.pop("inputs")), **told)

    @property
    def input(self) -> str:
        """The topic that it reads, of a workload that has one."""
        (topic,) = self.inputs
        return topic

    def environment(self) -> dict[str, str]:
        """What a process has to find in its environment."""
        return {VARIABLE: json.dumps(asdict(self))}

    def note(self, what: str, number: float) -> None:
        """Write a note, whole: other processes may write to the same file."""
        with open(self.notes, "ab", buffering=0) as file:
            file.write(f"{what} {number}\n".encode())


class Seen:
    """Counts messages; notes when the first came, and once a second how many there were."""

    __slots__ = ("_job", "count")

    def __init__(self, job: Job) -> None:
        self._job = job
        self.count = 0

    def add(self, messages: int = 1) -> None:
        """So many more have come."""
        if not self.count and messages:
            self._job.note(FIRST, time.time())
            threading.Thread(target=self._tell, daemon=True).start()
        self.count += messages

    def _tell(self) -> None:
        while True:
            time.sleep(1)
            self._job.note(PROGRESS, self.count)


@dataclass(frozen=True, slots=True)
class Notes:
    """What a run has noted so far: when it saw its first message, and how many it has seen."""

    first: float | None
    progress: int

    @classmethod
    def of(cls, job: Job) -> Self:
        """Read the notes; of several processes the earliest first message counts."""
        try:
            with open(job.notes, encoding="utf-8") as file:
                lines = [line.split() for line in file]
        except FileNotFoundError:
            lines = []
        firsts = [float(number) for what, number in lines if what == FIRST]
        counts = [int(float(number)) for what, number in lines if what == PROGRESS]
        return cls(min(firsts, default=None), max(counts, default=0))
