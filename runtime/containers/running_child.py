"""A container as a child process of its supervisor: how it is started, what it says, and how it ends."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from typing import Protocol

from msgspec import json

from ...dsl.text import visible
from .child_process import ChildConfig, ChildReport

PROGRAM = (sys.executable, "-P", "-m", "fluvial.runtime.containers.child_process")
# What a pipe of Linux holds, so that one read empties it.
_READ_BYTES = 1 << 16
LONGEST_LINE = 1 << 16
"""The most bytes of a line from a container's stderr; a longer one is printed in pieces."""
_POLL_SECONDS = 0.2
"""How soon the end of a container is noticed if its pipes stay open."""
_DRAIN_SECONDS = 2.0
"""How long to read the pipes of a dead container: children of its own may keep them open."""


class RunningChild(Protocol):
    """The process of a container. Meanwhile it hands over its reports and the lines of its stderr."""

    @property
    def alive(self) -> bool:
        """Whether it has not ended."""
        ...

    @property
    def waits(self) -> bool:
        """Whether it has not begun: there is no core for it yet, or it is being started there."""
        ...

    def send_signal(self, number: signal.Signals) -> None:
        """Send it a signal. It must be alive."""
        ...

    async def exited(self) -> int:
        """Wait for its end; returns its exit code, negative for the signal that killed it. Raises FluvialError if it
        could not run at all, and a restart cannot help."""
        ...

    async def close(self) -> None:
        """Hand over what it had said when it ended, and close its pipes."""
        ...


class OwnChild(RunningChild, Protocol):
    """The process of a container that is a child of this one."""

    def abandon(self) -> None:
        """Close its standard input. It then stops after a commit, as if this process had died."""
        ...


Say = Callable[[str], None]
Start = Callable[[ChildConfig, str, Callable[[ChildReport], None], Say], Awaitable[RunningChild]]
"""Starts the process of a container: gets its config, its title, what receives its reports, and what is given the lines
of its stderr. Raises OSError if it cannot be started, and FluvialError if it never can."""
Starting = AbstractAsyncContextManager[Start]
"""Gives what starts containers somewhere, as long as it is open."""


@dataclass(frozen=True, slots=True)
class _Pipe:
    """A pipe from a child: `stream` is what it writes to the descriptor `writing`."""

    stream: asyncio.StreamReader
    reading: asyncio.ReadTransport
    writing: int


class _ChildProcess:
    def __init__(
        self, process: Process, pipes: Sequence[_Pipe], listening: Sequence[asyncio.Task[None]], patience: float
    ) -> None:
        self._process = process
        self._pipes = pipes
        self._listening = listening
        self._patience = patience

    @property
    def alive(self) -> bool:
        return self._process.returncode is None

    @property
    def waits(self) -> bool:
        return False

    def send_signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def abandon(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()

    async def exited(self) -> int:
        # `Process.wait` alone would also wait for its pipes, which children of the process may keep open.
        while self._process.returncode is None:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), _POLL_SECONDS)
        return self._process.returncode

    async def close(self) -> None:
        _, unfinished = await asyncio.wait(self._listening, timeout=self._patience)
        for task in unfinished:
            task.cancel()
        for pipe in self._pipes:
            pipe.reading.close()
        self.abandon()


async def start_child(
    config: ChildConfig,
    title: str,
    receive: Callable[[ChildReport], None],
    say: Callable[[str], None],
    *,
    program: Sequence[str] = PROGRAM,
    patience: float = _DRAIN_SECONDS,
    env: Mapping[str, str] | None = None,
    all_said: bool = False,
) -> OwnChild:
    """Start the process of a container. `receive` gets its reports, and `say` the lines of its stderr; with `all_said`
    those of its stdout, too. Else its stdout is that of this process; without `env`, so is its environment.

    Raises OSError if it cannot be started.
    """
    pipes: list[_Pipe] = []
    try:
        pipes.append(reports := await _open_pipe())
        pipes.append(errors := await _open_pipe())
        # In a session of its own: Ctrl-C in a terminal is for the supervisor, which passes it on once.
        process = await asyncio.create_subprocess_exec(
            *(*program, str(reports.writing), title),
            stdin=PIPE,
            stdout=errors.writing if all_said else None,
            stderr=errors.writing,
            pass_fds=(reports.writing,),
            start_new_session=True,
            env=env,
        )
    except OSError:
        for pipe in pipes:
            pipe.reading.close()
        raise
    finally:
        for pipe in pipes:
            os.close(pipe.writing)
    assert process.stdin is not None
    # Not as arguments or in the environment, which other users of the machine may read: a config may hold secrets.
    process.stdin.write(json.encode(config) + b"\n")  # it stays open as long as this process lives
    listening = (
        _each_line(reports.stream, lambda line: receive(json.decode(line, type=ChildReport))),
        _each_line(errors.stream, lambda line: say(visible(line.decode(errors="replace"))), LONGEST_LINE),
    )
    return _ChildProcess(process, pipes, [asyncio.create_task(each) for each in listening], patience)


async def _open_pipe() -> _Pipe:
    # Own pipes, for those of asyncio stay open in this process as long as children of a dead child have them open.
    reading, writing = os.pipe()
    stream = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(stream), os.fdopen(reading, "rb")
    )
    return _Pipe(stream, transport, writing)


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
