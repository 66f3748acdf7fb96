"""run_task: what stands between a container on a cluster and its supervisor. The containers are shells."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from msgspec import json
from msgspec.structs import replace

from fluvial.planner.settings import Settings
from fluvial.runtime.containers.child_process import ChildConfig, ChildReport
from fluvial.runtime.containers.cluster_task import ChildStart, run_order, run_task
from fluvial.runtime.containers.task_connection import TaskCommand, TaskConnection, TaskMessage, TaskOrder, accept
from fluvial.runtime.process.machine import Machine
from fluvial.runtime.systems.open import Opening
from waiting import wait_until

HERE = Machine(process_name=lambda: "process 7 on there")
CONFIG = ChildConfig(
    target="p.py", system=Opening(url="kafka://there:1"), settings=Settings(), until="end", container=0, containers=1,
    run="run",
)  # fmt: skip
ORDER = TaskOrder(host="127.0.0.1", port=0, start="start", key=b"key", title="p: container 0 of 1", config=CONFIG)


@dataclass
class Heard:
    """What a supervisor hears of a task, and what it does with the connection."""

    script: str
    act: Callable[[TaskConnection, str], Awaitable[None]] | None = None
    order: TaskOrder = ORDER
    shell: str = "sh"
    patience: float = 60.0
    messages: list[TaskMessage] = field(default_factory=list)
    problem: str = ""

    def run(self) -> "Heard":
        self.problem = asyncio.run(self._run())
        return self

    async def _run(self) -> str:
        self._over = asyncio.Event()
        async with await asyncio.start_server(self._greet, "127.0.0.1", 0) as server:
            order = replace(self.order, port=server.sockets[0].getsockname()[1])
            start = ChildStart(dict(os.environ), (self.shell, "-c", self.script), self.patience)
            problem = await run_task(order, start, HERE)
            await self._over.wait()
            return problem

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        greeted = await accept(reader, writer, lambda _: b"key", lambda _: True)
        assert greeted is not None
        _, connection = greeted
        async for line in connection.lines():
            self.messages.append(message := json.decode(line, type=TaskMessage))
            if self.act is not None:
                await self.act(connection, message.line or "")
        await connection.close()
        self._over.set()


def test_the_supervisor_hears_reports_lines_and_the_exit_code() -> None:
    heard = Heard("""read -r config; echo '{"taken_over":true}' >/dev/fd/$0; echo "$1" >&2; exit 5""").run()
    assert heard.problem == ""
    assert [one for one in heard.messages if one.report] == [TaskMessage(report=ChildReport(taken_over=True))]
    assert [one.line for one in heard.messages if one.line] == ["p: container 0 of 1"]
    assert heard.messages[-1] == TaskMessage(code=5)


def test_the_supervisor_hears_what_programs_of_the_container_print() -> None:
    heard = Heard("read -r config; sh -c 'echo printed'; echo said >&2").run()
    assert [one.line for one in heard.messages if one.line] == ["printed", "said"]


def test_signals_of_the_supervisor_reach_the_container() -> None:
    async def stop(connection: TaskConnection, line: str) -> None:
        if line == "ready":
            connection.send(TaskCommand(signal.SIGTERM))

    heard = Heard("trap 'exit 3' TERM; echo ready >&2; while :; do sleep 0.01; done", stop).run()
    assert heard.messages[-1] == TaskMessage(code=3)
    killed = Heard("echo ready >&2; exec sleep 60", stop).run()
    assert killed.messages[-1] == TaskMessage(code=-signal.SIGTERM)


def test_without_a_supervisor_the_container_is_let_go(tmp_path: Path) -> None:
    """Its standard input ends, as it does when a supervisor on its machine dies, and it gets no signal besides."""

    async def leave(connection: TaskConnection, line: str) -> None:
        if line == "ready":
            await connection.close()

    end = tmp_path / "end"
    script = f"trap 'echo signalled >> {end}' TERM; read -r config; echo ready >&2; cat; echo stopped >> {end}"
    assert Heard(script, leave).run().problem == ""
    assert end.read_text() == "stopped\n"


def test_a_container_that_does_not_stop_without_a_supervisor_is_killed() -> None:
    async def leave(connection: TaskConnection, line: str) -> None:
        if line == "ready":
            await connection.close()

    began = time.monotonic()
    Heard("echo ready >&2; exec sleep 60", leave, patience=0.05).run()
    assert time.monotonic() - began < 30


ORPHAN = """
import asyncio, sys
from msgspec import json
from fluvial.runtime.containers.cluster_task import ChildStart, run_task
from fluvial.runtime.containers.task_connection import TaskOrder
order = json.decode(sys.argv[1].encode(), type=TaskOrder)
asyncio.run(run_task(order, ChildStart(program=("sh", "-c", sys.argv[2]))))
"""


@pytest.mark.slow
def test_a_task_whose_parent_has_died_lets_the_container_go(tmp_path: Path) -> None:
    started, end = tmp_path / "started", tmp_path / "end"
    script = f"read -r config; echo $PPID > {started}; cat; echo stopped > {end}"

    async def supervise() -> None:
        inside = asyncio.Event()

        async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            greeted = await accept(reader, writer, lambda _: b"key", lambda _: True)
            assert greeted is not None
            async for _ in greeted[1].lines():
                pass
            await greeted[1].close()
            inside.set()

        async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
            order = json.encode(replace(ORDER, port=server.sockets[0].getsockname()[1])).decode()
            # A shell stands between this process and that of the task, and is killed.
            command = ('"$@"; :', "sh", sys.executable, "-c", ORPHAN, order, script)
            parent = await asyncio.create_subprocess_exec("sh", "-c", *command)
            await asyncio.to_thread(wait_until, started.exists, "the container runs")
            parent.kill()
            await parent.wait()
            await asyncio.wait_for(inside.wait(), 20)

    asyncio.run(supervise())
    assert end.read_text() == "stopped\n"


def test_a_supervisor_that_is_out_of_reach_is_reported() -> None:
    nobody = replace(ORDER, port=1)
    problem = asyncio.run(run_task(nobody, ChildStart(program=("false",)), HERE))
    assert problem.startswith("process 7 on there cannot connect to the supervisor at 127.0.0.1:1: ")
    assert "cannot connect to the supervisor" in run_order(json.encode(nobody), {})


def test_a_log_that_this_machine_does_not_see_is_reported_before_anything_starts(tmp_path: Path) -> None:
    missing = tmp_path / "log"
    order = replace(ORDER, config=replace(CONFIG, system=Opening(url=f"log:{missing}")))
    heard = Heard("echo started >&2", order=order).run()
    lines = [one.line for one in heard.messages if one.line]
    assert lines[:2] == [f"there is no folder {missing}", "  at process 7 on there"]
    assert heard.messages[-1] == TaskMessage(code=3)
    assert not missing.exists()
    missing.mkdir()
    assert [one.line for one in Heard("echo started >&2", order=order).run().messages if one.line] == ["started"]


def test_a_container_that_cannot_be_started_is_reported() -> None:
    heard = Heard("", shell="/nowhere").run()
    assert (heard.messages[0].line or "").startswith("it cannot be started: [Errno 2]")
    assert heard.messages[-1] == TaskMessage(code=4)
