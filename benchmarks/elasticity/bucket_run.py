"""One container of W1 with one bucket of a partition: `python -m benchmarks.elasticity.bucket_run BUCKETS MESSAGES`.

Once it has passed so many messages it prints what that took, as JSON. The containers of the other buckets have to run
before it begins; then they stand still, so that they take nothing from it. With 0 buckets messages are read, and no
more: that is what a container does before it knows of which bucket they are.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

import msgspec
from msgspec import Struct

from benchmarks.job import Job
from benchmarks.pipelines import w1
from fluvial.planner import Settings
from fluvial.planner.task_assignment import TaskId
from fluvial.runtime import Progress, run
from fluvial.runtime.report import OnProgress
from fluvial.runtime.systems import open_system

READ_ALONE = 0
"""In place of a number of buckets: no container runs."""
_MOST_SECONDS, _WAIT = 1.0, 0.1
"""How long messages are read before those that count, as a container works before it tells how far it is."""


class Passed(Struct, frozen=True, kw_only=True):
    """What a container has done by a moment: messages that it has kept, and passed over; the seconds of processor time
    of its process; and its tasks, as numbers with their key buckets."""

    kept: int = 0
    discarded: int = 0
    written: int = 0
    processor_seconds: float = 0.0
    tasks: list[tuple[int, int]] = []

    @property
    def messages(self) -> int:
        """All of them."""
        return self.kept + self.discarded


class Course(Struct, frozen=True, kw_only=True):
    """A container at work: once it had begun, and once it had passed all messages."""

    first: Passed
    last: Passed

    @property
    def nanoseconds(self) -> float:
        """Processor time for each message that came in between."""
        seconds = self.last.processor_seconds - self.first.processor_seconds
        return seconds / (self.last.messages - self.first.messages) * 1e9


def passed(progress: Progress) -> Passed:
    """What a container tells of itself."""
    of = {"messages_processed": 0.0, "messages_discarded": 0.0, "processor_seconds": 0.0}
    tasks: set[tuple[int, int]] = set()
    for sample in progress.facts:
        if sample.metric in of and isinstance(sample.value, int | float):
            of[sample.metric] += sample.value
        if sample.metric == "messages_processed":
            id = TaskId.parse(f"{sample.labels[0]}/{sample.labels[1].rpartition('/')[2]}")
            tasks.add((id.number, id.bucket))
    return Passed(
        kept=int(of["messages_processed"]),
        discarded=int(of["messages_discarded"]),
        written=progress.written,
        processor_seconds=of["processor_seconds"],
        tasks=sorted(tasks),
    )


def container(buckets: int, number: int, progress: OnProgress | None = None) -> None:
    """Run a container until it is stopped."""
    job = Job.given()
    run(
        w1(job),
        system=f"kafka://{job.address}",
        settings=Settings(elasticity=buckets),
        containers=buckets,
        container_id=number,
        progress=progress,
    )


def reading(messages: int) -> Course:
    """Read the messages as a container does, and do nothing with them."""
    job, read, first = Job.given(), 0, Passed()
    partition, began = (job.input, 0), time.monotonic()
    with closing(open_system(f"kafka://{job.address}").consumer()) as consumer:
        consumer.assign({partition: 0})
        while read < messages:
            read += sum(len(batch.records) for batch in consumer.poll(_WAIT))
            if not first.messages and time.monotonic() - began > _MOST_SECONDS:
                first = Passed(discarded=read, processor_seconds=time.process_time())
    return Course(first=first, last=Passed(discarded=read, processor_seconds=time.process_time()))


@contextmanager
def other(buckets: int, number: int) -> "Iterator[subprocess.Popen[bytes]]":
    """The process of another container, which is killed at the end of the context."""
    words = (sys.executable, "-m", "benchmarks.elasticity.bucket_run", str(buckets), "0", str(number))
    with subprocess.Popen(words) as process:
        try:
            yield process
        finally:
            process.kill()


def container_course(buckets: int, messages: int) -> Course:
    """Run a container, and the others."""
    seen: list[Passed] = []
    with ExitStack() as stack:
        others = [stack.enter_context(other(buckets, number)) for number in range(1, buckets)]

        def on_progress(progress: Progress) -> None:
            now = passed(progress)
            if not now.messages:
                return
            if not seen:
                for process in others:
                    process.send_signal(signal.SIGSTOP)
            seen.append(now)
            if now.messages >= messages:
                os.kill(os.getpid(), signal.SIGTERM)

        container(buckets, 0, on_progress)
    last = next(now for now in seen if now.messages >= messages)
    first = seen[0] if seen[0] is not last else Passed()
    return Course(first=first, last=last)


if __name__ == "__main__":
    buckets, messages, *number = map(int, sys.argv[1:])
    if number:
        container(buckets, number[0])
    else:
        course = reading(messages) if buckets == READ_ALONE else container_course(buckets, messages)
        print(msgspec.json.encode(course).decode())
