"""Containers of one run in one thread, on a system in memory that records are sent to: a test says which takes a turn,
which dies and is started again, and how many there are to be."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from datetime import timedelta
from functools import partial
from itertools import count as counter
from shutil import rmtree
from typing import Any
from unittest.mock import patch

from msgspec import structs

from engines.namespaces import Namespace
from engines.sending import ProducingSystem
from fluvial.dsl import Pipeline, SystemProblem, count, unbounded
from fluvial.planner import Settings
from fluvial.planner.plan import Plan
from fluvial.planner.task_assignment import stages_of, stages_with
from fluvial.runtime.kernel.calls.cancellation import CallLoop
from fluvial.runtime.launch import checked_plan
from fluvial.runtime.local import engine, open_tasks
from fluvial.runtime.local.background_work import run_steps_in_threads
from fluvial.runtime.local.checkpoints.checkpoint import checkpoints_in
from fluvial.runtime.local.checkpoints.rescaled import plan_before
from fluvial.runtime.local.container import Container
from fluvial.runtime.local.coordination.assignments import Assignment, CoordinatorState, scaled
from fluvial.runtime.local.coordination.coordinator_stream import Coordinator
from fluvial.runtime.local.coordination.membership import ContainerId, begin_run
from fluvial.runtime.local.handover import task_merges, warm_up
from fluvial.runtime.local.handover.fail_over import fail_over
from fluvial.runtime.local.handover.owners import owners_of, unsettled
from fluvial.runtime.local.handover.run_plan import plan_of_run
from fluvial.runtime.local.handover.warm_up import WarmUp
from fluvial.runtime.local.stores.task_stores import state_folder
from fluvial.runtime.preflight import input_streams
from fluvial.runtime.process.machine import THIS_MACHINE, Machine
from fluvial.runtime.systems import end_offsets

QUIET_TURNS = 25
"""So many turns of all containers in which nothing moves mean that nothing is left to do."""
PATIENT_QUIET_TURNS = 6
"""So many do where containers wait in each turn for what is on its way."""
MOST_TURNS = 20_000
MOST_TURNS_TO_HEAR = 50


def counting() -> Pipeline:
    """Counts the messages of each key, and writes the counts at the end."""
    pipeline = Pipeline("p")
    counted = pipeline.stream("in", value=str, key=str).window(unbounded(), count(), id="n")
    counted.map(lambda pane: f"{pane.key} {pane.value}").send_to("out", value=str)
    return pipeline


def in_haste(times: float = 10.0) -> Machine:
    """A machine whose clock goes so many times as fast, for systems that take time."""
    return replace(THIS_MACHINE, clock=lambda: THIS_MACHINE.clock() * times)


def rushing() -> Machine:
    """A machine on which every look at the clock is a minute later: whatever is done at times is done at each turn."""
    looks = counter()
    return replace(THIS_MACHINE, clock=lambda: next(looks) * 60.0, sleep=lambda _: None)


class LiveContainers:
    """Containers of a run until it is stopped. With 0 of them no run has begun yet."""

    def __init__(
        self,
        system: ProducingSystem | Namespace,
        pipeline: Pipeline,
        containers: int,
        settings: Settings,
        machine: Callable[[], Machine] = rushing,
        patience: float = 0.0,
    ) -> None:
        """In each turn a container waits so many seconds for records: its `patience`."""
        self.system: Any = system  # tests look into those in memory
        self._machine, self._patience = machine, patience
        self._quiet_turns = QUIET_TURNS if patience == 0.0 else PATIENT_QUIET_TURNS
        self.pipeline = pipeline
        self.settings = structs.replace(settings, commit_interval=timedelta(0), stall_timeout=timedelta(days=9_999))
        self.plan: Plan = checked_plan(pipeline, system, self.settings)
        self.run = begin_run(self.plan, system, containers, "stopped") if containers else ""
        self.containers = containers
        self.wall: Callable[[], int] = THIS_MACHINE.wall
        self.alive: dict[int, tuple[Container, ExitStack, CallLoop]] = {}
        self.grown = False
        self.standing: set[int] = set()
        """Those that take no turn, since their processes are paused."""
        self.suspected: set[int] = set()
        """Those that were taken for dead: what they write is refused, and they die of that."""

    def machine(self) -> Machine:
        """A machine for one container, with the time of day that the test has."""
        return replace(self._machine(), wall=self.wall)

    def grow(self, stream: str, partitions: int) -> None:
        """Give an input more partitions; those that are alive hear of it."""
        self.system.grow(stream, partitions)
        self.grown = True
        for _ in range(MOST_TURNS_TO_HEAR):
            running = sorted(self.alive.keys() - self.standing - self.ended.keys())
            if all(self._reads(number, stream, partitions) for number in running):
                return
            for number in running:
                self.turn(number)
        raise AssertionError("not all have heard of it")

    def _reads(self, number: int, stream: str, partitions: int) -> bool:
        """Whether a container knows that a stream has so many partitions, and has committed that its tasks do."""
        container, _, _ = self.alive[number]
        assert container._growth is not None
        known = container._growth._plan.stream(stream).partitions >= partitions
        return known and all(
            not task.reopens and task.checkpoint.offsets.keys() >= task.setup.partitions.keys()
            for task in container._tasks
        )

    @property
    def ended(self) -> Mapping[int, Container]:
        return {number: one for number, (one, _, _) in self.alive.items() if one._is_over()}

    def join(self, number: int) -> None:
        """Start a container that nobody supervises, and that knows no more than its number."""
        self.start(number, ContainerId(number, 0))
        self.containers = max(self.containers, number + 1)

    def start(self, number: int, id: ContainerId | None = None, meanwhile: Callable[[], object] = lambda: None) -> None:
        """Start a container, in place of one that is alive. What happens `meanwhile` does so once it has read which
        elasticity the run has."""
        self.kill(number)
        self.suspected.discard(number)
        stack, loop = ExitStack(), CallLoop()
        id = id or ContainerId(number, self.containers, self.run)
        if self.grown:
            self.plan = checked_plan(self.pipeline, self.system, self.settings)
        plan = plan_of_run(self.plan, self.system, id, "stopped", self.machine()) or self.plan
        setup = engine.ContainerSetup(
            plan, self.system, self.settings, "stopped", self.machine(), lambda: False, loop, stack
        )
        meanwhile()
        container = engine._prepare(setup, id, None, None)
        assert container is not None
        self.alive[number] = container, stack, loop
        container.start()

    def kill(self, number: int) -> None:
        """Let a container die: what it has not committed is lost, and its store may be behind."""
        if number in self.alive:
            container, stack, _ = self.alive.pop(number)
            if container._moves is not None:
                container._moves.close()
            for task in container._tasks:
                task.close()
            stack.close()

    def stop(self, number: int) -> None:
        """Let a container end as one that is asked to stop: it waits for its calls, and commits."""
        if number in self.alive and number not in self.standing:
            container, _, loop = self.alive[number]
            try:
                loop.run(container._finish())
            except SystemProblem:
                if number not in self.suspected:
                    raise
        self.kill(number)

    def commit(self, number: int) -> None:
        """Let a container commit what need not wait for calls."""
        if number in self.alive and number not in self.standing:
            self._survive(number, self.alive[number][0].commit_ready)

    def commit_every(self, interval: timedelta) -> None:
        """Let containers commit so often from now on, those that are alive too."""
        self.settings = structs.replace(self.settings, commit_interval=interval)
        for container, _, _ in self.alive.values():
            container._interval = interval.total_seconds()
            container._next_commit = {task: container._clock() + container._interval for task in container._next_commit}

    def begin_again(self, containers: int, elasticity: int, *, stops: bool) -> None:
        """End the run, by a stop or a crash of all its containers, and begin one with so many of another elasticity.
        Tasks that cannot be merged yet keep theirs, as a user would have to let them."""
        for number in [*self.alive]:
            if stops:
                self.stop(number)
            else:
                self.kill(number)
        self.suspected.clear()
        try:
            self._change(elasticity)
        except SystemProblem as problem:
            if "cannot be merged" not in str(problem):
                raise
            before = plan_before(self.plan, checkpoints_in(self.system, self.plan.name))
            self._change({stage: tasks.elasticity for stage, tasks in stages_of(before).items()})
        self.containers = containers
        self.run = begin_run(self.plan, self.system, containers, "stopped")
        for number in range(containers):
            self.start(number)

    def _change(self, elasticity: int | dict[str, int]) -> None:
        """Let the tasks have another elasticity, while no container runs."""
        self.settings = structs.replace(self.settings, elasticity=elasticity)
        self.plan = checked_plan(self.pipeline, self.system, self.settings)
        engine.change_elasticity(self.plan, self.system, self.settings, "stopped", self.machine())

    def is_moving(self, number: int) -> bool:
        """Whether a container waits for tasks to be where they are to be."""
        moves = self.alive[number][0]._moves
        return moves is not None and moves.moving

    def tasks_of(self, number: int) -> list[str]:
        """The tasks that a container runs."""
        return [task.name for task in self.alive[number][0]._tasks]

    def lose_store(self, number: int) -> None:
        """Lose the stores of a container that is dead."""
        if number in self.alive:
            return
        if isinstance(self.system, ProducingSystem):
            gone = [name for name in self.system.stores if name.startswith(f"{number}:")]
            for name in gone:
                del self.system.stores[name]
        elif (folder := state_folder(self.plan, self.system, self.settings, number)) is not None:
            rmtree(folder, ignore_errors=True)

    def turn(self, number: int) -> bool:
        """Let a container take a turn; whether it had anything to do. One that is over has ended, and is started again
        where it is one too many no longer."""
        if number not in self.alive or number in self.standing:
            return False
        container, _, loop = self.alive[number]
        if container._is_over():
            if number < self.containers:
                self.start(number)
            return False
        return self._survive(number, lambda: loop.run(_turn(container, self._patience)))

    def _survive(self, number: int, work: Callable[[], bool]) -> bool:
        """Let a container work. One that was taken for dead dies of it."""
        try:
            return work()
        except SystemProblem:
            if number not in self.suspected:
                raise
            self.kill(number)
            if number < self.containers:  # whoever has started it starts it again
                self.start(number)
            return True

    def suspect(self, number: int) -> None:
        """Let others take a container for dead, which it may be or not, and take its tasks over."""
        others = self.alive.keys() - {number}
        if not self.run:
            return
        taken = fail_over(self.plan, self.system, self._assignment().run, number, others, 1, self.machine())
        # One that has no tasks yet is gone, too, where it was to get some.
        if taken or number in Coordinator(self.system, self.plan.name, self.machine()).read()[0].gone:
            self.suspected.add(number)

    def scale(self, containers: int, elasticity: int | None = None) -> None:
        """Decide that there are so many containers from now on, and maybe another elasticity."""

        def decide(state: CoordinatorState) -> object:
            assert state.assignment is not None
            owners = owners_of(state.assignment, checkpoints_in(self.system, self.plan.name))
            stages = stages_with(state.assignment.tasks)
            if elasticity is not None:
                settings = structs.replace(self.settings, elasticity=elasticity)
                stages = stages_of(checked_plan(self.pipeline, self.system, settings))
            return scaled(state, stages, containers, owners)

        with Coordinator(self.system, self.plan.name, self.machine()).decided(decide):  # type: ignore[arg-type]
            self.containers = containers

    @property
    def elasticity(self) -> dict[str, int]:
        """The elasticity that each stage has in the end."""
        return {stage: tasks.elasticity for stage, tasks in stages_with(self._assignment().tasks).items()}

    @property
    def settled(self) -> bool:
        """Whether each task is with its container."""
        return not unsettled(self._assignment(), self._owners())

    def _assignment(self) -> Assignment:
        assignment = Coordinator(self.system, self.plan.name, self.machine()).read()[0].assignment
        assert assignment is not None
        return assignment

    def _owners(self) -> Mapping[str, int]:
        """The container that has each task, also one that is dead."""
        return owners_of(self._assignment(), checkpoints_in(self.system, self.plan.name))

    def finish(self) -> None:
        """Start those that are missing, let all run until nothing is left to do, and die."""
        for number in {*range(self.containers), *self._owners().values()} - self.alive.keys():
            self.start(number)
        self.rest()
        assert all(number < self.containers or not self.tasks_of(number) for number in self.alive)
        self.close()

    def rest(self) -> None:
        """Let all that are alive run until nothing is left to do."""
        quiet = 0
        for _ in range(MOST_TURNS):
            moved = [self.turn(number) for number in sorted(self.alive)]
            quiet = 0 if any(moved) else quiet + 1
            if quiet > self._quiet_turns:
                if self.settled:
                    return
                quiet = 0
        raise AssertionError("it never came to rest")

    def close(self) -> None:
        """Let all containers die."""
        for number in [*self.alive]:
            self.kill(number)


async def _turn(container: Container, patience: float) -> bool:
    """A turn, and what calls do meanwhile."""
    moved = await run_steps_in_threads(container._turn(patience), container._calling)
    for _ in range(3):
        await asyncio.sleep(0)
    return moved or container._calling()


class _AtOnce:
    """A thread that has done its work as soon as it is started."""

    def __init__(self, target: Callable[..., None], args: tuple[Any, ...] = (), **_: object) -> None:
        self._do = partial(target, *args)

    def start(self) -> None:
        self._do()

    def is_alive(self) -> bool:
        return False

    def join(self, seconds: float | None = None) -> None:
        del seconds


@contextmanager
def in_one_thread(system: ProducingSystem) -> Iterator[None]:
    """Let containers restore tasks in their own turns, and have stores of their own in the system."""
    take = WarmUp.take

    def turn_and_take(warming: WarmUp) -> object:
        if system.restores and not warming.settled:
            warming.turn()
        return take(warming)

    with (
        patch.object(open_tasks, "store_for", lambda _, task, *rest: system.store(f"{rest[2]}:{task}")),
        patch.object(warm_up, "POLL_SECONDS", 0.0),
        patch.object(warm_up, "READY_SECONDS", float("inf")),  # by a clock that rushes every restore takes long
        patch.object(WarmUp, "start", lambda _: None),
        patch.object(WarmUp, "take", turn_and_take),
        patch.object(engine, "reduced_gc", nullcontext),
        patch.object(task_merges, "AGAIN_SECONDS", 3_600.0),  # by that clock tasks would have no turn in between
        patch.object(input_streams, "Thread", _AtOnce),
        patch.object(end_offsets, "Thread", _AtOnce),
    ):
        yield
