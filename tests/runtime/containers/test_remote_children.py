"""RemoteChildren: containers as tasks of a cluster, as their supervisor sees them. The cluster is threads of this
process, in which tasks run shells."""

import asyncio
import hmac
import signal
import socket
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial

import pytest
from msgspec import json
from msgspec.structs import replace

from explained import assert_explains
from fluvial.dsl import FluvialError, NoProgressError, Pipeline, SystemProblem
from fluvial.dsl.errors import ContainerFailed
from fluvial.planner.settings import Settings
from fluvial.runtime import Progress, Report
from fluvial.runtime.containers import remote_children
from fluvial.runtime.containers.child_process import ChildConfig
from fluvial.runtime.containers.cluster_task import ChildStart, run_task
from fluvial.runtime.containers.remote_children import RemoteChildren, TaskEnded
from fluvial.runtime.containers.supervisor import Supervisor, supervise
from fluvial.runtime.containers.task_connection import TaskGreeting, TaskOrder, connect
from fluvial.runtime.launch import Until
from fluvial.runtime.process.run_control import RUN_CONTROL, RunControl
from fluvial.runtime.report import OnProgress
from fluvial.runtime.systems.open import Opening
from fluvial.runtime.testing.virtual_clock import VirtualLoop

ENDS = """read -r config; echo '{"report":{"pipeline":"p","engine":"local","seconds":1,"read":{"in":3}}}' >/dev/fd/$0"""
STAYS = "echo ready >&2; read -r config; trap 'exit 0' TERM; while :; do sleep 0.01; done"
Task = Callable[[TaskOrder], FluvialError | str]


def shell(script: str) -> Task:
    """A task whose container is a shell."""
    return lambda order: asyncio.run(run_task(order, ChildStart(program=("sh", "-c", script), patience=1.0)))


def never(_: TaskOrder) -> str:
    """A task that no core was found for: it does not begin before it is called off."""
    return "called off"


def starting(_: TaskOrder) -> str:
    """A task that has a core, and whose Python does not come up before it is called off."""
    return "called off"


@dataclass
class Threads:
    """A cluster that runs the tasks that it is given, one after the other for each container, each in a thread."""

    tasks: Sequence[Task]
    names: list[str] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    threads: list[threading.Thread] = field(default_factory=list)
    results: list[FluvialError | str] = field(default_factory=list)

    def submit(self, name: str, title: str, order: bytes, ended: TaskEnded) -> None:
        task = self.tasks[len(self.names)]
        self.names.append(name)
        if task in (never, starting):
            return

        def run() -> None:
            self.results.append(result := task(json.decode(order, type=TaskOrder)))
            ended(result)

        self.threads.append(threading.Thread(target=run, name=title))
        self.threads[-1].start()

    def cancel(self, name: str) -> None:
        self.cancelled.append(name)

    def load(self, names: Collection[str]) -> tuple[Collection[str], str]:
        of_task = zip(self.names, self.tasks, strict=False)
        return {name for name, task in of_task if task is starting} & {*names}, "it has 1 core"


@dataclass
class Run:
    """A run on a cluster of threads, and what was said of it."""

    cluster: Threads
    on_ready: Callable[[], object] = lambda: signal.raise_signal(signal.SIGTERM)
    said: list[str] = field(default_factory=list)

    def supervise(
        self, containers: int = 1, until: Until = "end", most_restarts: int = 3, progress: OnProgress | None = None
    ) -> Report:
        try:
            with socket.create_server(("127.0.0.1", 0)) as listener:
                children = RemoteChildren(self.cluster, listener, "127.0.0.1", 60.0, self.said.append)
                return supervise(
                    Pipeline("p"),
                    containers,
                    lambda number: config(number, containers, until),
                    most_restarts=most_restarts,
                    progress=progress,
                    say=self.say,
                    starting=children.serving(),
                )
        finally:
            for thread in self.cluster.threads:
                thread.join(30)
                assert not thread.is_alive()

    def say(self, line: str) -> None:
        self.said.append(line)
        if line.endswith(": ready"):
            self.on_ready()


def config(container: int, containers: int, until: Until) -> ChildConfig:
    opening = Opening(url="kafka://there:1")
    return ChildConfig(
        target="p.py", system=opening, settings=Settings(), until=until, container=container, containers=containers,
        run="run",
    )  # fmt: skip


def test_what_containers_report_and_print_is_that_of_their_run() -> None:
    run = Run(Threads([shell(f"echo here >&2; {ENDS}"), shell(ENDS)]))
    assert run.supervise(containers=2).read == {"in": 6}
    assert run.said in (["container 0: here"], ["container 1: here"])
    assert (run.cluster.results, run.cluster.cancelled) == (["", ""], [])


def test_a_container_that_dies_is_submitted_again_alone() -> None:
    run = Run(Threads([shell("exit 4"), shell(ENDS)]))
    report = run.supervise()
    assert (report.restarts, report.read) == (1, {"in": 3})
    assert run.said == ["container 0 ended with exit code 4; it is started again in 0.2 s"]
    assert len(set(run.cluster.names)) == 2


def test_what_the_pipeline_got_wrong_ends_the_run() -> None:
    run = Run(Threads([shell("echo wrong >&2; exit 5")]))
    with pytest.raises(ContainerFailed) as raised:
        run.supervise()
    assert raised.value.exit_code == 5
    assert run.said == ["container 0: wrong"]


def test_a_mistake_of_the_supervisor_leaves_no_container_behind() -> None:
    run = Run(Threads([shell("sleep 0.3; exit 4"), shell("echo up >&2; exec sleep 60")]))
    with pytest.raises(IndexError):  # of the cluster, which has no third task
        run.supervise(containers=2, until="stopped")
    assert run.said[0] == "container 1: up"


def test_a_signal_for_the_driver_stops_a_container_which_reports_what_it_did() -> None:
    run = Run(Threads([shell(STAYS)]))
    assert run.supervise(until="stopped").restarts == 0
    assert (run.said, run.cluster.cancelled) == (["container 0: ready"], [])


def test_a_run_leaves_the_handlers_of_signals_that_were_there() -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    mine = [signal.signal(number, lambda *_: None) for number in before] and [*map(signal.getsignal, before)]
    try:
        Run(Threads([shell(ENDS)])).supervise()
        assert [*map(signal.getsignal, before)] == mine
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_an_error_of_the_function_for_progress_stops_the_containers_and_is_that_of_the_run() -> None:
    run = Run(Threads([shell(STAYS.replace("ready", "up"))]))

    def wrong(_: Progress) -> None:
        raise ArithmeticError("of progress")

    with pytest.raises(ArithmeticError, match="of progress"):
        run.supervise(until="stopped", progress=wrong)
    assert run.cluster.cancelled == []  # it has ended by itself


def test_a_run_in_another_thread_is_stopped_by_its_control() -> None:
    control = RunControl()
    run = Run(Threads([shell(STAYS)]), on_ready=control.stop.request)
    reports: list[Report] = []

    def work() -> None:
        RUN_CONTROL.set(control)
        reports.append(run.supervise(until="stopped"))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(30)
    assert [report.restarts for report in reports] == [0]


def losing(order: TaskOrder) -> str:
    """A task whose machine is lost: it connects and is heard of no more."""

    async def lost() -> None:
        connection = await connect(order, "process 7 on there")
        assert connection is not None
        await connection.close()

    asyncio.run(lost())
    return ""


def test_a_task_that_is_heard_of_no_more_counts_as_killed_and_its_job_is_called_off() -> None:
    run = Run(Threads([losing, shell(ENDS)]))
    assert run.supervise().restarts == 1
    assert run.said == [
        "container 0: the connection to it has ended (process 7 on there): it counts as lost",
        "container 0 was killed by SIGKILL; it is started again in 0.2 s",
    ]
    assert run.cluster.cancelled == run.cluster.names[:1]


def twice(order: TaskOrder) -> str:
    """A task that the cluster runs again, as after the loss of an executor."""
    first = shell(ENDS)(order)
    assert first == ""
    return str(shell("echo again >&2")(order))


REPLACED = """echo up >&2; read -r config; cat; echo '{"taken_over":true}' >/dev/fd/$0; exit 4"""
"""Once its standard input ends, it tells that another has its place."""


def test_a_container_whose_task_the_cluster_takes_for_lost_stops_and_is_heard_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(remote_children, "_KILLED_SECONDS", 0.2)
    up, left = threading.Event(), list[threading.Thread]()

    def given_up(order: TaskOrder) -> str:
        left.append(threading.Thread(target=shell(REPLACED), args=(order,)))
        left[0].start()
        assert up.wait(30)
        return "another task was there before"

    run = Run(Threads([given_up, shell("sleep 0.5; exit 4"), shell(ENDS)]))
    run.say = lambda line: up.set() if line == "container 0: up" else run.said.append(line)  # type: ignore[method-assign]
    assert run.supervise().restarts == 2
    assert run.said[:2] == [
        "container 0: its task has ended: another task was there before: it counts as lost",
        "container 0 was killed by SIGKILL; it is started again in 0.2 s",
    ]
    left[0].join(30)
    assert not left[0].is_alive()


def babbling(order: TaskOrder) -> str:
    """A task that says what is no message, and goes on."""

    async def babble() -> None:
        connection = await connect(order, "process 7 on there")
        assert connection is not None
        connection._writer.write(b"{}\nno message\n")
        assert [line async for line in connection.lines()] == []
        await connection.close()

    asyncio.run(babble())
    return ""


def test_a_task_that_says_what_is_no_message_counts_as_lost() -> None:
    run = Run(Threads([babbling, shell(ENDS)]))
    assert run.supervise().restarts == 1
    assert "it counts as lost" in run.said[0]


def test_a_second_task_for_a_start_is_sent_away() -> None:
    run = Run(Threads([twice, shell(f"sleep 0.7; {ENDS}")]))
    run.supervise(containers=2)
    (again,) = [result for result in run.cluster.results if result]
    assert "another task was there before, or the run is over" in str(again)
    assert run.said == []


def test_a_task_that_does_not_come_to_its_container_is_submitted_again_with_its_reason() -> None:
    run = Run(Threads([lambda _: "no way to the driver", shell(ENDS)]))
    assert run.supervise().restarts == 1
    assert run.said[0] == "container 0: it cannot be started: no way to the driver"


def test_an_error_of_the_cluster_that_comes_again_ends_the_run() -> None:
    run = Run(Threads([lambda _: SystemProblem("no Python there"), shell(STAYS.replace("ready", "up"))]))
    with pytest.raises(SystemProblem, match="no Python there"):
        run.supervise(containers=2, until="stopped")
    assert "SIGKILL" not in "".join(run.said)  # the other one was stopped


def later(order: TaskOrder) -> str:
    """A task of a later version of Fluvial, which is sent away."""

    async def greet() -> str:
        reader, writer = await asyncio.open_connection(order.host, order.port)
        challenge = (await reader.readline()).decode().strip()
        proof = hmac.new(order.key, f"task {challenge} ours".encode(), "sha256").hexdigest()
        greeting = TaskGreeting(start=order.start, challenge="ours", proof=proof, process="there", version="99.0")
        writer.write(json.encode(greeting) + b"\n")
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        return f"answered {answer!r}"

    return asyncio.run(greet())


def test_a_connection_that_comes_as_the_run_ends_is_closed() -> None:
    """Its task is there, and is cancelled before it begins."""

    async def serve(listener: socket.socket) -> socket.socket:
        async with RemoteChildren(Threads([]), listener, "127.0.0.1", 60.0, print).serving():
            connection = socket.create_connection(listener.getsockname(), 30)
            while not any("_greet" in repr(task.get_coro()) for task in asyncio.all_tasks()):
                await asyncio.sleep(0)
        return connection

    with socket.create_server(("127.0.0.1", 0)) as listener, asyncio.run(serve(listener)) as connection:
        assert connection.recv(1) == b""


def test_a_worker_with_another_version_ends_the_run() -> None:
    run = Run(Threads([later]))
    with pytest.raises(SystemProblem) as raised:
        run.supervise()
    assert_explains(raised.value, "a worker has Fluvial 99.0", None, "one version", "on every worker")
    assert run.cluster.results == ["answered b''"]


def test_a_task_without_the_key_of_its_start_does_not_take_its_place() -> None:
    def impostor(order: TaskOrder) -> FluvialError | str:
        assert "no place" in str(shell("echo impostor >&2")(replace(order, key=b"guessed")))
        return shell(ENDS)(order)

    run = Run(Threads([impostor]))
    assert run.supervise().read == {"in": 3}
    assert run.said == []


def on_virtual_time(cluster: Threads, *, patience: float, stop_at: float | None = None) -> tuple[list[str], float]:
    """What is said of two containers that wait for a core, and when the run ends."""
    said: list[str] = []
    with asyncio.Runner(loop_factory=VirtualLoop) as runner, socket.create_server(("127.0.0.1", 0)) as listener:
        loop = runner.get_loop()
        assert isinstance(loop, VirtualLoop)
        control = RunControl()
        RUN_CONTROL.set(control)
        if stop_at is not None:
            loop.call_at(stop_at, control.stop.request)

        async def run() -> None:
            async with RemoteChildren(cluster, listener, "127.0.0.1", patience, said.append).serving() as start:
                config_of = partial(config, containers=2, until="stopped")
                await Supervisor(Pipeline("p"), 2, config_of, 3, None, said.append, start=start).run()

        try:
            loop.run_waiting(run())
        except NoProgressError as error:
            said.append(str(error))
        finally:
            RUN_CONTROL.set(None)
        return said, loop.time()


def test_containers_without_a_core_are_reported_more_and_more_seldom_until_the_run_ends() -> None:
    said, ended = on_virtual_time(Threads([never, never]), patience=60.0)
    firsts = [text.partition("\n")[0] for text in said]
    assert firsts == [
        "2 of 2 containers wait for a core, 10 s so far; the run ends after 60 s",
        "2 of 2 containers wait for a core, 20 s so far; the run ends after 60 s",
        "2 of 2 containers wait for a core, 40 s so far; the run ends after 60 s",
        "2 of 2 containers wait for a core, for 60 s; the run ends",
    ]
    assert "expected: a core for each container; it has 1 core" in said[-1]
    assert round(ended) == 60


def test_a_container_whose_task_has_a_core_is_not_said_to_wait_for_one() -> None:
    said, ended = on_virtual_time(Threads([never, starting]), patience=15.0)
    waits, starts, ends = said
    assert waits.startswith("1 of 2 containers waits for a core, 10 s so far; the run ends after 15 s\n")
    assert starts.startswith("1 of 2 containers has a core and has not started there, 10 s so far; the run ends after")
    assert "expected: a Python that starts within seconds, and can connect to 127.0.0.1:" in starts
    assert "1 of 2 containers waits for a core, for 15 s; the run ends\n" in ends
    assert "1 of 2 containers has a core and has not started there, for 15 s; the run ends\n" in ends
    assert round(ended) == 15


def test_a_run_that_is_stopped_calls_off_what_waits_for_a_core() -> None:
    cluster = Threads([never, never])
    said, ended = on_virtual_time(cluster, patience=60.0, stop_at=3.0)
    assert (said, round(ended)) == ([], 3)
    assert sorted(set(cluster.cancelled)) == sorted(cluster.names)
