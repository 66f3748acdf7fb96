"""Supervisor: when it starts a container again, when it ends the run, and how it stops containers. Time is virtual."""

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any, TypeVarTuple, Unpack

import pytest
from msgspec import structs

from fluvial.dsl import NoProgressError, Pipeline
from fluvial.dsl.errors import ContainerFailed
from fluvial.planner.settings import Settings
from fluvial.runtime import Progress, Report
from fluvial.runtime.containers.child_process import ChildConfig, ChildReport
from fluvial.runtime.containers.supervisor import Supervisor
from fluvial.runtime.launch import Until
from fluvial.runtime.preflight.input_streams import PARTITIONS
from fluvial.runtime.process.machine import Machine
from fluvial.runtime.systems.open import Opening
from fluvial.runtime.testing.virtual_clock import VirtualLoop

Ts = TypeVarTuple("Ts")
KILLED = -signal.SIGKILL
OUT_OF_FILES = OSError(24, "Too many open files")
OTHERS = " The others are stopped."


@dataclass(frozen=True)
class Life:
    """What a process does: it says something at once, and more after so many seconds; and it ends with `code` after
    some seconds, in the first of which it may wait for a core. Once it gets SIGTERM it ends with `stopped` after half a
    second; if that is None it does not heed it."""

    code: int = 0
    seconds: float = 1.0
    stopped: int | None = 0
    says: tuple[ChildReport | str, ...] = ()
    starts_in: float = 0.0
    waits: float = 0.0
    later: tuple[tuple[float, ChildReport], ...] = ()


UNTIL_STOPPED = Life(seconds=3600.0)


class Process:
    """A process that is none: it ends by itself, or of signals, under virtual time."""

    def __init__(self, life: Life) -> None:
        self.signals: list[int] = []
        self._life = life
        self._loop = asyncio.get_running_loop()
        self._code: asyncio.Future[int] = self._loop.create_future()
        self._begins = self._loop.time() + life.waits
        self._loop.call_later(life.seconds, self._end, life.code)

    @property
    def alive(self) -> bool:
        return not self._code.done()

    @property
    def waits(self) -> bool:
        return self.alive and self._loop.time() < self._begins

    def send_signal(self, number: signal.Signals) -> None:
        assert self.alive
        self.signals.append(number)
        if number == signal.SIGKILL:
            self._end(KILLED)
        elif self._life.stopped is not None:
            self._loop.call_later(0.5, self._end, self._life.stopped)

    async def exited(self) -> int:
        return await asyncio.shield(self._code)

    async def close(self) -> None:
        assert not self.alive

    def _end(self, code: int) -> None:
        if self.alive:
            self._code.set_result(code)


class SignalledLoop(VirtualLoop):
    """A loop of virtual time, whose signals are sent by a test."""

    def __init__(self) -> None:
        super().__init__()
        self.handlers: dict[int, Callable[[], object]] = {}

    def add_signal_handler(self, sig: int, callback: Callable[[Unpack[Ts]], object], *args: *Ts) -> None:
        self.handlers[sig] = partial(callback, *args)

    def remove_signal_handler(self, sig: int) -> bool:
        return self.handlers.pop(sig, None) is not None

    def send(self, number: signal.Signals) -> None:
        self.handlers[number]()


@dataclass
class Watched:
    """A run under a supervisor: what each container was to do, and what was seen of it."""

    lives: Mapping[int, Sequence[Life | Exception]]
    settings: Settings = field(default_factory=Settings)
    started: dict[int, list[float]] = field(default_factory=dict)
    processes: list[Process] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    progress: list[Progress] = field(default_factory=list)
    seconds: float = 0.0

    async def start(
        self, config: ChildConfig, _: str, receive: Callable[[ChildReport], None], say: Callable[[str], None]
    ) -> Process:
        loop = asyncio.get_running_loop()
        times = self.started.setdefault(config.container, [])
        life = self.lives[config.container][len(times)]
        times.append(round(loop.time(), 3))
        if isinstance(life, Exception):
            raise life
        await asyncio.sleep(life.starts_in)
        process = Process(life)
        self.processes.append(process)
        for at, told in life.later:
            loop.call_later(at, receive, told)
        for one in life.says:
            if isinstance(one, str):
                say(one)
            else:
                receive(one)
        return process

    def run(
        self,
        *,
        until: Until = "end",
        most_restarts: int = 10,
        signals: Sequence[tuple[float, signal.Signals]] = (),
        pipeline: Pipeline | None = None,
        quiet: bool = False,
        containers: int | None = None,
    ) -> Report:
        """Run until all have ended; signals come at these times. If it is quiet, nobody is told of progress. It begins
        with so many containers, by default with all."""
        with asyncio.Runner(loop_factory=SignalledLoop) as runner:
            loop = runner.get_loop()
            assert isinstance(loop, SignalledLoop)
            for when, number in signals:
                loop.call_at(when, loop.send, number)
            supervisor = Supervisor(
                pipeline or Pipeline("p"),
                len(self.lives) if containers is None else containers,
                lambda number: structs.replace(config(number, len(self.lives), until), settings=self.settings),
                most_restarts,
                None if quiet else self.progress.append,
                self.said.append,
                Machine(clock=loop.time),
                self.start,
            )
            try:
                return runner.run(jumping(loop, supervisor.run()))
            finally:
                self.seconds = round(loop.time(), 3)
                assert loop.handlers == {}
                assert not any(process.alive for process in self.processes)


async def jumping(loop: VirtualLoop, running: Awaitable[Report]) -> Report:
    """Await something, and let the time jump whenever nothing else is to be done."""
    task = asyncio.ensure_future(running)
    while True:
        await loop.quiet()
        if task.done():
            return await task
        assert loop.jump(7200.0), "nothing ends the run"


def config(container: int, containers: int, until: Until) -> ChildConfig:
    opening, run = Opening(url="log:there"), "run"
    return ChildConfig(
        target="p.py", system=opening, settings=Settings(), until=until, container=container, containers=containers,
        run=run,
    )  # fmt: skip


def of(*lives: Life | Exception) -> Watched:
    """A run of one container, whose processes are given."""
    return Watched({0: lives})


def beside(*lives: Life | Exception) -> Watched:
    """The same beside container 1, which runs until it is stopped."""
    return Watched({0: lives, 1: [UNTIL_STOPPED]})


def report(read: int, **others: Any) -> ChildReport:
    return ChildReport(report=Report(pipeline="p", engine="local", seconds=9.0, read={"in": read}, **others))


def so_far(read: int, **others: Any) -> ChildReport:
    return ChildReport(progress=Progress(phase="running", seconds=1.0, read=read, written=2 * read, **others))


def failure(watched: Watched, **how: Any) -> tuple[str, int]:
    """The error that ends a run, and its exit code."""
    with pytest.raises(ContainerFailed) as raised:
        watched.run(**how)
    return str(raised.value), raised.value.exit_code


def test_the_report_is_the_sum_of_all_once_the_last_has_ended() -> None:
    watched = Watched({0: [Life(seconds=2.0, says=(report(1),))], 1: [Life(seconds=5.0, says=(report(2),))]})
    assert watched.run() == Report(pipeline="p", engine="local", seconds=5.0, read={"in": 3})
    assert (watched.started, watched.said) == ({0: [0.0], 1: [0.0]}, [])


@pytest.mark.parametrize(
    ("death", "words"),
    [
        (Life(code=4), "ended with exit code 4"),
        (Life(code=6), "ended with exit code 6"),
        (Life(code=KILLED), "was killed by SIGKILL"),
        (Life(code=-signal.SIGSEGV), "was killed by SIGSEGV"),
    ],
)
def test_a_container_that_died_is_started_again_after_growing_pauses(death: Life, words: str) -> None:
    watched = of(death, death, death, Life(says=(report(1),)))
    found = watched.run()
    assert watched.started == {0: [0.0, 1.2, 2.6, 4.4]}  # each lived for a second
    assert watched.said == [f"container 0 {words}; it is started again in {pause} s" for pause in (0.2, 0.4, 0.8)]
    assert (found.restarts, found.read) == (3, {"in": 1})


@pytest.mark.parametrize("phase", ["restoring", ""])
def test_the_time_in_which_a_container_waits_or_starts_is_no_part_of_its_work(phase: str) -> None:
    starting = ChildReport(progress=Progress(phase=phase, seconds=1.0, read=0, written=0))
    watched = beside(*[Life(code=4, seconds=400.0, waits=300.0, says=(starting,))] * 3)
    assert failure(watched, most_restarts=2)[0].startswith("container 0 has died too often")
    assert [said.rpartition(" in ")[2] for said in watched.said] == ["0.2 s", "0.4 s"]


def test_deaths_with_long_work_between_them_do_not_add_up() -> None:
    watched = of(*[Life(code=4, seconds=400.0, says=(so_far(1),))] * 5, Life())
    assert watched.run(most_restarts=2).restarts == 5
    assert [said.rpartition(" in ")[2] for said in watched.said] == ["0.2 s"] * 5


def test_a_container_that_cannot_be_started_is_tried_again_and_its_user_told_what_to_do() -> None:
    watched = of(OUT_OF_FILES, Life())
    assert watched.run().restarts == 1
    cannot, again = watched.said
    assert cannot.startswith("container 0 cannot be started: [Errno 24] Too many open files\n  to do: ")
    assert "ulimit -n" in cannot
    assert again == "container 0 ended with exit code 4; it is started again in 0.2 s"
    unknown = of(OSError("odd"), Life())
    unknown.run()
    assert unknown.said[0] == "container 0 cannot be started: odd\n  to do: check the machine"


def test_a_container_that_ends_before_its_time_is_started_again() -> None:
    watched = of(Life(), UNTIL_STOPPED)
    assert watched.run(until="stopped", signals=[(9.0, signal.SIGTERM)]).restarts == 1
    assert watched.said == ["container 0 ended with exit code 0; it is started again in 0.2 s"]


def test_a_container_that_its_stream_tasks_have_shut_down_is_not_started_again_and_the_others_run_on() -> None:
    shut = ChildReport(report=Report(pipeline="p", engine="local", seconds=1.0, read={"in": 1}, shut_down=True))
    watched = beside(Life(says=(shut,)))
    found = watched.run(until="stopped", signals=[(9.0, signal.SIGTERM)])
    assert (found.restarts, found.shut_down, found.read) == (0, True, {"in": 1})
    assert (watched.started, watched.said, watched.seconds) == ({0: [0.0], 1: [0.0]}, [], 9.5)


@pytest.mark.parametrize(
    ("death", "code"),
    [(Life(code=4), 4), (Life(code=6), 6), (Life(code=KILLED), 137), (OUT_OF_FILES, 4), (Life(code=0), 4)],
)
def test_the_last_restart_gives_the_run_its_exit_code_and_stops_the_others(death: Life | Exception, code: int) -> None:
    watched = beside(death, death, death)
    assert failure(watched, most_restarts=2, until="stopped") == (
        f"container 0 has died too often, which ends the run.{OTHERS}",
        code,
    )
    assert len(watched.started[0]) == 3
    assert watched.processes[0 if death is OUT_OF_FILES else 1].signals == [signal.SIGTERM]


def test_what_a_restart_cannot_help_ends_the_run_at_once() -> None:
    watched = beside(Life(code=5))
    assert failure(watched) == (f"container 0 ended with exit code 5, which ends the run.{OTHERS}", 5)
    assert (watched.started[0], watched.seconds) == ([0.0], 1.5)  # the other one takes half a second
    assert failure(of(Life(code=5)))[0] == "container 0 ended with exit code 5, which ends the run."


def test_a_container_whose_place_another_process_took_is_not_started_again() -> None:
    watched = of(Life(code=4, says=(ChildReport(taken_over=True),)))
    assert failure(watched) == ("container 0 ended with exit code 4, which ends the run.", 4)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("code", [0, 143, -signal.SIGTERM])
def test_a_signal_stops_all_containers_and_is_no_failure(number: signal.Signals, code: int) -> None:
    watched = Watched({at: [Life(seconds=99.0, stopped=code, says=(report(1),))] for at in range(2)})
    assert watched.run(until="stopped", signals=[(3.0, number)]).read == {"in": 2}
    assert [process.signals for process in watched.processes] == [[signal.SIGTERM]] * 2
    assert (watched.seconds, watched.said) == (3.5, [])


def test_an_error_of_a_container_as_it_is_stopped_is_reported() -> None:
    watched = Watched({0: [Life(seconds=9.0, stopped=5)], 1: [Life(seconds=9.0, stopped=4)]})
    words, code = failure(watched, signals=[(1.0, signal.SIGTERM)])
    assert words == f"container 0 ended with exit code 5 as it was stopped, which ends the run.{OTHERS}"
    assert code == 5  # of the first one that has failed


def test_a_container_that_does_not_heed_sigterm_is_killed_after_its_time() -> None:
    watched = Watched({0: [Life(seconds=99.0, stopped=None)], 1: [UNTIL_STOPPED]})
    assert watched.run(until="stopped", signals=[(1.0, signal.SIGTERM)]).restarts == 0
    assert [process.signals for process in watched.processes] == [[signal.SIGTERM, signal.SIGKILL], [signal.SIGTERM]]
    assert watched.said == ["container 0 did not stop within 8 s, and is killed"]
    assert watched.seconds == 9.0


def test_it_has_more_time_where_its_calls_may_take_longer() -> None:
    patient = Settings(stop_timeout=timedelta(seconds=60))
    watched = Watched({0: [Life(seconds=99.0, stopped=None)]}, patient)
    watched.run(until="stopped", signals=[(1.0, signal.SIGTERM)])
    assert watched.said == ["container 0 did not stop within 65 s, and is killed"]
    assert watched.seconds == 66.0


@pytest.mark.parametrize(
    ("times", "passed_on"),
    [
        ((1.0, 1.4), [signal.SIGTERM]),
        ((1.0, 2.0), [signal.SIGTERM, signal.SIGTERM]),
        ((1.0, 2.0, 3.0), [signal.SIGTERM, signal.SIGTERM, signal.SIGKILL]),
    ],
    ids=["the same one", "again", "at once"],
)
def test_the_second_signal_is_passed_on_and_the_third_kills(times: Sequence[float], passed_on: list[int]) -> None:
    watched = of(Life(code=0, seconds=5.0, stopped=None))
    watched.run(signals=[(time, signal.SIGINT) for time in times])
    assert watched.processes[0].signals == passed_on
    assert watched.seconds == (3.0 if signal.SIGKILL in passed_on else 5.0)


def test_a_container_that_waits_for_its_restart_is_not_started_after_a_signal() -> None:
    watched = beside(Life(code=4))
    watched.run(until="stopped", signals=[(1.1, signal.SIGTERM)])
    assert (watched.started[0], watched.seconds) == ([0.0], 1.6)


def test_a_process_that_starts_as_the_run_is_stopped_gets_the_signal_then() -> None:
    watched = of(Life(seconds=99.0, starts_in=2.0))
    watched.run(until="stopped", signals=[(1.0, signal.SIGTERM)])
    assert (watched.processes[0].signals, watched.seconds) == ([signal.SIGTERM], 2.5)


def test_a_mistake_of_the_supervisor_leaves_no_container_behind() -> None:
    watched = Watched({0: [UNTIL_STOPPED], 1: [Life(code=4), ValueError("a mistake")]})
    with pytest.raises(ValueError, match="a mistake"):
        watched.run()
    assert watched.processes[0].signals == [signal.SIGKILL]


def test_lines_carry_the_number_of_their_container() -> None:
    watched = Watched({0: [Life(says=("here",))], 1: [Life(says=("there", "gone"))]})
    watched.run()
    assert watched.said == ["container 0: here", "container 1: there", "container 1: gone"]


def test_progress_counts_what_processes_did_that_died() -> None:
    died = Life(code=4, says=(so_far(5, keyless={"t": 1}),))
    watched = Watched({0: [died, Life(seconds=3.0, says=(so_far(2),))], 1: [Life(says=(so_far(1),), seconds=9.0)]})
    watched.run(pipeline=table("t"))
    by_time = {round(one.seconds): one for one in watched.progress}
    assert (by_time[2].read, by_time[2].written, by_time[2].keyless) == (8, 16, {"t": 1})
    assert (by_time[2].phase, by_time[5].phase) == ("2 of 2 containers", "1 of 2 containers")


def test_progress_counts_the_containers_that_have_begun() -> None:
    watched = Watched({0: [Life(seconds=9.0)], 1: [Life(seconds=9.0, waits=3.5)]})
    watched.run()
    assert [one.phase for one in watched.progress[2:5]] == ["1 of 2 containers"] + ["2 of 2 containers"] * 2


def test_what_starts_containers_may_give_up_which_stops_the_others() -> None:
    watched = beside(Life(code=4), NoProgressError("no core"))
    with pytest.raises(NoProgressError, match="no core"):
        watched.run(until="stopped")
    assert watched.processes[1].signals == [signal.SIGTERM]
    assert len(watched.started[0]) == 2


def table(name: str) -> Pipeline:
    pipeline = Pipeline("p")
    rows = pipeline.table(name, key=str, value=str)
    pipeline.stream("in", key=str, value=str).send_to(rows)
    return pipeline


def test_rows_without_keys_are_warned_of_once_while_the_run_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    says = (so_far(9, keyless={"t": 3}),)
    watched = Watched({at: [Life(seconds=5.0, says=says)] for at in range(2)})
    watched.run(pipeline=table("t"), quiet=True)
    assert [one.name for one in caplog.records] == ["fluvial.tables"]
    assert "messages without a key, 6 by now" in caplog.text


def test_a_warning_of_several_containers_is_logged_once_and_is_in_the_report(
    caplog: pytest.LogCaptureFixture,
) -> None:
    both = {"times of 'in'": "too early", f"{PARTITIONS}'in'": "more"}
    early = so_far(1, warnings=both)
    last = report(1, warnings=both)
    watched = Watched({0: [Life(code=4, says=(early,)), Life()], 1: [Life(says=(early, last))]})
    assert watched.run().warnings == both  # though the process that told of it first has died
    logged = [(one.name, one.getMessage()) for one in caplog.records]
    assert logged == [("fluvial.times", "too early"), ("fluvial.streams", "more")]


def test_outside_of_the_main_thread_a_run_handles_no_signals() -> None:
    watched = of(Life(says=(report(1),)))
    found: list[Report] = []
    thread = threading.Thread(target=lambda: found.append(watched.run()))
    thread.start()
    thread.join()
    assert [one.read for one in found] == [{"in": 1}]


class Talking(Watched):
    """Containers that print a line for each of their starts, and more than an error has room for."""

    async def start(
        self, config: ChildConfig, _: str, receive: Callable[[ChildReport], None], say: Callable[[str], None]
    ) -> Process:
        process = await super().start(config, _, receive, say)
        for number in range(20):
            say(f"start {len(self.started[config.container])}, line {number}")
        return process


def test_the_error_of_a_container_has_what_it_said_last() -> None:
    with pytest.raises(ContainerFailed) as raised:
        Talking({0: [Life(seconds=1.0, code=4), Life(seconds=1.0, code=5)]}).run()
    assert str(raised.value) == "container 0 ended with exit code 5, which ends the run."
    (note,) = raised.value.__notes__
    first, *said = note.splitlines()
    assert first == "container 0 said last:"
    assert said == [f"  start 2, line {number}" for number in range(8, 20)]


def scaled(at: float, generation: int, containers: int) -> tuple[float, ChildReport]:
    """What a container tells once it has seen a change of their number."""
    return at, so_far(1, generation=generation, containers=containers)


def test_a_run_that_is_scaled_gets_the_containers_that_are_missing() -> None:
    first = Life(seconds=3600.0, later=(scaled(1.0, 1, 1), scaled(5.0, 2, 3), scaled(9.0, 2, 3)))
    watched = Watched({0: [first], 1: [UNTIL_STOPPED], 2: [UNTIL_STOPPED]})
    watched.run(until="stopped", containers=1, signals=[(20.0, signal.SIGTERM)])
    assert watched.started == {0: [0.0], 1: [5.0], 2: [5.0]}
    assert watched.said == ["the run has 3 containers from now on, in place of 1"]
    assert watched.progress[10].phase == "3 of 3 containers"


def test_a_container_that_is_too_many_is_not_started_again_once_it_has_ended() -> None:
    first = Life(seconds=3600.0, later=(scaled(1.0, 1, 2), scaled(5.0, 2, 1)))
    watched = Watched({0: [first], 1: [Life(seconds=7.0)]})
    watched.run(until="stopped", signals=[(20.0, signal.SIGTERM)])
    assert watched.started == {0: [0.0], 1: [0.0]}


def test_one_that_dies_while_it_gives_its_tasks_away_is_started_again() -> None:
    first = Life(seconds=3600.0, later=(scaled(1.0, 1, 2), scaled(5.0, 2, 1)))
    watched = Watched({0: [first], 1: [Life(seconds=6.0, code=KILLED), Life(seconds=2.0)]})
    watched.run(until="stopped", signals=[(20.0, signal.SIGTERM)])
    assert watched.started == {0: [0.0], 1: [0.0, 6.2]}


def test_one_that_has_ended_is_started_again_where_the_run_gets_more_once_more() -> None:
    first = Life(seconds=3600.0, later=(scaled(1.0, 1, 2), scaled(2.0, 2, 1), scaled(9.0, 3, 2)))
    watched = Watched({0: [first], 1: [Life(seconds=5.0), UNTIL_STOPPED]})
    watched.run(until="stopped", signals=[(20.0, signal.SIGTERM)])
    assert watched.started == {0: [0.0], 1: [0.0, 9.0]}


def test_what_a_container_tells_of_an_earlier_number_does_not_count() -> None:
    """It has not seen the change yet that another has seen."""
    first = Life(seconds=3600.0, later=(scaled(1.0, 1, 1), scaled(5.0, 2, 2)))
    second = Life(seconds=3600.0, later=(scaled(1.0, 1, 1),))
    watched = Watched({0: [first], 1: [second]})
    watched.run(until="stopped", containers=1, signals=[(20.0, signal.SIGTERM)])
    assert watched.started == {0: [0.0], 1: [5.0]}


def test_of_a_container_that_has_left_the_counts_stay_and_no_watermark() -> None:
    def at(number: int, watermark: int, generation: int, containers: int) -> ChildReport:
        counts = Progress(phase="running", seconds=1.0, read=number, written=number, lag=0, watermark=watermark)
        return ChildReport(progress=structs.replace(counts, generation=generation, containers=containers))

    stays = Life(seconds=3600.0, says=(at(1, 100, 1, 2),))
    leaves = Life(seconds=5.0, says=(at(10, 50, 2, 1),))
    watched = Watched({0: [stays], 1: [leaves]})
    watched.run(until="stopped", signals=[(9.0, signal.SIGTERM)])
    first, last = watched.progress[0], watched.progress[-1]
    assert (first.read, first.lag, first.watermark) == (11, 0, 50)
    assert (last.read, last.lag, last.watermark) == (11, 0, 100)


def test_what_a_container_counted_before_it_left_is_not_lost_when_it_comes_back() -> None:
    def at(read: int, generation: int, containers: int) -> ChildReport:
        counts = Progress(phase="running", seconds=1.0, read=read, written=0, lag=0)
        return ChildReport(progress=structs.replace(counts, generation=generation, containers=containers))

    dies = Life(code=4, seconds=8.0, says=(at(1, 1, 2),))
    leaves = Life(seconds=5.0, says=(at(10, 2, 1),))
    again = Life(seconds=3600.0, says=(at(0, 3, 2),))  # the change that it tells of brings the other one back
    watched = Watched({0: [dies, again], 1: [leaves, again]})
    watched.run(until="stopped", signals=[(20.0, signal.SIGTERM)])
    assert {progress.read for progress in watched.progress[1:]} == {11}
