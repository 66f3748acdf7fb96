"""Runs containers as child processes: starts them, restarts those that die, stops them, and adds up their reports."""

import asyncio
import logging
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress

from msgspec.structs import replace

from ...dsl.errors import ContainerFailed, FluvialError, NoProgressError, SystemProblem
from ...dsl.pipeline import Pipeline
from ...dsl.text import plural
from ..data_warnings.keyless import KeylessWarning
from ..data_warnings.suspicious_times import LOGGER as TIMES
from ..data_warnings.warnings_by_subject import warn_once
from ..preflight.input_streams import LOGGER as STREAMS
from ..preflight.input_streams import SUBJECTS
from ..process.forks import STOPPING, apart_from_children
from ..process.machine import THIS_MACHINE, Machine
from ..process.resource_limits import remedy_for, require_descriptors_of_loop
from ..process.run_control import RUN_CONTROL, RunControl
from ..process.signals import ENDED, KILL_SECONDS, later_by
from ..process.stop_request import REPEATED_SECONDS
from ..report import OnProgress, Progress, Report, sums
from .autosizing import Autosizing
from .child_process import ChildConfig, ChildReport
from .merged_reports import merged_progress, merged_report
from .restart_policy import RestartPolicy
from .running_child import RunningChild, Say, Start, Starting, start_child

RESTARTED = (SystemProblem.exit_code, NoProgressError.exit_code)
"""Exit codes after which a restart may help."""
# As often as containers report: in between the sum would be the same.
PROGRESS_SECONDS = 1.0
LAST_LINES = 12
"""How many of the last lines that a container has printed are a note of the error with which it ends the run."""
REQUEST_SECONDS = 0.1
"""The time between two looks at whether another thread has asked the run to stop."""


ConfigOf = Callable[[int], ChildConfig]
"""What the container of a number is to run."""


def supervise(
    pipeline: Pipeline,
    containers: int,
    config_of: ConfigOf,
    *,
    most_restarts: int,
    progress: OnProgress | None,
    say: Say,
    starting: Starting | None = None,
    autosizing: Autosizing | None = None,
) -> Report:
    """Run so many containers until all have ended, or until SIGINT or SIGTERM. A run that is scaled gets more of them,
    or fewer. `say` gets the lines that they print on stderr. `starting` gives what starts them while it is open; by
    default they are children of this process. `autosizing` changes the size of the run.

    Raises `ContainerFailed` for the first one that a restart cannot help, once the others have stopped; or the error
    with which what starts them gives up.
    """

    async def run() -> Report:
        async with starting or nullcontext(start_child) as start:
            supervisor = Supervisor(
                pipeline, containers, config_of, most_restarts, progress, say, start=start, autosizing=autosizing
            )
            return await supervisor.run()

    require_descriptors_of_loop()
    return asyncio.run(run())


class _Child:
    """One container: its process, and the reports that it has sent."""

    def __init__(self, config: ChildConfig, most_restarts: int) -> None:
        self.config = config
        self.name = f"container {config.container}"
        self.restarts = RestartPolicy(most_restarts)
        self.process: RunningChild | None = None
        self.progress: Progress | None = None
        self.reports: list[Report] = []
        self.said: deque[str] = deque(maxlen=LAST_LINES)
        self.taken_over = False
        self.works_since = float("inf")
        self.before = Progress(phase="", seconds=0.0, read=0, written=0)
        self.restarted = 0
        self.left = False

    def title(self, pipeline: str) -> str:
        """The name of the process in lists of processes: the last word of its command line."""
        return f"{pipeline}: {self.name} of {self.config.containers}"

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.alive

    @property
    def waits(self) -> bool:
        return self.process is not None and self.process.waits

    def receive(self, line: ChildReport, now: float) -> None:
        self.taken_over |= line.taken_over
        if line.progress is not None and line.progress.phase == "running":
            self.works_since = min(now, self.works_since)
        self.progress = line.progress or self.progress
        if line.report is not None:
            self.reports.append(line.report)

    def count_death(self) -> None:
        """Add the counts of the process that died to those of earlier ones, and forget what it said."""
        self.said.clear()
        self.works_since = float("inf")
        if self.progress is not None:
            self.before = self.total_progress()
        self.progress = None

    def leave(self) -> None:
        """The run has fewer containers now: what this one has counted stays, and others read on."""
        self.count_death()
        self.left = True

    def total_progress(self) -> Progress:
        before, now = self.before, self.progress
        if now is None:
            counts = Progress(phase="", seconds=0.0, read=before.read, written=before.written, keyless=before.keyless)
            return replace(counts, lag=0) if self.left else counts
        return replace(
            now,
            read=before.read + now.read,
            written=before.written + now.written,
            keyless=sums([before.keyless, now.keyless]),
        )


class Supervisor:
    """Runs containers, as many as the run has at the moment. `start` starts the process of one."""

    def __init__(
        self,
        pipeline: Pipeline,
        containers: int,
        config_of: ConfigOf,
        most_restarts: int,
        progress: OnProgress | None,
        say: Say,
        machine: Machine = THIS_MACHINE,
        start: Start = start_child,
        autosizing: Autosizing | None = None,
    ) -> None:
        self._pipeline = pipeline.name
        self._config_of = config_of
        self._most_restarts = most_restarts
        self._generation, self._containers = 0, containers
        self._children: list[_Child] = []
        self._runs: dict[_Child, asyncio.Task[None]] = {}
        self._keyless_warning = KeylessWarning(pipeline)
        self._progress = progress
        self._say = say
        self._start = start
        self._autosizing = autosizing
        self._clock = machine.clock
        self._started = machine.clock()
        self._stop = asyncio.Event()
        self._signals_received, self._last_signal_at = 0, float("-inf")
        self._failure: FluvialError | None = None
        self._warnings: dict[str, str] = {}

    async def run(self) -> Report:
        """What `supervise` does, in a loop that runs."""
        reporting = asyncio.create_task(self._report_progress())
        reporting.add_done_callback(self._progress_ended)
        stopping = asyncio.create_task(self._stop_on_request(RUN_CONTROL.get()))
        with self._signals():
            try:
                if self._autosizing is not None:
                    self._autosizing.start()
                self._start_missing()
                while waits := [run for run in self._runs.values() if not run.done()]:
                    ended, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                    await asyncio.gather(*ended)
            finally:
                reporting.cancel()
                stopping.cancel()
                await self._kill_all()
                if self._autosizing is not None:
                    self._autosizing.close()
                self._warn_of_keyless()
        if reporting.done() and not reporting.cancelled() and (error := reporting.exception()) is not None:
            raise error
        if self._failure is not None:
            raise self._failure
        reports = [report for child in self._children for report in child.reports]
        restarts = sum(child.restarted for child in self._children)
        merged = merged_report(self._pipeline, reports, self._clock() - self._started, restarts)
        return replace(merged, warnings={**self._warnings, **merged.warnings})

    def _start_missing(self) -> None:
        """Start the containers that the run is to have, and that do not run."""
        for number in range(len(self._children), self._containers):
            config = replace(self._config_of(number), containers=self._containers)
            self._children.append(_Child(config, self._most_restarts))
        for child in self._children[: self._containers]:
            if child not in self._runs or self._runs[child].done():
                child.left = False
                self._runs[child] = asyncio.create_task(self._run_with_restarts(child))

    def _scale(self, generation: int, containers: int) -> None:
        """Follow a change of the run, that containers have reported. The latest counts."""
        if generation > self._generation and containers:
            if self._generation and containers != self._containers:
                self._say(f"the run has {plural(containers, 'container')} from now on, in place of {self._containers}")
            self._generation, self._containers = generation, containers
            if not self._stop.is_set():
                self._start_missing()

    async def _run_with_restarts(self, child: _Child) -> None:
        """Run a container, and restart it until it has done its part."""
        while not self._stop.is_set():
            code = await self._attempt(child)
            if self._is_over(child, code):
                if not self._stop.is_set() and child.config.until == "stopped":
                    child.leave()
                return
            pause = child.restarts.pause(max(0.0, self._clock() - child.works_since))
            if pause is None:
                self._fail(child, code, "has died too often")
                return
            child.count_death()
            child.restarted += 1
            self._say(f"{child.name} {_ended(code)}; it is started again in {pause:.1f} s")
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), pause)

    def _hear(self, child: _Child, line: str) -> None:
        child.said.append(line)
        self._say(f"{child.name}: {line}")

    def _receive(self, child: _Child, line: ChildReport) -> None:
        child.receive(line, self._clock())
        if line.progress is not None:
            self._scale(line.progress.generation, line.progress.containers)
            if self._autosizing is not None:
                self._autosizing.add(line.progress)
        report = line.progress or line.report
        for subject, text in report.warnings.items() if report is not None else ():
            log = logging.getLogger(STREAMS if subject.startswith(SUBJECTS) else TIMES)
            warn_once(self._warnings, subject, text, log)

    def _is_over(self, child: _Child, code: int) -> bool:
        """Whether a container that has ended is not to be restarted."""
        leaves = child.config.container >= self._containers
        drained = any(report.drained for one in self._children for report in one.reports)
        over = leaves or drained or any(report.shut_down for report in child.reports[-1:])
        if code == 0 and (child.config.until != "stopped" or self._stop.is_set() or over):
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
        error = ContainerFailed(f"{child.name} {how}, which ends the run.{others}", shown)
        if child.said:  # a note, as whoever has read the lines as they came need not read them again
            error.add_note("\n".join((f"{child.name} said last:", *(f"  {line}" for line in child.said))))
        self._end_with(error)

    def _end_with(self, error: FluvialError) -> None:
        """Stop all containers. The first error is that of the run."""
        self._failure = self._failure or error
        self._ask_to_stop(signal.SIGTERM)

    async def _attempt(self, child: _Child) -> int:
        """Run a container once. A process that cannot be started counts as a problem of the system. What starts it may
        give up, which ends the run."""
        try:
            return await self._once(child)
        except FluvialError as error:
            self._end_with(error)
            return error.exit_code
        except OSError as error:
            self._say(f"{child.name} cannot be started: {error}\n  to do: {remedy_for(error) or 'check the machine'}")
            return SystemProblem.exit_code

    async def _once(self, child: _Child) -> int:
        """Run a container once. Returns its exit code, negative for the signal that killed it."""
        child.process = process = await self._start(
            child.config,
            child.title(self._pipeline),
            lambda line: self._receive(child, line),
            lambda line: self._hear(child, line),
        )
        if self._stop.is_set():  # a stop was requested while the process started
            process.send_signal(signal.SIGTERM)
        code = await process.exited()
        await process.close()
        return code

    async def _stop_on_request(self, control: RunControl | None) -> None:
        """Stop all containers once another thread asks for it: that which has begun the run in this one."""
        while control is not None and not control.stop():
            await asyncio.sleep(REQUEST_SECONDS)
        if control is not None:
            self._ask_to_stop(signal.SIGTERM)

    @contextmanager
    def _signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        loop = asyncio.get_running_loop()
        before = {number: signal.getsignal(number) for number in STOPPING}
        with apart_from_children():
            for number in STOPPING:
                loop.add_signal_handler(number, self._on_signal)
            try:
                yield
            finally:
                for number, handler in before.items():
                    loop.remove_signal_handler(number)
                    # The loop has put Python's own there.
                    signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def _on_signal(self) -> None:
        """The first signal lets containers commit, the second stops them at once, the third kills them."""
        now = self._clock()
        if now - self._last_signal_at < REPEATED_SECONDS:
            return
        self._signals_received, self._last_signal_at = self._signals_received + 1, now
        self._ask_to_stop(signal.SIGTERM if self._signals_received < 3 else signal.SIGKILL)

    def _ask_to_stop(self, number: signal.Signals) -> None:
        if not self._stop.is_set():
            due = KILL_SECONDS + max((later_by(one.config.settings.stop_timeout) for one in self._children), default=0)
            asyncio.get_running_loop().call_later(due, self._kill_overdue, due)
        self._stop.set()
        if self._autosizing is not None:
            self._autosizing.stop()
        for child in self._children:
            if child.alive and child.process is not None:
                child.process.send_signal(number)

    def _kill_overdue(self, seconds: float) -> None:
        """Kill the containers that did not stop in so many seconds: they are paused, or the machine is too busy."""
        for child in self._children:
            if child.alive and child.process is not None:
                self._say(f"{child.name} did not stop within {seconds:g} s, and is killed")
                child.process.send_signal(signal.SIGKILL)

    async def _kill_all(self) -> None:
        """Kill the containers that are alive, whatever has ended this process."""
        for child in self._children:
            if child.alive and child.process is not None:
                # Waited for, so that none still holds its claim or its store when this process ends.
                child.process.send_signal(signal.SIGKILL)
                await child.process.exited()

    async def _report_progress(self) -> None:
        while True:
            await asyncio.sleep(PROGRESS_SECONDS)
            self._warn_of_keyless()
            if self._progress is None:
                continue
            running = sum(child.alive and not child.waits for child in self._children)
            phase = f"{running} of {self._containers} containers"
            parts = [child.total_progress() for child in self._children]
            self._progress(merged_progress(parts, phase, self._clock() - self._started))

    def _progress_ended(self, reporting: "asyncio.Task[None]") -> None:
        """Stop all containers if the user's function for progress has raised an error, which then is that of the
        run."""
        if not reporting.cancelled() and reporting.exception() is not None:
            self._ask_to_stop(signal.SIGTERM)

    def _warn_of_keyless(self) -> None:
        """Warn of rows without keys, from the counts of all containers together."""
        self._keyless_warning.check(child.total_progress().keyless for child in self._children)


def _ended(code: int) -> str:
    return f"ended with exit code {code}" if code >= 0 else f"was killed by {signal.Signals(-code).name}"
