"""Where the main thread spends its time: processor time of the parts of a run, in nanoseconds a message.

Parts are timed by the clock of the thread, once a call for hundreds of messages: a profiler that looks at each function
makes the small ones dear. `python -m benchmarks.parts FILE [local|raw]` runs the job around it and writes them to FILE.
"""

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec

from benchmarks.cell import measure
from benchmarks.contenders import CONTENDERS
from benchmarks.job import Job
from benchmarks.pipelines import PIPELINES
from benchmarks.references import raw
from benchmarks.references.client import Client
from benchmarks.results import Share
from benchmarks.rounds import Size, prepared
from benchmarks.topics import Tell, Topics
from benchmarks.workloads import Workload
from fluvial.runtime import KafkaSystem, run
from fluvial.runtime.kernel.stage import StageTask
from fluvial.runtime.local.background_work import Steps
from fluvial.runtime.local.commit.changelog_commit import ChangelogCommit
from fluvial.runtime.local.container import Container
from fluvial.runtime.local.output_router import Router
from fluvial.runtime.systems.kafka import KafkaConsumer, KafkaRecordProducer

WHOLE = "all together"
REST = "event loop, calls"
"""What is in no part: of the local engine the asynchronous calls, and what Python's event loop does for them."""


def shares(workload: Workload, size: Size, topics: Topics, tell: Tell) -> Iterator[Share]:
    """Run the local engine and the loop by hand once more, with clocks."""
    cell_of, count = prepared(workload, size, topics, tell), workload.size(size.messages)
    for name in ("local", "raw"):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "parts.json"
            timed = replace(CONTENDERS[name], command=_timed(name, file))
            measure(cell_of(timed), topics)
            found = msgspec.json.decode(file.read_bytes(), type=dict[str, int]) if file.exists() else {}
        for part, nanoseconds in found.items():
            yield Share(engine=name, workload=workload.name, part=part, nanoseconds=round(nanoseconds / count))


def _timed(name: str, file: Path) -> Callable[[Job], Sequence[str]]:
    return lambda _: (sys.executable, "-m", "benchmarks.parts", str(file), name)


class Clocks:
    """Thread time by part; that of a part within another counts for the inner one alone."""

    def __init__(self) -> None:
        self.spent: Counter[str] = Counter()
        self._inner: list[int] = []

    def timed(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, with its time noted."""
        now, spent, inner = time.thread_time_ns, self.spent, self._inner

        def call(*arguments: Any, **options: Any) -> Any:
            began = now()
            inner.append(0)
            try:
                return function(*arguments, **options)
            finally:
                took = now() - began
                spent[part] += took - inner.pop()
                if inner:
                    inner[-1] += took

        return call

    def timed_steps(self, part: str, function: Callable[..., Steps[Any]]) -> Callable[..., Steps[Any]]:
        """A function that returns a generator of steps, with the time of the generator noted, and not of the steps."""

        def call(*arguments: Any, **options: Any) -> Steps[Any]:
            send, result = self.timed(part, function(*arguments, **options).send), None
            while True:
                try:
                    step = send(result)
                except StopIteration as done:
                    return done.value
                result = yield step

        return call


def local(job: Job) -> dict[str, int]:
    """The job on the local engine."""
    parts: Mapping[str, tuple[Any, str]] = {
        "take messages from the client": (KafkaConsumer, "poll"),
        "make records of them": (KafkaConsumer, "_put"),
        "decode, operators, encode": (StageTask, "feed"),
        "find partitions": (Router, "route"),
        "hand records to the client": (KafkaRecordProducer, "send"),
    }
    steps: Mapping[str, tuple[Any, str]] = {
        "commit": (ChangelogCommit, "commit"),
        "the turns around": (Container, "_turn"),
    }
    clocks, whole = Clocks(), 0
    inner = Container.run

    async def timed_run(container: Container) -> Any:
        nonlocal whole
        began = time.thread_time_ns()
        try:
            return await inner(container)
        finally:
            whole = time.thread_time_ns() - began

    with ExitStack() as stack:
        for part, (owner, name) in parts.items():
            stack.enter_context(patch.object(owner, name, clocks.timed(part, getattr(owner, name))))
        for part, (owner, name) in steps.items():
            stack.enter_context(patch.object(owner, name, clocks.timed_steps(part, getattr(owner, name))))
        stack.enter_context(patch.object(Container, "run", timed_run))
        run(PIPELINES[job.workload](job), system=KafkaSystem.named(f"kafka://{job.address}"), until="end")
    found = {part: clocks.spent[part] for part in (*parts, *steps)}
    return {**found, REST: whole - sum(found.values()), WHOLE: whole}


def by_hand(job: Job) -> dict[str, int]:
    """The job as the loop by hand does it, from its first message on."""
    client, began = Client(job), 0
    take = client.take

    def timed_take() -> list[Any]:
        nonlocal began
        batch = take()
        if batch and not began:
            began = time.thread_time_ns()
        return batch

    client.take = timed_take  # type: ignore[method-assign]
    raw.LOOPS[job.workload](job, client)
    client.close()
    return {WHOLE: time.thread_time_ns() - began}


_RUNS: Mapping[str, Callable[[Job], dict[str, int]]] = {"local": local, "raw": by_hand}


def main() -> None:
    """Run the job of this process."""
    file, name = sys.argv[1:]
    Path(file).write_bytes(msgspec.json.encode(_RUNS[name](Job.given())))


if __name__ == "__main__":
    main()
