"""Feeds a stage inside a Spark task: directly, or in the event loop of the process if it makes asynchronous calls."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from types import TracebackType
from typing import Self

from ....dsl.message import Record
from ...kernel.stage import StageTask
from .worker_process import this_process

POLL_SECONDS = 0.001
"""Time between two looks at asynchronous calls in flight."""


class StageFeeder:
    """Feeds the stage tasks of one Spark task. At its end their calls are cancelled; the event loop stays."""

    def __init__(self) -> None:
        self._tasks: set[StageTask] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, type_: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.calls.cancel()
            # The loop stays: a batch that is sent later would write rows that are out of date by then.
            task.program.cancel_batches()
        if self._tasks:
            this_process().end_calls()

    def feed(
        self, task: StageTask, stream: str, partition: int, offsets: Sequence[int], records: Sequence[Record]
    ) -> None:
        """Feed records, and wait for the asynchronous calls that they started."""
        if not task.program.asynchronous:
            task.feed(stream, partition, offsets, records)
            return
        self._run(task, self._feed(task, stream, partition, offsets, records))

    def run(self, task: StageTask, step: Callable[[], None]) -> None:
        """Run a step that may fire windows or timers, and wait for the asynchronous calls that the firings started."""
        if not task.program.asynchronous:
            step()
            return
        self._run(task, self._step(task, step))

    async def _step(self, task: StageTask, step: Callable[[], None]) -> None:
        step()
        await self._drain(task)

    def _run(self, task: StageTask, work: Coroutine[None, None, None]) -> None:
        self._tasks.add(task)
        this_process().run(work)

    async def _feed(
        self, task: StageTask, stream: str, partition: int, offsets: Sequence[int], records: Sequence[Record]
    ) -> None:
        start = 0
        while start < len(records):
            stop = min(start + task.calls.room(stream), len(records))
            if task.paused:
                task.go_on()
            elif task.excludes:
                task.calls.flush()
            elif stop > start:
                start = task.feed(stream, partition, offsets, records, start, stop)
            await asyncio.sleep(0 if task.calls.room(stream) and not task.excludes else POLL_SECONDS)
        await self._drain(task)

    async def _drain(self, task: StageTask) -> None:
        while task.progress.busy or task.paused:
            task.calls.flush()
            moved = task.paused and task.go_on()
            await asyncio.sleep(0 if moved else POLL_SECONDS)
        task.check()
