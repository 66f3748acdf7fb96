"""Containers as child processes: started, listened to, started again when they die, stopped together."""

import asyncio
import logging
import os
import signal
import sys
import threading
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from msgspec import json
from msgspec.structs import replace

from ...dsl.errors import ContainerFailed, NoProgressError, SystemProblem
from ...dsl.pipeline import Pipeline
from ...dsl.text import visible
from ..data_warnings.keyless import KeylessWarning
from ..data_warnings.suspicious_times import LOGGER as TIMES
from ..preflight.input_streams import LOGGER as STREAMS
from ..preflight.input_streams import SUBJECTS
from ..process.forks import STOPPING, apart_from_children
from ..process.resource_limits import remedy_for
from ..process.signals import ENDED, KILL_SECONDS, REPEATED_SECONDS
from ..report import OnProgress, Progress, Report, sums
from .child_process import Line, Order
from .merged_reports import merged_progress, merged_report
from .restart_policy import Restarts

RESTARTED = (SystemProblem.exit_code, NoProgressError.exit_code)
"""Exit codes after which a restart may help."""
PROGRESS_SECONDS = 1.0
_READ_BYTES = 1 << 16
_LONGEST_SAID = 1 << 16
"""Bytes of a line that a container says; a longer one is shown in pieces."""
_LOOK_SECONDS = 0.2
"""How soon the end of a container is noticed whose pipes stay open."""
_LAST_WORDS_SECONDS = 2.0
"""How long to wait for the end of what a dead container has written: it may have left children of its own."""

Say = Callable[[str], None]


def supervise(
    pipeline: Pipeline, orders: Sequence[Order], *, most_restarts: int, progress: OnProgress | None, say: Say
) -> Report:
    """Run a container for each order until all have ended, or SIGINT or SIGTERM says so; `say` is given what they say.

    Raises `ContainerFailed` for the first one that cannot be helped by a restart, once the others have stopped.
    """
    return asyncio.run(_Supervisor(pipeline, orders, most_restarts, progress, say).run())


class _Child:
    """One container: its process, and what it has told."""

    def __init__(self, order: Order, most_restarts: int) -> None:
        self.order = order
        self.name = f"container {order.container}"
        self.restarts = Restarts(most_restarts)
        self.process: Process | None = None
        self.progress: Progress | None = None
        self.reports: list[Report] = []
        self.taken_over = False
        self.before = Progress(phase="", seconds=0.0, read=0, written=0)
        self.restarted = 0

    def title(self, pipeline: str) -> str:
        """What the process is called where processes are listed: the last word of its command line."""
        return f"{pipeline}: {self.name} of {self.order.containers}"

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.returncode is None

    def hear(self, line: Line) -> None:
        self.taken_over |= line.taken_over
        self.progress = line.progress or self.progress
        if line.report is not None:
            self.reports.append(line.report)

    def bury(self) -> None:
        """What the dead process had told by itself stays counted."""
        if self.progress is not None:
            self.before = self.so_far()
        self.progress = None

    def so_far(self) -> Progress:
        before, now = self.before, self.progress
        if now is None:
            return Progress(phase="", seconds=0.0, read=before.read, written=before.written, keyless=before.keyless)
        return replace(
            now,
            read=before.read + now.read,
            written=before.written + now.written,
            keyless=sums([before.keyless, now.keyless]),
        )


class _Supervisor:
    def __init__(
        self, pipeline: Pipeline, orders: Sequence[Order], most_restarts: int, progress: OnProgress | None, say: Say
    ) -> None:
        self._pipeline = pipeline.name
        self._children = [_Child(order, most_restarts) for order in orders]
        self._keyless = KeylessWarning(pipeline)
        self._progress = progress
        self._say = say
        self._started = time.monotonic()
        self._stop = asyncio.Event()
        self._asked, self._asked_at = 0, float("-inf")
        self._failure: ContainerFailed | None = None
        self._warnings: dict[str, str] = {}

    async def run(self) -> Report:
        telling = asyncio.create_task(self._tell_progress())
        with self._signals():
            try:
                await asyncio.gather(*(self._keep(child) for child in self._children))
            finally:
                telling.cancel()
                await self._bring_down()
                self._warn_of_keyless()
        if self._failure is not None:
            raise self._failure
        reports = [report for child in self._children for report in child.reports]
        restarts = sum(child.restarted for child in self._children)
        merged = merged_report(self._pipeline, reports, time.monotonic() - self._started, restarts)
        return replace(merged, warnings={**self._warnings, **merged.warnings})

    async def _keep(self, child: _Child) -> None:
        """Run a container, again and again until it has done its part."""
        while not self._stop.is_set():
            began = time.monotonic()
            code = await self._attempt(child)
            if self._is_over(child, code):
                return
            now = time.monotonic()
            pause = child.restarts.pause(now - began, now)
            if pause is None:
                self._fail(child, code, "has died too often")
                return
            child.bury()
            child.restarted += 1
            self._say(f"{child.name} {_ended(code)}; it is started again in {pause:.1f} s")
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), pause)

    def _hear(self, child: _Child, line: Line) -> None:
        child.hear(line)
        report = line.progress or line.report
        for subject, text in report.warnings.items() if report is not None else ():
            if subject not in self._warnings:
                self._warnings[subject] = text
                logging.getLogger(STREAMS if subject.startswith(SUBJECTS) else TIMES).warning(text)

    def _is_over(self, child: _Child, code: int) -> bool:
        """Whether a container that has ended is not to be started again."""
        if code == 0 and (child.order.until == "end" or self._stop.is_set()):
            return True
        if self._stop.is_set():
            # One that had not begun, one that ended itself, and one that had to be killed, perhaps by its watchdog.
            if self._failure is None and code not in (-signal.SIGTERM, ENDED, -signal.SIGKILL):
                self._fail(child, code, _ended(code) + " as it was stopped")
            return True
        if child.taken_over or not (code <= 0 or code in RESTARTED):
            self._fail(child, code, _ended(code))
            return True
        return False

    def _fail(self, child: _Child, code: int, how: str) -> None:
        """End the run because of a container."""
        shown = 128 - code if code < 0 else code or SystemProblem.exit_code
        others = " The others are stopped." if len(self._children) > 1 else ""
        self._failure = ContainerFailed(f"{child.name} {how}, which ends the run.{others}", shown)
        self._ask_to_stop(signal.SIGTERM)

    async def _attempt(self, child: _Child) -> int:
        """Run a container once; a process that cannot be made counts as one that met a problem of the system."""
        try:
            return await self._once(child)
        except OSError as error:
            self._say(f"{child.name} cannot be started: {error}\n  to do: {remedy_for(error) or 'look at the machine'}")
            return SystemProblem.exit_code

    async def _once(self, child: _Child) -> int:
        """Run a container once; gives its exit code, negative for the signal that killed it."""
        process, reading = await _started(child.title(self._pipeline))
        child.process = process
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(json.encode(child.order) + b"\n")  # and stays open as long as this process lives
        lines = asyncio.StreamReader()
        pipe, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(lines), os.fdopen(reading, "rb")
        )
        listening = [
            asyncio.create_task(_each_line(lines, lambda line: self._hear(child, json.decode(line, type=Line)))),
            asyncio.create_task(
                _each_line(
                    process.stderr,
                    lambda line: self._say(f"{child.name}: {visible(line.decode(errors='replace'))}"),
                    _LONGEST_SAID,
                )
            ),
        ]
        if self._stop.is_set():  # it was asked for while the process began
            process.terminate()
        code = await _exit_code(process)
        _, silent = await asyncio.wait(listening, timeout=_LAST_WORDS_SECONDS)
        for task in silent:
            task.cancel()
        pipe.close()
        process.stdin.close()
        return code

    # Stopping.

    @contextmanager
    def _signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        loop = asyncio.get_running_loop()
        with apart_from_children():
            for number in STOPPING:
                loop.add_signal_handler(number, self._on_signal)
            try:
                yield
            finally:
                for number in STOPPING:
                    loop.remove_signal_handler(number)

    def _on_signal(self) -> None:
        """The first wish to stop lets containers commit, the second stops them at once, the third kills them."""
        now = asyncio.get_running_loop().time()
        if now - self._asked_at < REPEATED_SECONDS:
            return
        self._asked, self._asked_at = self._asked + 1, now
        self._ask_to_stop(signal.SIGTERM if self._asked < 3 else signal.SIGKILL)

    def _ask_to_stop(self, number: signal.Signals) -> None:
        if not self._stop.is_set():
            asyncio.get_running_loop().call_later(KILL_SECONDS, self._kill_overdue)
        self._stop.set()
        for child in self._children:
            if child.alive and child.process is not None:
                child.process.send_signal(number)

    def _kill_overdue(self) -> None:
        """Kill the containers that did not stop in time: they stand still, or the machine is too busy."""
        for child in self._children:
            if child.alive and child.process is not None:
                self._say(f"{child.name} did not stop within {KILL_SECONDS:g} s, and is killed")
                child.process.kill()

    async def _bring_down(self) -> None:
        """Leave no container behind, whatever happened to this process."""
        for child in self._children:
            if child.alive and child.process is not None:
                child.process.kill()
                await _exit_code(child.process)

    # Telling.

    async def _tell_progress(self) -> None:
        while True:
            await asyncio.sleep(PROGRESS_SECONDS)
            self._warn_of_keyless()
            if self._progress is None:
                continue
            alive = sum(child.alive for child in self._children)
            phase = f"{alive} of {len(self._children)} containers"
            parts = [child.so_far() for child in self._children]
            self._progress(merged_progress(parts, phase, time.monotonic() - self._started))

    def _warn_of_keyless(self) -> None:
        """Warn of rows without keys by the counts of all containers, so many as there are by now."""
        self._keyless.look(child.so_far().keyless for child in self._children)


async def _started(title: str) -> tuple[Process, int]:
    """The process of a container, and the end of a pipe from which its lines are read."""
    reading, writing = os.pipe()
    command = (sys.executable, "-P", "-m", "fluvial.runtime.containers.child_process", str(writing), title)
    try:
        # In a session of its own, for a Ctrl-C is for the parent alone: it hands it on once.
        process = await asyncio.create_subprocess_exec(
            *command, stdin=PIPE, stderr=PIPE, pass_fds=(writing,), start_new_session=True
        )
    except OSError:
        os.close(reading)
        raise
    finally:
        os.close(writing)
    return process, reading


async def _exit_code(process: Process) -> int:
    """The exit code of a process, once it has ended. `Process.wait` waits for its pipes too, and what the process has
    started may keep them open."""
    while process.returncode is None:
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), _LOOK_SECONDS)
    return process.returncode


async def _each_line(stream: asyncio.StreamReader, hear: Callable[[bytes], None], longest: int | None = None) -> None:
    """Read a stream to its end. With a `longest`, a line of more bytes comes in pieces, and a last one need not end."""
    begun = bytearray()
    while data := await stream.read(_READ_BYTES):
        *lines, rest = data.split(b"\n")
        for line in lines:
            hear(bytes(begun + line))
            begun.clear()
        begun += rest
        if longest is not None and len(begun) > longest:
            hear(bytes(begun))
            begun.clear()
    if longest is not None and begun:
        hear(bytes(begun))


def _ended(code: int) -> str:
    return f"ended with exit code {code}" if code >= 0 else f"was killed by {signal.Signals(-code).name}"
