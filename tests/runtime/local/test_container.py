"""A container at work: one turn reads, processes, and commits what is due by its clock."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

import pytest

from engines.local_tasks import LocalRun, local_run
from engines.targets import contents, write
from fluvial.dsl import (
    ClockTimers,
    Collector,
    Context,
    Envelope,
    KeyedProcessor,
    Limit,
    Message,
    Pipeline,
    Retry,
    StreamTask,
    TaskCoordinator,
    Timer,
)
from fluvial.dsl.errors import NoProgressError, TakenOver
from fluvial.runtime.local.background_work import Steps
from fluvial.runtime.local.commit.contract import Commits, Committed, TaskCommit
from fluvial.runtime.local.coordination.membership import Membership, MembershipGuard
from fluvial.runtime.systems import MemorySystem
from fluvial.runtime.testing.virtual_clock import VirtualLoop

WORDS = [(None, b"a", 1, ()), (None, b"b", 2, ())]


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def copying(stack: ExitStack, interval: float = 60) -> tuple[LocalRun, MemorySystem]:
    """A container that copies two partitions, and commits every so many seconds."""
    pipeline, system = Pipeline("p"), MemorySystem()
    pipeline.stream("in", value=str).send_to("out")
    write(system, {"in": [WORDS, WORDS[:1]]})
    return local_run(pipeline, system, stack, commit_interval=timedelta(seconds=interval)), system


def turns(run: LocalRun) -> None:
    """Let the container work until it has nothing to do."""
    while run.container.turn():
        pass


def test_a_turn_hands_each_partition_to_the_task_that_owns_it(stack: ExitStack) -> None:
    run, _ = copying(stack)
    turns(run)
    assert sorted(task.queues.processed for task in run.tasks) == [1, 2]
    assert run.container.report().read == {"in": 3}


def test_outputs_are_there_once_a_commit_is_due_by_the_clock(stack: ExitStack) -> None:
    run, system = copying(stack, interval=60)
    turns(run)
    assert contents(system, "out") == []
    run.clock.now = 61
    turns(run)
    assert sorted(record[1] or b"" for record in contents(system, "out")) == [b"a", b"a", b"b"]
    assert run.container.report().checkpoints == 2


def test_a_commit_is_made_when_it_is_asked_for_and_only_if_something_has_changed(stack: ExitStack) -> None:
    run, system = copying(stack)
    turns(run)
    assert run.container.commit_ready()
    assert len(contents(system, "out")) == 3
    assert not run.container.commit_ready()


def test_a_run_is_finished_at_the_ends_that_it_is_given(stack: ExitStack) -> None:
    run, system = copying(stack)
    run.container.end_at({("in", 0): 1, ("in", 1): 1})
    while not run.container.finished:
        run.container.turn()
    run.container.commit_ready()
    assert [record[1] for record in contents(system, "out")] == [b"a", b"a"]


def test_nothing_that_moves_while_there_is_work_is_a_stall(stack: ExitStack) -> None:
    run, _ = copying(stack)
    run.container.end_at({("in", 0): 9, ("in", 1): 1})
    turns(run)
    run.clock.now = 100_000
    with pytest.raises(NoProgressError, match="waits for the end of in"):
        turns(run)


class Calls:
    """Calls that last until the gate is open. `began` lists what they were made for."""

    def __init__(self, log: list[str]) -> None:
        self.began = log
        self.gate = asyncio.Event()

    async def __call__(self, word: str) -> list[str]:
        self.began.append(word)
        await self.gate.wait()
        return [word.upper()]


async def loops(times: int = 20) -> None:
    """Let the event loop go round so often."""
    for _ in range(times):
        await asyncio.sleep(0)


def called(system: MemorySystem, **written: list[Any]) -> tuple[Pipeline, Calls]:
    """A pipeline that makes a call for each of these messages."""
    pipeline, calls = Pipeline("p"), Calls([])
    pipeline.stream("in", value=str).async_flat_map(calls, id="call").send_to("out", value=str)
    write(system, written)
    return pipeline, calls


@pytest.mark.parametrize("limited", [True, False])
def test_to_wait_for_a_limit_is_no_stall(stack: ExitStack, limited: bool) -> None:
    async def main() -> None:
        pipeline, calls = Pipeline("p"), Calls([])
        limit = Limit("service", calls=1, per=timedelta(hours=9)) if limited else None
        words = pipeline.stream("in", value=str)
        words.async_flat_map(calls, id="call", limit=limit, order="none").send_to("out", value=str)
        write(system := MemorySystem(), {"in": [WORDS, WORDS]})
        run = local_run(pipeline, system, stack)
        for _ in range(9):
            run.container.turn()
            await loops()
        assert len(calls.began) == (1 if limited else 4)
        for now in (100_000, 200_000):
            run.clock.now = now
            run.container.turn()

    if limited:
        asyncio.run(main())
    else:
        with pytest.raises(NoProgressError):
            asyncio.run(main())


def test_what_tasks_share_goes_to_each_of_them_in_turn(stack: ExitStack) -> None:
    began: list[str] = []

    async def call(word: str) -> list[str]:
        began.append(word)
        return [word]

    async def main() -> None:
        pipeline, limit = Pipeline("p"), Limit("service", calls=100)
        words = pipeline.stream("in", value=str)
        words.async_flat_map(call, id="call", limit=limit, order="none").send_to("out", value=str)
        write(system := MemorySystem(), {"in": [[(None, b"a", 1, ()) for _ in range(40)], [(None, b"b", 1, ())]]})
        run = local_run(pipeline, system, stack)
        while "b" not in began:
            run.container.turn()
            await asyncio.sleep(0.001)
        stack.close()  # in the loop of its calls

    asyncio.run(main())
    assert began.index("b") < 20


def test_messages_that_land_while_a_commit_waits_for_others_are_no_stall(stack: ExitStack) -> None:
    async def main() -> None:
        ends = {word: asyncio.Event() for word in ("a", "b")}

        async def call(word: str) -> list[str]:
            await ends[word].wait()
            return [word]

        pipeline = Pipeline("p")
        pipeline.stream("in", value=str).async_flat_map(call, id="call", order="none").send_to("out", value=str)
        write(system := MemorySystem(), {"in": [WORDS]})
        run = local_run(pipeline, system, stack, guarantee="exactly_once")
        times: list[tuple[int, str | None]] = [(0, None), (200, "a"), (400, None), (600, "b"), (601, None)]
        for now, ended in times:
            run.clock.now = now
            for _ in range(3):
                run.container.turn()
                await loops()
            if ended is not None:
                ends[ended].set()
                await loops()
        assert [record[1] for record in contents(system, "out")] == [b"a", b"b"]

    asyncio.run(main())


def test_a_run_that_is_asked_to_stop_waits_for_the_calls_in_flight(stack: ExitStack) -> None:
    async def main() -> None:
        pipeline, calls = called(system := MemorySystem(), **{"in": [WORDS[:1]]})
        run = local_run(pipeline, system, stack, stop=lambda: bool(calls.began))
        running = asyncio.create_task(run.container.run())
        await loops()
        assert (calls.began, running.done()) == (["a"], False)
        calls.gate.set()
        assert (await running).written == {"out": 1}
        assert [record[1] for record in contents(system, "out")] == [b"A"]

    asyncio.run(main())


@pytest.mark.parametrize("seconds", [3, 30])
def test_calls_that_do_not_end_in_time_are_abandoned_and_made_again_by_the_next_run(
    stack: ExitStack, caplog: pytest.LogCaptureFixture, seconds: int
) -> None:
    given: dict[str, Any] = {} if seconds == 3 else {"stop_timeout": timedelta(seconds=seconds)}

    async def main() -> None:
        pipeline, calls = called(system := MemorySystem(), **{"in": [WORDS[:1]]})
        run = local_run(pipeline, system, stack, stop=lambda: bool(calls.began), **given)
        running = asyncio.create_task(run.container.run())
        await loops()
        run.clock.now = seconds
        await loops()
        assert not running.done()
        run.clock.now += 0.1
        assert (await running).written == {}
        again = local_run(pipeline, system, stack)
        again.container.turn()
        await loops()
        assert calls.began == ["a", "a"]
        calls.gate.set()
        await loops()
        again.container.turn()

    asyncio.run(main())
    assert f"in flight for {seconds} s after the request to stop are abandoned" in caplog.text


class Replaced(MembershipGuard):
    """A place that another process has taken once it `is_over`."""

    is_over = False

    def __init__(self) -> None:
        super().__init__(Membership(0, 1, 1, "run", frozenset(), None, "p-1-0"))

    def check(self, interval: float = 0.0) -> None:
        del interval
        if self.is_over:
            raise TakenOver("another process has replaced this container")


def test_a_container_that_waits_for_calls_at_its_end_notices_that_it_was_replaced(stack: ExitStack) -> None:
    async def main() -> None:
        pipeline, calls = called(system := MemorySystem(), **{"in": [WORDS[:1]]})
        guard, hour = Replaced(), timedelta(hours=1)
        run = local_run(
            pipeline, system, stack, stop=lambda: bool(calls.began), guard=guard, stop_timeout=hour, stall_timeout=hour
        )
        running = asyncio.create_task(run.container.run())
        await loops()
        guard.is_over, run.clock.now = True, 2
        try:
            with pytest.raises(TakenOver):
                await asyncio.wait_for(asyncio.shield(running), 30)
        finally:
            calls.gate.set()
        assert contents(system, "out") == []

    asyncio.run(main())


def test_a_container_that_waits_for_calls_at_its_end_rests_meanwhile(stack: ExitStack) -> None:
    asked, loop = list[int](), VirtualLoop()

    async def main() -> None:
        pipeline, calls = called(system := MemorySystem(), **{"in": [WORDS[:1]]})

        def stop() -> bool:
            asked.append(1)
            assert len(asked) < 100  # or no timer would ever be due
            return bool(calls.began)

        run = local_run(pipeline, system, stack, stop=stop)
        running = asyncio.create_task(run.container.run())
        await loop.quiet()
        assert (calls.began, running.done()) == (["a"], False)
        calls.gate.set()
        while not running.done():
            await loop.quiet()
            loop.jump()
        assert (await running).written == {"out": 1}

    loop.run_until_complete(main())
    loop.close()


def test_calls_go_on_between_the_slices_of_two_tasks_that_take_long(stack: ExitStack) -> None:
    async def main() -> None:
        pipeline, system, log = Pipeline("p"), MemorySystem(), list[str]()
        calls = Calls(log)

        def slow(word: str) -> str:
            log.append(f"slow {word}")
            run.clock.now += 1
            return word

        pipeline.stream("in", value=str).map(slow).async_flat_map(calls, id="call").send_to("out", value=str)
        write(system, {"in": [WORDS[:1], WORDS[1:]]})
        run = local_run(pipeline, system, stack, stop=lambda: len(log) == 4)
        running = asyncio.create_task(run.container.run())
        await loops()
        assert log == ["slow a", "a", "slow b", "b"]
        calls.gate.set()
        await running

    asyncio.run(main())


class Alarm(KeyedProcessor[str, str, str]):
    """Passes messages on; five seconds after each it says so."""

    clock = ClockTimers()

    def on_message(self, message: Message[str], context: Context[str]) -> Iterator[str]:
        del context
        self.clock.set(message.value, self.clock.now + 5000)
        yield message.value

    def on_timer(self, timer: Timer, context: Context[str]) -> Iterator[str]:
        del context
        yield f"{timer.name} later"


def test_no_timer_rings_while_a_commit_waits_for_calls(stack: ExitStack) -> None:
    """What it emitted would be behind the checkpoint that the commit is about to write."""

    async def main() -> None:
        pipeline, system, calls = Pipeline("p"), MemorySystem(), Calls([])
        stream = pipeline.stream("in", key=str, value=str).process(Alarm(), id="alarm")
        stream.async_flat_map(calls, id="call").send_to("out", value=str)
        write(system, {"in": [[(b"k", b"a", 1, ())]]})
        run = local_run(pipeline, system, stack, commit_interval=timedelta(seconds=1))
        run.container.turn()
        await loops()
        for now in (2, 9):  # a commit is due, and then the timer too
            run.clock.now = now
            run.container.turn()
            await loops()
        assert calls.began == ["a"]
        calls.gate.set()
        await loops()
        for _ in range(3):
            run.container.turn()
            await loops()
        assert calls.began == ["a", "a later"]
        assert run.container.report().checkpoints > 0

    asyncio.run(main())


def test_a_clock_that_was_set_back_is_warned_of(stack: ExitStack, caplog: pytest.LogCaptureFixture) -> None:
    """Timers wait until it has come there again, also behind a restart; without them nobody has to know."""
    clocked, plain = Pipeline("clocked"), Pipeline("plain")
    clocked.stream("in", key=str, value=str).process(Alarm(), id="alarm").send_to("out")
    plain.stream("in", key=str, value=str).send_to("out")
    for pipeline in (clocked, plain):
        system = MemorySystem()
        write(system, {"in": [[(b"k", b"a", 1, ())]]})
        run = local_run(pipeline, system, stack)
        for now in (10_000, 9_941, 9_940, 1_000):
            run.clock.now = now
            run.container.turn()
    assert [message.partition(":")[0] for message in caplog.messages] == [
        "this machine's clock is 60 s behind the processing time that was reached before"
    ]


class Together:
    """Commits that contain all tasks of a container. `sizes` says of how many tasks each was."""

    together = True

    def __init__(self, commits: Commits) -> None:
        self.early, self.journal = commits.early, commits.journal
        self.sizes: list[int] = []
        self.move_states, self.align, self.resume = commits.move_states, commits.align, commits.resume
        self.staged_outputs, self.trim, self.checkpoints = commits.staged_outputs, commits.trim, commits.checkpoints
        self._commits = commits

    def commit(self, commits: Sequence[TaskCommit]) -> Steps[list[Committed]]:
        self.sizes.append(len(commits))
        return self._commits.commit(commits)


def test_tasks_that_commit_together_wait_for_the_calls_of_each(stack: ExitStack) -> None:
    async def main() -> None:
        pipeline, calls = called(system := MemorySystem(), **{"in": [WORDS[:1], []]})
        commits: list[Together] = []

        def together(real: Commits) -> Commits:
            commits.append(Together(real))
            return commits[-1]

        run = local_run(pipeline, system, stack, commits_as=together, guarantee="exactly_once")
        run.container.turn()
        await loops()
        run.clock.now = 60
        run.container.turn()
        write(system, {"in": [[], WORDS[1:]]})
        run.container.turn()
        await loops()
        assert not run.container.commit_ready()
        assert (calls.began, commits[0].sizes) == (["a"], [])  # the other task begins nothing more, either
        calls.gate.set()
        for _ in range(3):
            await loops()
            run.container.turn()
        assert (calls.began, commits[0].sizes) == (["a", "b"], [2])
        assert [record[1] for record in contents(system, "out")] == [b"A"]

    asyncio.run(main())


class Leaving(StreamTask[Any, str, str]):
    """Ends the run with its first message."""

    def process(self, envelope: Envelope[Any, str], collector: Collector[str], coordinator: TaskCoordinator) -> None:
        del envelope, collector
        coordinator.shutdown()


def test_the_report_says_that_stream_tasks_have_ended_the_run(stack: ExitStack) -> None:
    pipeline, system = Pipeline("p"), MemorySystem()
    pipeline.task(Leaving, pipeline.stream("in", value=str), id="x").send_to("out", value=str)
    write(system, {"in": [WORDS]})
    run = local_run(pipeline, system, stack)
    assert not run.container.report().shut_down
    report = asyncio.run(run.container.run())
    assert (report.shut_down, report.drained, report.read) == (True, False, {"in": 1})


async def until(holds: Callable[[], bool]) -> None:
    """Let the event loop go round until something holds."""
    while not holds():
        await asyncio.sleep(0.001)


@pytest.mark.parametrize("stopped", [True, False])
def test_a_call_that_never_ends_does_not_keep_a_run_that_stream_tasks_have_ended(
    stack: ExitStack, caplog: pytest.LogCaptureFixture, *, stopped: bool
) -> None:
    asked, looks = list[bool](), list[bool]()

    def stop() -> bool:
        looks.append(bool(asked))
        return looks[-1]

    async def main() -> None:
        pipeline, calls = called(system := MemorySystem(), **{"in": [WORDS[:1]]})
        pipeline.task(Leaving, pipeline.stream("ends", value=str), id="x").send_to("ended", value=str)
        write(system, {"ends": [[]]})
        run = local_run(pipeline, system, stack, stop=stop, stall_timeout=timedelta(seconds=100))
        running = asyncio.create_task(run.container.run())
        await until(lambda: bool(calls.began))
        write(system, {"ends": [WORDS]})
        await until(lambda: run.container.shut_down)
        run.clock.now = 90
        await loops()
        if stopped:
            asked.append(True)
            await until(lambda: looks.count(True) > 1)  # the call has the whole time from the first of these on
            assert not running.done()
            run.clock.now = 200
            await running
        else:
            run.clock.now = 101
            with pytest.raises(NoProgressError, match="messages in flight"):
                await running

    asyncio.run(main())
    assert ("in flight for 3 s after the request to stop are abandoned" in caplog.text) == stopped


def test_a_call_that_waits_for_a_limit_as_stream_tasks_have_ended_the_run_is_no_stall(stack: ExitStack) -> None:
    """Nor is what waits in a task that processes nothing any more."""
    asked, looks, tries = list[bool](), list[bool](), list[str]()

    def stop() -> bool:
        looks.append(bool(asked))
        return looks[-1]

    async def failing(word: str) -> list[str]:
        tries.append(word)
        raise OSError

    async def main() -> None:
        pipeline, limit = Pipeline("p"), Limit("service", calls=1, per=timedelta(hours=9))
        words, retry = pipeline.stream("in", value=str), Retry(delay=timedelta(0))
        words.async_flat_map(failing, id="call", limit=limit, retry=retry, order="none").send_to("out", value=str)
        pipeline.task(Leaving, pipeline.stream("ends", value=str), id="x").send_to("ended", value=str)
        write(system := MemorySystem(), {"in": [WORDS[:1]], "ends": [[]]})
        run = local_run(pipeline, system, stack, stop=stop, stall_timeout=timedelta(seconds=100))
        running = asyncio.create_task(run.container.run())
        await until(lambda: bool(tries))
        write(system, {"ends": [WORDS]})
        await until(lambda: run.container.shut_down)
        for now in (90, 200):
            run.clock.now = now
            looks.clear()
            await until(lambda: len(looks) > 3 or running.done())
        asked.append(True)
        await until(lambda: looks.count(True) > 1 or running.done())
        run.clock.now = 300
        await running

    asyncio.run(main())
    assert tries == ["a"]


class Summing(StreamTask[Any, str, str]):
    """Declares no states, and sends a word at the end."""

    def process(self, envelope: Envelope[Any, str], collector: Collector[str], coordinator: TaskCoordinator) -> None:
        """Do nothing."""

    def on_end_of_stream(self, collector: Collector[str], coordinator: TaskCoordinator) -> None:
        del coordinator
        collector.send("sum")


def test_what_an_end_makes_a_stream_task_send_is_in_no_commit_before_it_has_landed(stack: ExitStack) -> None:
    """A commit says that it was sent, and the next run does not send it again."""

    async def main() -> None:
        pipeline, system, calls = Pipeline("p"), MemorySystem(), Calls([])
        summed = pipeline.task(Summing, pipeline.stream("in", value=str), id="sum", state="task")
        summed.async_flat_map(calls, id="call").send_to("out", value=str)
        write(system, {"in": [WORDS]})
        run = local_run(pipeline, system, stack)
        run.container.end_at({("in", 0): len(WORDS)})
        for now in (0, 1000, 1001):  # the last two are long after the commit interval
            run.clock.now = now
            run.container.turn()
            await loops()
            assert not run.container.commit_ready()
        assert (calls.began, run.container.report().checkpoints) == (["sum"], 0)
        calls.gate.set()
        await loops()
        turns(run)
        run.container.commit_ready()
        assert [record[1] for record in contents(system, "out")] == [b"SUM"]
        assert run.container.report().checkpoints == 1

    asyncio.run(main())
