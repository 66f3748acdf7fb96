"""Tasks with a large state move to a container that is added, and back, while messages come: how long each takes."""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from benchmarks.elasticity.curves import Curve, Panel, drawn
from benchmarks.elasticity.goals import Goal, Judged, median_goal
from benchmarks.elasticity.landings import Landing, Second, between, by_second, longest_gap, percentile, problem, split
from benchmarks.elasticity.numbers import fill, numbering
from benchmarks.elasticity.pipelines import KEPT
from benchmarks.elasticity.programs import landings_of, on_kafka, program, scale, tasks_moved, tell, until
from benchmarks.process import Running, running
from benchmarks.results import circumstances
from benchmarks.sampling import Noise, use_of
from benchmarks.topics import Topics

PAUSE, TIMES_AS_LONG = 1.0, 2.0
RATE = 500
_SETTLE = 12.0
"""Seconds after a start or a change that are measured as no part of anything: two commits and what follows them."""
_LONGEST = 900.0


class Size(Struct, frozen=True, kw_only=True):
    """How many keys have state, how often tasks are moved there and back, and for how long nothing changes before."""

    keys: int
    rounds: int
    quiet: float


FULL, SMALL = Size(keys=1_000_000, rounds=5, quiet=15.0), Size(keys=4_000, rounds=1, quiet=3.0)


class Change(Struct, frozen=True, kw_only=True):
    """A change of the number of containers, between two times in ms since epoch, and the tasks that moved."""

    containers: int
    first: int
    last: int
    moved: list[int]


class Move(Struct, frozen=True, kw_only=True):
    """What a change came to, in ms: the longest time in which nothing of a task that moved landed; the p99 of the
    other tasks in the quiet time before it and in the change; and of those that moved. `seconds` is how long it took
    from the call of `fluvial scale` to its end."""

    containers: int
    at: float
    seconds: float
    moved: list[int]
    pause_ms: int
    others_before_ms: int
    others_ms: int
    moved_ms: int

    @property
    def times_as_long(self) -> float:
        """The p99 of the others beside that of before."""
        return round(self.others_ms / max(1, self.others_before_ms), 2)


class MovedState(Judged, frozen=True, kw_only=True):
    """What came of it. Latencies by second are those around the first change, by whether tasks were moved by it."""

    keys: int
    bytes_per_key: int
    messages_per_second: int
    moves: list[Move]
    moved: list[Second]
    others: list[Second]


def measured(topics: Topics, *, small: bool) -> MovedState:
    """Fill the state once; then move a half of its tasks there and back, some times."""
    size, source = (SMALL if small else FULL), f"held-in-{int(time.time())}"
    topics.create(source)
    noise = Noise()
    try:
        options = ("--containers", "1", "--guarantee", "at_least_once")
        with running(program("held", on_kafka, *options), "held", topics, (source,), endless=True) as process:
            fill(topics.address, source, size.keys)
            tell(f"{size.keys:,} messages are there that fill the state")
            with numbering(topics, source, RATE, size.keys) as numbers:
                output = process.job.output
                until(process, lambda: min(topics.ends(output)) > 0, "the state is filled", _LONGEST)
                time.sleep(0 if small else _SETTLE)
                begun = int(time.time() * 1000)
                changes = [change for _ in range(size.rounds) for change in _there_and_back(process, size)]
                time.sleep(size.quiet)
            until(process, lambda: sum(topics.ends(output)) >= numbers.sent, "all is processed", _LONGEST)
            others = noise.share(process.sampler)
            landings = landings_of(topics, output)
    finally:
        topics.remove([source])
    wrong = problem(landings, numbers.sent, once=False)
    return judged(landings, changes, size, begun, small=small, noise=round(others, 2), wrong=wrong)


def _there_and_back(process: Running, size: Size) -> Iterator[Change]:
    """The container that is added has nothing on its disk each time, as one on a machine that is new."""
    alone = len(use_of(process.pid).cpu)
    for containers in (2, 1):
        time.sleep(size.quiet)
        first = int(time.time() * 1000)
        moved = tasks_moved(scale(process, "held", containers))
        change = Change(containers=containers, first=first, last=int(time.time() * 1000), moved=moved)
        tell(f"{containers} containers after {(change.last - first) / 1000:.1f} s, moved {moved}")
        yield change
        time.sleep(min(size.quiet, _SETTLE))
    until(process, lambda: len(use_of(process.pid).cpu) <= alone, "the added container has ended", _LONGEST)
    shutil.rmtree(Path(process.job.folder, ".fluvial", "state", process.job.name, "container-1"))


def judged(
    landings: list[Landing], changes: list[Change], size: Size, begun: int, *, small: bool, noise: float, wrong: str
) -> MovedState:
    """What landings and changes come to."""
    moves = [_move(landings, change, size.quiet, begun) for change in changes]
    first = changes[0]
    around = between(landings, first.first - int(size.quiet * 1000), first.last + int(size.quiet * 1000))
    moved, others = split(around, first.moved)
    return MovedState(
        **circumstances(),
        small=small,
        noise=noise,
        output_correct=not wrong,
        problem=wrong,
        goals=goals([move for move in moves if move.containers > 1]),
        keys=size.keys,
        bytes_per_key=KEPT,
        messages_per_second=RATE,
        moves=moves,
        moved=by_second(moved, begun),
        others=by_second(others, begun),
    )


def goals(moves: list[Move]) -> list[Goal]:
    """The goals, of the moves to a container that was added."""
    pauses = [round(move.pause_ms / 1000, 3) for move in moves]
    longer = [move.times_as_long for move in moves]
    return [
        median_goal("longest pause of a task that moves", "at most", PAUSE, pauses, "s"),
        median_goal(
            "99 % of the latencies of the other tasks are below, of that before", "at most", TIMES_AS_LONG, longer
        ),
    ]


def _move(landings: list[Landing], change: Change, quiet: float, begun: int) -> Move:
    of, others = split(landings, change.moved)
    before = between(others, change.first - int(quiet * 1000), change.first)
    return Move(
        containers=change.containers,
        at=(change.first - begun) / 1000,
        seconds=(change.last - change.first) / 1000,
        moved=change.moved,
        pause_ms=longest_gap(of, change.first, change.last),
        others_before_ms=_p99(before),
        others_ms=_p99(between(others, change.first, change.last)),
        moved_ms=_p99(between(of, change.first, change.last)),
    )


def _p99(landings: list[Landing]) -> int:
    return percentile([landing.took for landing in landings], 99) if landings else 0


def picture(saved: bytes) -> str:
    """Latencies around the first change."""
    found = msgspec.json.decode(saved, type=MovedState)
    begin = min(second.second for second in (*found.moved, *found.others))
    change = found.moves[0]
    marks = {change.at - begin: "scale", change.at + change.seconds - begin: "done"}
    most = float(max(second.p99 for second in (*found.moved, *found.others)))
    lines = "median (blue), 99 % (yellow)"
    panels = [
        Panel(f"latency of tasks that move, ms: {lines}", _curves(found.moved, begin), most),
        Panel(f"latency of the other tasks, ms: {lines}", _curves(found.others, begin), most),
    ]
    return drawn("Latencies while tasks with a large state move", panels, marks)


def _curves(seconds: list[Second], begin: int) -> list[Curve]:
    return [
        Curve("other", [(float(one.second - begin), float(one.p99)) for one in seconds]),
        Curve("ours", [(float(one.second - begin), float(one.p50)) for one in seconds]),
    ]
