"""The connection between the task of a container on a cluster and its supervisor: lines of JSON over TCP.

The task connects to the supervisor. Each proves to the other that it knows the key of the start, which came with the
task; the lines themselves are not encrypted. Both send an empty line every few seconds: where none comes, the other
side is gone.
"""

import asyncio
import hmac
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from importlib.metadata import version

from msgspec import DecodeError, Struct, json

from .child_process import ChildConfig, ChildReport

BEAT_SECONDS = 5.0
"""The time between two empty lines."""
SILENCE_SECONDS = 60.0
"""Time without any line after which the other side counts as gone: longer than a busy machine stands still."""
GREETING_SECONDS = 10.0
"""How long each step of the greeting may take."""
MOST_WAITING = 1 << 20
"""The most bytes that wait to be sent; further lines of a container's stderr are left out."""
CLOSE_SECONDS = 5.0
"""How long the other side may take to read what waits when the connection is closed."""
# The limit of asyncio's stream readers: about as much as is there at once.
_READ_BYTES = 1 << 16


class TaskOrder(Struct, frozen=True, kw_only=True):
    """What a task is to run: the child of `config` under a `title`. It connects to the supervisor at `host` and `port`,
    as the one task for the start `start`, and both know its `key`."""

    host: str
    port: int
    start: str
    key: bytes
    title: str
    config: ChildConfig


class TaskGreeting(Struct, frozen=True, kw_only=True):
    """What a task says first: for which start it comes, which process it is, and which version of Fluvial it has."""

    start: str
    challenge: str
    proof: str
    process: str
    version: str


class TaskMessage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a task says of its container: a report, a line of its stderr, or at last the exit code, negative for the
    signal that killed it."""

    report: ChildReport | None = None
    line: str | None = None
    code: int | None = None


class TaskCommand(Struct, frozen=True):
    """What a supervisor says: the number of a signal for the container."""

    signal: int


class TaskConnection:
    """One side of a connection whose greeting is over."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        beat: float = BEAT_SECONDS,
        silence: float = SILENCE_SECONDS,
        closing: float = CLOSE_SECONDS,
    ) -> None:
        self._reader, self._writer = reader, writer
        self._silence, self._closing = silence, closing
        self._beating = asyncio.create_task(self._beat(beat))
        self._left_out = 0

    def send(self, message: Struct) -> None:
        """Send a message, unless the other side is gone."""
        if not self._writer.is_closing():
            self._writer.write(json.encode(message) + b"\n")

    def send_line(self, line: str) -> None:
        """Send a line of a container's stderr. Where the other side does not read, it is left out, and counted."""
        if self._writer.transport.get_write_buffer_size() > MOST_WAITING:
            self._left_out += 1
            return
        if self._left_out:
            self.send(TaskMessage(line=f"({self._left_out:,} lines are left out here: the connection was too slow)"))
            self._left_out = 0
        self.send(TaskMessage(line=line))

    async def lines(self) -> AsyncIterator[bytes]:
        """The lines of the other side that are not empty, until it is gone."""
        begun = bytearray()
        while data := await self._read():
            *lines, rest = data.split(b"\n")
            for line in lines:
                begun += line
                if begun:
                    yield bytes(begun)
                begun.clear()
            begun += rest

    def abort(self) -> None:
        """Close the connection at once. The other side finds it gone."""
        self._writer.transport.abort()

    async def close(self) -> None:
        """Send what waits, and close the connection; also if the other side does not read."""
        self._beating.cancel()
        await _closed(self._writer, self._closing)

    async def _read(self) -> bytes:
        try:
            return await asyncio.wait_for(self._reader.read(_READ_BYTES), self._silence)
        except OSError:  # a TimeoutError is one, too
            return b""

    async def _beat(self, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            if not self._writer.is_closing():
                self._writer.write(b"\n")


async def connect(order: TaskOrder, process: str, draw: Callable[[], str] = secrets.token_hex) -> TaskConnection | None:
    """Connect to the supervisor of an order. Returns None if the supervisor wants no task for this start, for there was
    one before or it has been called off. Raises OSError if the supervisor is out of reach."""
    opening = asyncio.open_connection(order.host, order.port)
    reader, writer = await asyncio.wait_for(opening, GREETING_SECONDS)
    theirs, ours = await _greeting_line(reader), draw()
    greeting = TaskGreeting(
        start=order.start,
        challenge=ours,
        proof=_proof(order.key, "task", theirs, ours),
        process=process,
        version=version("fluvial"),
    )
    writer.write(json.encode(greeting) + b"\n")
    if _same(await _greeting_line(reader), _proof(order.key, "supervisor", theirs, ours)):
        return TaskConnection(reader, writer)
    await _closed(writer)
    return None


async def accept(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    key_of: Callable[[str], bytes | None],
    admits: Callable[[TaskGreeting], bool],
    draw: Callable[[], str] = secrets.token_hex,
) -> tuple[TaskGreeting, TaskConnection] | None:
    """Greet whoever has connected. `key_of` gives the key of a start that waits for its task. Returns None, and closes
    the connection, if it is no task of such a start, or is not admitted."""
    ours, connection = draw(), None
    try:
        writer.write(ours.encode() + b"\n")
        greeting = json.decode(await _greeting_line(reader), type=TaskGreeting)
        key = key_of(greeting.start)
        proved = key is not None and _same(greeting.proof, _proof(key, "task", ours, greeting.challenge))
        if key is None or not proved or not admits(greeting):
            return None
        writer.write(_proof(key, "supervisor", ours, greeting.challenge).encode() + b"\n")
        connection = TaskConnection(reader, writer)
        return greeting, connection
    except (OSError, DecodeError):
        return None
    finally:
        if connection is None:
            await _closed(writer)


async def _greeting_line(reader: asyncio.StreamReader) -> str:
    """The next line of a greeting; empty if none comes. No more is read of a line that is too long."""
    with suppress(OSError, ValueError):
        return (await asyncio.wait_for(reader.readline(), GREETING_SECONDS)).decode().strip()
    return ""


def _proof(key: bytes, side: str, supervisors: str, tasks: str) -> str:
    return hmac.new(key, f"{side} {supervisors} {tasks}".encode(), "sha256").hexdigest()


def _same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode(), wanted.encode())


async def _closed(writer: asyncio.StreamWriter, seconds: float = CLOSE_SECONDS) -> None:
    writer.close()
    try:
        await asyncio.wait_for(writer.wait_closed(), seconds)
    except OSError:  # a TimeoutError is one, too: the other side does not read
        writer.transport.abort()
