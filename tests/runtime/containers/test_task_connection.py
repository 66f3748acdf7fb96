"""The connection between a task and its supervisor: who is let in, and how each notices that the other is gone."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest

from fluvial.planner.settings import Settings
from fluvial.runtime.containers.child_process import ChildConfig
from fluvial.runtime.containers.task_connection import (
    MOST_WAITING,
    TaskCommand,
    TaskConnection,
    TaskGreeting,
    TaskMessage,
    TaskOrder,
    accept,
    connect,
)
from fluvial.runtime.systems.open import Opening

CONFIG = ChildConfig(
    target="p.py", system=Opening(url="kafka://there:1"), settings=Settings(), until="end", container=0, containers=1,
    run="run",
)  # fmt: skip
Meeting = Callable[[TaskConnection, TaskConnection], Awaitable[None]]


def order(port: int, start: str = "start", key: bytes = b"key") -> TaskOrder:
    return TaskOrder(host="127.0.0.1", port=port, start=start, key=key, title="p: container 0 of 1", config=CONFIG)


@dataclass
class Door:
    """A supervisor that knows one start, and lets tasks in or not."""

    lets_in: bool = True
    inside: list[tuple[TaskGreeting, TaskConnection]] = field(default_factory=list)

    async def greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        greeted = await accept(reader, writer, {"start": b"key"}.get, lambda _: self.lets_in)
        if greeted is not None:
            self.inside.append(greeted)

    async def listen(self) -> tuple[asyncio.Server, int]:
        server = await asyncio.start_server(self.greet, "127.0.0.1", 0)
        return server, server.sockets[0].getsockname()[1]


def between(meeting: Meeting) -> TaskGreeting:
    """Let a supervisor and a task meet. Returns how the task greeted."""

    async def meet() -> TaskGreeting:
        door = Door()
        server, port = await door.listen()
        async with server:
            task = await connect(order(port), "process 7 on there")
            assert task is not None
            ((greeting, supervisor),) = door.inside
            await meeting(supervisor, task)
            await task.close()
            await supervisor.close()
            return greeting

    return asyncio.run(meet())


def test_both_sides_hear_each_other_line_by_line() -> None:
    heard: list[bytes] = []

    async def talk(supervisor: TaskConnection, task: TaskConnection) -> None:
        supervisor.send(TaskCommand(15))
        heard.append(await anext(task.lines()))
        task.send(TaskMessage(line="x" * 200_000))  # several times what one read takes
        task.send(TaskMessage(code=-9))
        lines = supervisor.lines()
        heard.extend([await anext(lines), await anext(lines)])

    greeting = between(talk)
    assert (greeting.start, greeting.process) == ("start", "process 7 on there")
    assert (heard[0], len(heard[1]), heard[2]) == (b'{"signal":15}', 200_011, b'{"code":-9}')


@pytest.mark.parametrize(
    ("wrong", "lets_in"), [({"key": b"another"}, True), ({"start": "unknown"}, True), ({}, False)], ids=str
)
def test_a_task_without_the_key_or_a_place_is_not_let_in(wrong: dict[str, str], lets_in: bool) -> None:
    async def meet() -> None:
        door = Door(lets_in)
        server, port = await door.listen()
        async with server:
            assert await connect(order(port, **wrong), "process 7") is None  # type: ignore[arg-type]
        assert door.inside == []

    asyncio.run(meet())


@pytest.mark.parametrize("said", [b"GET / HTTP/1.1\r\n\r\n", b"x" * 200_000, b"\xff\n", b"{}\n"])
def test_whoever_is_no_task_is_sent_away(said: bytes) -> None:
    async def meet() -> None:
        door = Door()
        server, port = await door.listen()
        async with server:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(said)
            writer.write_eof()
            try:
                answer = await reader.read()
            except ConnectionError:  # it was closed with something left to read
                answer = b""
            assert answer.count(b"\n") <= 1  # the challenge, and no proof
            writer.close()
        assert door.inside == []

    asyncio.run(meet())


def test_a_supervisor_that_does_not_know_the_key_is_no_supervisor() -> None:
    async def pretend(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"challenge\nno proof\n")
        writer.close()

    async def meet() -> None:
        async with await asyncio.start_server(pretend, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            assert await connect(order(port), "process 7") is None

    asyncio.run(meet())


def pair(silence: float, *, beat: float) -> bool:
    """Whether one side takes the other for gone, which says nothing but its beats."""

    async def meet() -> bool:
        gone = asyncio.Event()
        held: list[TaskConnection] = []

        async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            held.append(TaskConnection(reader, writer, beat=beat))

        async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            connection = TaskConnection(reader, writer, silence=silence)

            async def read() -> None:
                async for _ in connection.lines():
                    pass
                gone.set()

            reading = asyncio.create_task(read())
            try:
                await asyncio.wait_for(gone.wait(), 0.5)
            except TimeoutError:
                return False
            finally:
                reading.cancel()
                for one in (connection, *held):
                    await one.close()
            return True

    return asyncio.run(meet())


def test_a_side_that_is_silent_for_too_long_is_gone() -> None:
    assert pair(0.1, beat=60.0)


@pytest.mark.slow
def test_a_side_that_has_nothing_to_say_is_not() -> None:
    assert not pair(0.2, beat=0.02)


def test_a_connection_is_closed_though_the_other_side_does_not_read() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = TaskConnection(reader, writer, closing=0.05)
        while writer.transport.get_write_buffer_size() <= MOST_WAITING:
            connection.send_line("x" * MOST_WAITING)
        await connection.close()
        assert writer.transport.get_write_buffer_size() == 0
        connection.send_line("nobody")  # is no error

    async def meet() -> None:
        done = asyncio.Event()

        async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await talk(reader, writer)
            done.set()

        async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
            _, writer = await asyncio.open_connection("127.0.0.1", server.sockets[0].getsockname()[1])
            await asyncio.wait_for(done.wait(), 20)
            writer.close()

    asyncio.run(meet())


def test_lines_that_nobody_reads_are_left_out_and_counted() -> None:
    async def talk(supervisor: TaskConnection, task: TaskConnection) -> None:
        line = "x" * (MOST_WAITING // 4)
        for _ in range(40):
            task.send_line(line)
        sent: list[bytes] = []
        lines = supervisor.lines()
        while len(sent) < 4:
            sent.append(await anext(lines))
        while task._writer.transport.get_write_buffer_size() > MOST_WAITING:
            sent.append(await anext(lines))
        task.send_line("last")
        async for text in lines:
            sent.append(text)
            if b'"last"' in text:
                break
        whole = sum(len(text) > 1000 for text in sent)
        assert sent[-2] == f'{{"line":"({40 - whole} lines are left out here: the connection was too slow)"}}'.encode()
        assert whole < 40

    between(talk)
