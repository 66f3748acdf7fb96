"""Containers with standbys are killed, and stand still: how long their tasks pause, and what is doubled."""

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from msgspec import Struct

from benchmarks.elasticity.goals import Goal, Judged, median_goal
from benchmarks.elasticity.landings import Landing, longest_gap, problem, split
from benchmarks.elasticity.numbers import numbering
from benchmarks.elasticity.pipelines import Answer
from benchmarks.elasticity.programs import ScaleProblem, answers, on_kafka, program, scale, tell, until
from benchmarks.process import Running, running
from benchmarks.results import circumstances
from benchmarks.sampling import Noise
from benchmarks.topics import Topics
from fluvial.planner.task_assignment import TaskId
from fluvial.runtime.local.coordination.assignments import CoordinatorState
from fluvial.runtime.local.coordination.coordinator_stream import Coordinator
from fluvial.runtime.systems import open_system

PAUSE = 2.0
RATE, KEYS = 500, 1_000
STOOD_STILL = 3.0
"""Seconds for which a container is stopped that goes on then."""
_OPTIONS = ("--containers", "2", "--standbys", "1", "--heartbeat-timeout", "1s")
_LONGEST = 240.0
_QUIET = 4.0
"""Seconds before and after each kill."""


class Loss(Struct, frozen=True, kw_only=True):
    """A container that was killed, or stood still: its tasks, when that was in ms since epoch, and the longest time in
    which nothing of one of its tasks landed."""

    container: int
    tasks: list[int]
    at: int
    pause_ms: int = 0


class Standbys(Judged, frozen=True, kw_only=True):
    """What came of it: containers that were killed under at_least_once, and such as stood still under exactly_once,
    with the outputs that came twice then."""

    messages_per_second: int
    killed: list[Loss]
    stopped: list[Loss]
    doubled: int


def measured(topics: Topics, *, small: bool) -> Standbys:
    """Kill containers, then let some stand still."""
    kills, stops = (1, 1) if small else (10, 3)
    killed = _lost(topics, kills, "at_least_once")
    stopped = _lost(topics, stops, "exactly_once")
    return judged(
        killed.losses,
        stopped.losses,
        [killed.problem, stopped.problem],
        stopped.doubled,
        small=small,
        noise=max(killed.noise, stopped.noise),
    )


def judged(
    killed: list[Loss], stopped: list[Loss], wrong: list[str], doubled: int, *, small: bool, noise: float
) -> Standbys:
    """What the pauses come to."""
    pauses = [loss.pause_ms / 1000 for loss in killed]
    goals = [
        median_goal("longest pause of the tasks of a container that was killed", "at most", PAUSE, pauses, "s"),
        Goal(what="outputs that a container doubled that stood still", bound="at most", limit=0, measured=doubled),
    ]
    found = "; ".join(filter(None, wrong))
    return Standbys(
        **circumstances(),
        small=small,
        noise=round(noise, 2),
        output_correct=not found,
        problem=found,
        goals=goals,
        messages_per_second=RATE,
        killed=killed,
        stopped=stopped,
        doubled=doubled,
    )


def doubles(landings: list[Landing]) -> int:
    """How many landings there are more than messages."""
    return len(landings) - len({landing.number for landing in landings})


def with_pause(loss: Loss, landings: list[Landing]) -> Loss:
    """A loss, with the longest gap in any of its tasks that has begun by then and ended later."""
    of, _ = split(landings, loss.tasks)
    return Loss(container=loss.container, tasks=loss.tasks, at=loss.at, pause_ms=longest_gap(of, loss.at, loss.at + 1))


def miscounted(found: list[Answer]) -> int:
    """How many answers do not follow from the state of those before: each key is counted one by one."""
    by_key: dict[int, list[int]] = {}
    for answer in found:
        by_key.setdefault(answer.number % KEYS, []).append(answer.seen)
    return sum(later != earlier + 1 for seen in by_key.values() for earlier, later in pairwise([0, *sorted(seen)]))


@dataclass(frozen=True, slots=True)
class _Lost:
    """A run that has lost containers, and what came of it."""

    losses: list[Loss]
    doubled: int
    problem: str
    noise: float


def _lost(topics: Topics, times: int, guarantee: str) -> _Lost:
    """Lose containers so often: they are killed, or under exactly_once stand still."""
    once, source = guarantee == "exactly_once", f"counted-in-{int(time.time() * 1000)}"
    topics.create(source)
    noise = Noise()
    try:
        contender = program("counted", on_kafka, *_OPTIONS, "--guarantee", guarantee)
        with running(contender, "counted", topics, (source,), endless=True) as process:
            with numbering(topics, source, RATE, KEYS) as numbers:
                until(process, lambda: min(topics.ends(process.job.output)) > 0, "there is output", _LONGEST)
                losses = list(_losses(process, times, stop=once))
                time.sleep(_QUIET)
            until(process, lambda: _all_there(topics, process, numbers.sent), "all is processed", _LONGEST)
            others = noise.share(process.sampler)
            found = list(answers(topics, process.job.output))
    finally:
        topics.remove([source])
    landings = [landing for _, landing in found]
    wrong = problem(landings, numbers.sent, once=once)
    if once and (count := miscounted([answer for answer, _ in found])):
        wrong = f"{wrong}, {count:,} counted wrongly".removeprefix(", ")
    return _Lost([with_pause(loss, landings) for loss in losses], doubles(landings), wrong, others)


def _all_there(topics: Topics, process: Running, sent: int) -> bool:
    """Whether as many have landed as were sent. Marks of transactions count as well, so the output is read."""
    return sum(topics.ends(process.job.output)) >= sent and len(list(topics.read(process.job.output))) >= sent


def _losses(process: Running, times: int, *, stop: bool) -> Iterator[Loss]:
    """Lose one container after the other, each once tasks are even, and its next process runs."""
    coordinator = Coordinator(open_system(on_kafka(process.job)), process.job.name)
    gone = ""
    for number in range(times):
        until(process, partial(_is_even, process, coordinator, gone), "tasks are even", _LONGEST)
        time.sleep(_QUIET)
        state = coordinator.read()[0]
        presence, container = state.presences[number % 2], number % 2
        pid, gone = int(presence.process.split()[1]), presence.incarnation
        loss = Loss(container=container, tasks=_tasks_of(state, container), at=int(time.time() * 1000))
        os.kill(pid, signal.SIGSTOP if stop else signal.SIGKILL)
        if stop:
            time.sleep(STOOD_STILL)
            os.kill(pid, signal.SIGCONT)
        until(process, partial(_is_back, coordinator, container, gone), "the container is back", _LONGEST)
        tell(f"container {container} was {'stopped' if stop else 'killed'}, and is back ({number + 1} of {times})")
        yield loss


def _is_back(coordinator: Coordinator, container: int, gone: str) -> bool:
    presence = coordinator.read()[0].presences[container]
    return presence.incarnation != gone and presence.state == "running"


def _is_even(process: Running, coordinator: Coordinator, gone: str) -> bool:
    """Whether both containers run and have as many tasks each, without one that is still to move."""
    state = coordinator.read()[0]
    running = [one for one in state.presences.values() if one.state == "running" and one.incarnation != gone]
    if len(running) < 2 or len(_tasks_of(state, 0)) != len(_tasks_of(state, 1)):
        return False
    try:
        return scale(process, "counted", 2, "--dry-run") == []
    except ScaleProblem:  # a container is on its way still
        return False


def _tasks_of(state: CoordinatorState, container: int) -> list[int]:
    tasks = state.assignment.tasks if state.assignment is not None else {}
    return sorted(TaskId.parse(task).number for task, owner in tasks.items() if owner == container)
