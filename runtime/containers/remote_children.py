"""Containers as tasks of a cluster, as their supervisor sees them: how they are started, what they say, how they end.

The supervisor listens; each task connects to it (`cluster_task`). A start is for one task: where the cluster runs a
task again by itself, the second one is sent away, for the supervisor decides what is started again.
"""

import asyncio
import secrets
import signal
import socket
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import version
from typing import Protocol

from msgspec import DecodeError, json

from ...dsl.errors import FluvialError, NoProgressError, SystemProblem
from ...dsl.text import visible
from ...dsl.validation import explain
from .child_process import ChildConfig, ChildReport
from .running_child import RunningChild, Say, Start
from .task_connection import TaskCommand, TaskConnection, TaskGreeting, TaskMessage, TaskOrder, accept

LOST = -signal.SIGKILL
"""The exit code of a container whose task is gone: nobody knows how it has ended."""
WAIT_SECONDS = 10.0
"""Seconds until the first message that containers wait; the time between two messages doubles."""
# A look is cheap, as it asks no other process, and the run ends this much after its patience at most.
_CHECK_SECONDS = 0.5
_KILLED_SECONDS = 5.0
"""Time in which a task has to tell that its container was killed, or that a task of the cluster's has ended."""

TaskEnded = Callable[[FluvialError | str], None]
"""Called once, by any thread, when a task has ended: with why it did not run its container, or an error that a restart
cannot help; with an empty text if it did run it."""


class TaskCluster(Protocol):
    """Runs tasks on some machine, each as soon as there is a core for it."""

    def submit(self, name: str, title: str, order: bytes, ended: TaskEnded) -> None:
        """Let a task run an order, under a name that no other has and a title for people. Raises FluvialError if the
        cluster takes none."""
        ...

    def cancel(self, name: str) -> None:
        """Let a task end, or not begin."""
        ...

    def load(self, names: Collection[str]) -> tuple[Collection[str], str]:
        """Which of these tasks have a core, and what the cluster has and uses, for people."""
        ...


class RemoteChild:
    """A `RunningChild` whose process is that of a task. It waits until the task has connected: for a core, and then for
    the Python there."""

    def __init__(
        self, start: str, cluster: TaskCluster, receive: Callable[[ChildReport], None], say: Say, containers: int
    ) -> None:
        self.start, self.containers = start, containers
        self._cluster, self._receive, self._say = cluster, receive, say
        self._loop = asyncio.get_running_loop()
        self.since = self._loop.time()
        self._code: asyncio.Future[int] = self._loop.create_future()
        self._connection: TaskConnection | None = None
        self._has_exit_code = False

    @property
    def alive(self) -> bool:
        """Whether its task may still run, or begin."""
        return not self._code.done()

    @property
    def waits(self) -> bool:
        """Whether its task has not connected yet."""
        return self._connection is None and self.alive

    def send_signal(self, number: signal.Signals) -> None:
        """Pass a signal on. A task that has not begun is called off."""
        if self._connection is None:
            self._end(-number)
            return
        self._connection.send(TaskCommand(number))
        if number == signal.SIGKILL:
            self._loop.call_later(_KILLED_SECONDS, self._end, LOST)

    async def exited(self) -> int:
        """Wait for its end; returns its exit code. Raises FluvialError if a restart cannot help."""
        return await asyncio.shield(self._code)

    async def close(self) -> None:
        """Call off a task that has not reported its exit code: the cluster may run it still, or again."""
        if not self._has_exit_code:
            self._cluster.cancel(self.start)

    async def follow(self, greeting: TaskGreeting, connection: TaskConnection) -> None:
        """Hear a task until it has ended or is lost."""
        self._connection = connection
        try:
            with suppress(DecodeError):  # what no task says: it is no use any more
                async for line in connection.lines():
                    if self.alive:  # a successor may have its place
                        self._hear(json.decode(line, type=TaskMessage))
        finally:
            self._lose(f"the connection to it has ended ({greeting.process})")

    def task_ended(self, problem: FluvialError | str) -> None:
        """Hear from the cluster that the task has ended."""
        if isinstance(problem, FluvialError) and self.waits:
            self.give_up(problem)
        elif self.waits:
            self._say(f"it cannot be started: {problem or 'its task has ended'}")
            self._end(SystemProblem.exit_code)
        elif self.alive:  # what it said last may be on its way
            self._loop.call_later(_KILLED_SECONDS, self._lose, f"its task has ended{f': {problem}' if problem else ''}")

    def give_up(self, error: FluvialError) -> None:
        """End with an error that a restart cannot help."""
        if self.alive:
            self._code.set_exception(error)

    def _hear(self, message: TaskMessage) -> None:
        if message.report is not None:
            self._receive(message.report)
        if message.line is not None:
            self._say(visible(message.line))
        if message.code is not None:
            self._has_exit_code = True
            self._end(message.code)

    def _lose(self, why: str) -> None:
        if self.alive:
            self._say(f"{why}: it counts as lost")
            self._end(LOST)

    def _end(self, code: int) -> None:
        if self.alive:
            self._code.set_result(code)
            if not self._has_exit_code and self._connection is not None:
                self._connection.abort()  # where its process lives yet, it stops by itself


@dataclass(frozen=True, slots=True)
class _Started:
    """A start, and the key that only its task knows besides."""

    child: RemoteChild
    key: bytes


class RemoteChildren:
    """Starts containers as tasks of a cluster, which connect to `listener` and find this machine as `host`. A task must
    begin within `patience` seconds, while `say` is given how many wait. `fitted` makes of a config what a process
    elsewhere can use."""

    def __init__(
        self,
        cluster: TaskCluster,
        listener: socket.socket,
        host: str,
        patience: float,
        say: Say,
        *,
        fitted: Callable[[ChildConfig], ChildConfig] = lambda config: config,
        draw: Callable[[], str] = secrets.token_hex,
    ) -> None:
        self._cluster, self._listener, self._host = cluster, listener, host
        self._patience, self._say = patience, say
        self._fitted, self._draw = fitted, draw
        self._starts: dict[str, _Started] = {}

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Start]:
        """Listen, and give the function that starts a container, as `start_child` does."""
        # Tasks of their own: asyncio logs an error for those that it makes and that are cancelled.
        greeting = set[asyncio.Task[None]]()

        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.create_task(self._greet(reader, writer))
            greeting.add(task)
            task.add_done_callback(greeting.discard)
            # A task that is cancelled before it begins, as the run ends, closes nothing.
            task.add_done_callback(lambda _: writer.close())

        server = await asyncio.start_server(connected, sock=self._listener)
        reporting = asyncio.create_task(self._report_waiting())
        try:
            yield self.start
        finally:
            server.close()
            for one in self._starts.values():
                await one.child.close()
            for task in (reporting, *greeting):
                task.cancel()
            await asyncio.wait((reporting, *greeting))

    async def start(
        self, config: ChildConfig, title: str, receive: Callable[[ChildReport], None], say: Say
    ) -> RunningChild:
        """Let a task run a container. Returns at once, though the task may have to wait for a core."""
        loop, start, key = asyncio.get_running_loop(), self._draw(), self._draw().encode()
        child = RemoteChild(start, self._cluster, receive, say, config.containers)
        port = self._listener.getsockname()[1]
        order = TaskOrder(host=self._host, port=port, start=start, key=key, title=title, config=self._fitted(config))
        self._starts = {name: other for name, other in self._starts.items() if other.child.alive}
        self._starts[start] = _Started(child, key)
        self._cluster.submit(
            start, title, json.encode(order), lambda problem: _in_loop(loop, child.task_ended, problem)
        )
        return child

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        greeted = await accept(reader, writer, self._key_of, self._admits)
        if greeted is not None:
            greeting, connection = greeted
            try:
                await self._starts[greeting.start].child.follow(greeting, connection)
            finally:
                await connection.close()

    def _key_of(self, start: str) -> bytes | None:
        begun = self._starts.get(start)
        return begun.key if begun is not None and begun.child.waits else None

    def _admits(self, greeting: TaskGreeting) -> bool:
        same = greeting.version == version("fluvial")
        if not same:
            self._starts[greeting.start].child.give_up(_other_version(greeting))
        return same

    async def _report_waiting(self) -> None:
        """Tell how many containers wait, and for what, and end the run once one has waited for too long."""
        loop, due = asyncio.get_running_loop(), WAIT_SECONDS
        while True:
            await asyncio.sleep(_CHECK_SECONDS)
            waiting = [one.child for one in self._starts.values() if one.child.waits]
            waited = max((loop.time() - child.since for child in waiting), default=0.0)
            if not waiting:
                due = WAIT_SECONDS
            elif waited >= self._patience:
                error = NoProgressError("\n".join(self._waits(waiting, f"for {waited:.0f} s", "the run ends")))
                for child in waiting:
                    child.give_up(error)
            elif waited >= due:
                due = 2 * waited
                for text in self._waits(waiting, f"{waited:.0f} s so far", f"the run ends after {self._patience:g} s"):
                    self._say(text)

    def _waits(self, waiting: list[RemoteChild], how_long: str, ends: str) -> Iterator[str]:
        """What to tell of containers that wait: of those without a core, and of those whose task has one."""
        begun, cores = self._cluster.load([child.start for child in waiting])
        of, starting = waiting[0].containers, sum(child.start in begun for child in waiting)
        if number := len(waiting) - starting:
            wrong = f"{number} of {of} containers {'waits' if number == 1 else 'wait'} for a core, {how_long}; {ends}"
            remedy = "give it more cores, wait until other work is done, or start fewer containers"
            yield explain(wrong, f"a core for each container; {cores}", remedy, "the cluster")
        if starting:
            have = "has a core and has" if starting == 1 else "have a core and have"
            port = self._listener.getsockname()[1]
            wrong = f"{starting} of {of} containers {have} not started there, {how_long}; {ends}"
            expected = f"a Python that starts within seconds, and can connect to {self._host}:{port}"
            remedy = "wait where the machine is busy, or see the logs of the executors"
            yield explain(wrong, expected, remedy, "the cluster")


def _in_loop(
    loop: asyncio.AbstractEventLoop, tell: Callable[[FluvialError | str], None], problem: FluvialError | str
) -> None:
    with suppress(RuntimeError):  # the run is over, and its loop closed
        loop.call_soon_threadsafe(tell, problem)


def _other_version(greeting: TaskGreeting) -> SystemProblem:
    wrong = f"a worker has Fluvial {greeting.version}, and the run was started with {version('fluvial')}"
    remedy = "install the same version on the driver and on every worker"
    return SystemProblem(explain(wrong, "one version of Fluvial", remedy, greeting.process))
