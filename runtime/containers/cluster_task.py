"""The task of a container on a cluster: it runs the container as a child process, and stands between that and the
supervisor.

It hands over what the child reports and prints, and sends it the signals of the supervisor. Where the supervisor is
gone, or the process that started the task, the child stops after a commit.
"""

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from msgspec import json

from ...dsl.errors import SystemProblem, UnsupportedError
from ...dsl.validation import explain
from ..process.machine import THIS_MACHINE, Machine
from ..process.signals import KILL_SECONDS, later_by
from .running_child import PROGRAM, OwnChild, start_child
from .task_connection import TaskCommand, TaskConnection, TaskMessage, TaskOrder, connect

ABANDONED_SECONDS = KILL_SECONDS + 2.0
"""Time in which a child stops by itself once its supervisor is gone."""
_PARENT_SECONDS = 1.0
"""The time between two looks at whether the process that started the task lives."""


@dataclass(frozen=True, slots=True)
class ChildStart:
    """How a task starts the process of its container, and how many seconds that has to stop if nobody is left that
    supervises it."""

    env: Mapping[str, str] | None = None
    program: Sequence[str] = PROGRAM
    patience: float = ABANDONED_SECONDS


def run_order(order: bytes, env: Mapping[str, str]) -> str:
    """Run a container, whose process has the environment `env`, as `run_task` does."""
    return asyncio.run(run_task(json.decode(order, type=TaskOrder), ChildStart(env)))


async def run_task(order: TaskOrder, start: ChildStart, machine: Machine = THIS_MACHINE) -> str:
    """Run a container to its end, and report that to the supervisor. Returns why it did not run; empty if it did."""
    process = machine.process_name()
    try:
        connection = await connect(order, process)
    except OSError as error:
        at = f"{order.host}:{order.port}"
        return f"{process} cannot connect to the supervisor at {at}: {str(error) or type(error).__name__}"
    if connection is None:
        return f"the supervisor has no place for {process}: another task was there before, or the run is over"
    try:
        connection.send(TaskMessage(code=await _exit_code(order, connection, process, start)))
    finally:
        await connection.close()
    return ""


async def _exit_code(order: TaskOrder, connection: TaskConnection, process: str, start: ChildStart) -> int:
    if unseen := _unseen(order.config.system.url, process):
        for line in unseen.splitlines():
            connection.send_line(line)
        return UnsupportedError.exit_code
    try:
        child = await start_child(
            order.config,
            order.title,
            lambda report: connection.send(TaskMessage(report=report)),
            connection.send_line,
            program=start.program,
            env=start.env,
            all_said=True,  # the supervisor is elsewhere
        )
    except OSError as error:
        connection.send_line(f"it cannot be started: {error}")
        return SystemProblem.exit_code
    patience = start.patience + later_by(order.config.settings.stop_timeout)
    ending = asyncio.create_task(_end_in_time(child, connection, patience))
    try:
        code = await child.exited()
        await child.close()
        return code
    finally:
        ending.cancel()


async def _end_in_time(child: OwnChild, connection: TaskConnection, patience: float) -> None:
    """Obey the supervisor. Once it is gone, or the process that started this one, let the child stop after a commit,
    and kill it if it does not."""
    obeying = asyncio.create_task(_obey(child, connection))
    orphaned = asyncio.create_task(_orphaned(os.getppid()))
    try:
        await asyncio.wait((obeying, orphaned), return_when=asyncio.FIRST_COMPLETED)
        child.abandon()
        await asyncio.sleep(patience)
        with suppress(ProcessLookupError):  # it has just ended
            child.send_signal(signal.SIGKILL)
    finally:
        obeying.cancel()
        orphaned.cancel()


async def _obey(child: OwnChild, connection: TaskConnection) -> None:
    async for line in connection.lines():
        command = json.decode(line, type=TaskCommand)
        with suppress(ProcessLookupError):  # it has just ended
            child.send_signal(signal.Signals(command.signal))


async def _orphaned(parent: int) -> None:
    while os.getppid() == parent:
        await asyncio.sleep(_PARENT_SECONDS)


def _unseen(url: str, process: str) -> str:
    """What is wrong if this machine does not see the folder of a log; empty otherwise. A container would make a new
    one."""
    scheme, _, folder = url.partition(":")
    if scheme != "log" or Path(folder).is_dir():
        return ""
    remedy = "put it on a file system that all of them share, or use kafka://HOST:PORT"
    return explain(f"there is no folder {folder}", "a log in a folder that driver and workers share", remedy, process)
