"""Runs containers as child processes: starts them, reads their reports, restarts those that die, and stops them."""

import asyncio
import logging
import os
import signal
import sys
import threading
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
from ..process.machine import THIS_MACHINE, Machine
from ..process.resource_limits import remedy_for, require_descriptors_of_loop
from ..process.signals import ENDED, KILL_SECONDS, REPEATED_SECONDS
from ..report import OnProgress, Progress, Report, sums
from .child_process import ChildConfig, ChildReport
from .merged_reports import merged_progress, merged_report
from .restart_policy import RestartPolicy

RESTARTED = (SystemProblem.exit_code, NoProgressError.exit_code)
"""Exit codes after which a restart may help."""
# As often as containers report: in between the sum would be the same.
PROGRESS_SECONDS = 1.0
# What a pipe of Linux holds, so that one read empties it.
_READ_BYTES = 1 << 16
_LONGEST_LINE = 1 << 16
"""The most bytes of a line from a container's stderr; a longer one is printed in pieces."""
_POLL_SECONDS = 0.2
"""How soon the end of a container is noticed if its pipes stay open."""
_DRAIN_SECONDS = 2.0
"""How long to read the pipes of a dead container: children of its own may keep them open."""

Say = Callable[[str], None]


def supervise(
    pipeline: Pipeline, configs: Sequence[ChildConfig], *, most_restarts: int, progress: OnProgress | None, say: Say
) -> Report:
    """Run a container for each config until all have ended, or until SIGINT or SIGTERM. `say` gets the lines that they
    print on stderr.

    Raises `ContainerFailed` for the first one that a restart cannot help, once the others have stopped.
    """
    require_descriptors_of_loop()
    return asyncio.run(_Supervisor(pipeline, configs, most_restarts, progress, say).run())


class _Child:
    """One container: its process, and the reports that it has sent."""

    def __init__(self, config: ChildConfig, most_restarts: int) -> None:
        self.config = config
        self.name = f"container {config.container}"
        self.restarts = RestartPolicy(most_restarts)
        self.process: Process | None = None
        self.progress: Progress | None = None
        self.reports: list[Report] = []
        self.taken_over = False
        self.before = Progress(phase="", seconds=0.0, read=0, written=0)
        self.restarted = 0

    def title(self, pipeline: str) -> str:
        """The name of the process in lists of processes: the last word of its command line."""
        return f"{pipeline}: {self.name} of {self.config.containers}"

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.returncode is None

    def receive(self, line: ChildReport) -> None:
        self.taken_over |= line.taken_over
        self.progress = line.progress or self.progress
        if line.report is not None:
            self.reports.append(line.report)

    def count_death(self) -> None:
        """Add the counts of the process that died to those of earlier ones."""
        if self.progress is not None:
            self.before = self.total_progress()
        self.progress = None

    def total_progress(self) -> Progress:
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
        self,
        pipeline: Pipeline,
        configs: Sequence[ChildConfig],
        most_restarts: int,
        progress: OnProgress | None,
        say: Say,
        machine: Machine = THIS_MACHINE,
    ) -> None:
        self._pipeline = pipeline.name
        self._children = [_Child(config, most_restarts) for config in configs]
        self._keyless_warning = KeylessWarning(pipeline)
        self._progress = progress
        self._say = say
        self._clock = machine.clock
        self._started = machine.clock()
        self._stop = asyncio.Event()
        self._signals_received, self._last_signal_at = 0, float("-inf")
        self._failure: ContainerFailed | None = None
        self._warnings: dict[str, str] = {}

    async def run(self) -> Report:
        reporting = asyncio.create_task(self._report_progress())
        with self._signals():
            try:
                await asyncio.gather(*(self._run_with_restarts(child) for child in self._children))
            finally:
                reporting.cancel()
                await self._kill_all()
                self._warn_of_keyless()
        if self._failure is not None:
            raise self._failure
        reports = [report for child in self._children for report in child.reports]
        restarts = sum(child.restarted for child in self._children)
        merged = merged_report(self._pipeline, reports, self._clock() - self._started, restarts)
        return replace(merged, warnings={**self._warnings, **merged.warnings})

    async def _run_with_restarts(self, child: _Child) -> None:
        """Run a container, and restart it until it has done its part."""
        while not self._stop.is_set():
            began = self._clock()
            code = await self._attempt(child)
            if self._is_over(child, code):
                return
            now = self._clock()
            pause = child.restarts.pause(now - began, now)
            if pause is None:
                self._fail(child, code, "has died too often")
                return
            child.count_death()
            child.restarted += 1
            self._say(f"{child.name} {_ended(code)}; it is started again in {pause:.1f} s")
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), pause)

    def _receive(self, child: _Child, line: ChildReport) -> None:
        child.receive(line)
        report = line.progress or line.report
        for subject, text in report.warnings.items() if report is not None else ():
            if subject not in self._warnings:
                self._warnings[subject] = text
                logging.getLogger(STREAMS if subject.startswith(SUBJECTS) else TIMES).warning(text)

    def _is_over(self, child: _Child, code: int) -> bool:
        """Whether a container that has ended is not to be restarted."""
        if code == 0 and (child.config.until == "end" or self._stop.is_set()):
            return True
        if self._stop.is_set():
            # Codes of a container that had not begun, that ended itself, and that was killed, perhaps by its watchdog.
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
        """Run a container once. A process that cannot be started counts as a problem of the system."""
        try:
            return await self._once(child)
        except OSError as error:
            self._say(f"{child.name} cannot be started: {error}\n  to do: {remedy_for(error) or 'check the machine'}")
            return SystemProblem.exit_code

    async def _once(self, child: _Child) -> int:
        """Run a container once. Returns its exit code, negative for the signal that killed it."""
        process, reports = await self._spawn(child)
        listening, pipe = await self._listen(child, process, reports)
        if self._stop.is_set():  # a stop was requested while the process started
            process.terminate()
        code = await _exit_code(process)
        _, unfinished = await asyncio.wait(listening, timeout=_DRAIN_SECONDS)
        for task in unfinished:
            task.cancel()
        pipe.close()
        if process.stdin is not None:
            process.stdin.close()
        return code

    async def _spawn(self, child: _Child) -> tuple[Process, int]:
        """Start the process of a container, and write its config to it. Returns it with the pipe of its reports."""
        reading, writing = os.pipe()
        module, title = "fluvial.runtime.containers.child_process", child.title(self._pipeline)
        try:
            # In a session of its own: Ctrl-C in a terminal is for the supervisor, which passes it on once.
            child.process = process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", module, str(writing), title),
                stdin=PIPE,
                stderr=PIPE,
                pass_fds=(writing,),
                start_new_session=True,
            )
        except OSError:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        assert process.stdin is not None
        # Not as arguments or in the environment, which other users of the machine may read: a config may hold secrets.
        process.stdin.write(json.encode(child.config) + b"\n")  # it stays open as long as this process lives
        return process, reading

    async def _listen(
        self, child: _Child, process: Process, reports: int
    ) -> tuple[list[asyncio.Task[None]], asyncio.ReadTransport]:
        """Read the reports of a container, and its stderr. Returns the tasks that read, and the pipe of the reports."""
        assert process.stderr is not None
        lines = asyncio.StreamReader()
        pipe, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(lines), os.fdopen(reports, "rb")
        )

        def receive(line: bytes) -> None:
            self._receive(child, json.decode(line, type=ChildReport))

        def say(line: bytes) -> None:
            self._say(f"{child.name}: {visible(line.decode(errors='replace'))}")

        reading = (_each_line(lines, receive), _each_line(process.stderr, say, _LONGEST_LINE))
        return [asyncio.create_task(each) for each in reading], pipe

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
        """The first signal lets containers commit, the second stops them at once, the third kills them."""
        now = asyncio.get_running_loop().time()
        if now - self._last_signal_at < REPEATED_SECONDS:
            return
        self._signals_received, self._last_signal_at = self._signals_received + 1, now
        self._ask_to_stop(signal.SIGTERM if self._signals_received < 3 else signal.SIGKILL)

    def _ask_to_stop(self, number: signal.Signals) -> None:
        if not self._stop.is_set():
            asyncio.get_running_loop().call_later(KILL_SECONDS, self._kill_overdue)
        self._stop.set()
        for child in self._children:
            if child.alive and child.process is not None:
                child.process.send_signal(number)

    def _kill_overdue(self) -> None:
        """Kill the containers that did not stop in time: they are paused, or the machine is too busy."""
        for child in self._children:
            if child.alive and child.process is not None:
                self._say(f"{child.name} did not stop within {KILL_SECONDS:g} s, and is killed")
                child.process.kill()

    async def _kill_all(self) -> None:
        """Kill the containers that are alive, whatever has ended this process."""
        for child in self._children:
            if child.alive and child.process is not None:
                # Waited for, so that none still holds its place or its store when this process ends.
                child.process.kill()
                await _exit_code(child.process)

    async def _report_progress(self) -> None:
        while True:
            await asyncio.sleep(PROGRESS_SECONDS)
            self._warn_of_keyless()
            if self._progress is None:
                continue
            alive = sum(child.alive for child in self._children)
            phase = f"{alive} of {len(self._children)} containers"
            parts = [child.total_progress() for child in self._children]
            self._progress(merged_progress(parts, phase, self._clock() - self._started))

    def _warn_of_keyless(self) -> None:
        """Warn of rows without keys, from the counts of all containers together."""
        self._keyless_warning.check(child.total_progress().keyless for child in self._children)


async def _exit_code(process: Process) -> int:
    """Wait for the end of a process; returns its exit code. `Process.wait` alone would also wait for its pipes, which
    children of the process may keep open."""
    while process.returncode is None:
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), _POLL_SECONDS)
    return process.returncode


async def _each_line(
    stream: asyncio.StreamReader, receive: Callable[[bytes], None], longest: int | None = None
) -> None:
    """Call `receive` with each line of a stream. With `longest` a longer line comes in pieces, and the last line may
    lack its newline."""
    begun = bytearray()
    while data := await stream.read(_READ_BYTES):
        *lines, rest = data.split(b"\n")
        for line in lines:
            receive(bytes(begun + line))
            begun.clear()
        begun += rest
        if longest is not None and len(begun) > longest:
            receive(bytes(begun))
            begun.clear()
    if longest is not None and begun:
        receive(bytes(begun))


def _ended(code: int) -> str:
    return f"ended with exit code {code}" if code >= 0 else f"was killed by {signal.Signals(-code).name}"
