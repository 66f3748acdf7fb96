"""A run on Kafka that dies, or stops, at a chosen point; run as `python mortal.py ORDER`, an `Order` as JSON.

The points lie around calls of the library, which are wrapped here: the library knows nothing of them.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

from msgspec import Struct, json

from engines.namespaces import NamedConsumer, Namespace
from examples import visitor_sessions
from fluvial.dsl import FluvialError, MessageStream, Pipeline, tumbling
from fluvial.dsl import count as count_
from fluvial.planner import Settings
from fluvial.planner.settings import Guarantee
from fluvial.runtime import run
from fluvial.runtime.launch import Until
from fluvial.runtime.local.commit import restore as restoring
from fluvial.runtime.local.commit.changelog_commit import ChangelogCommit
from fluvial.runtime.local.container import Container
from fluvial.runtime.local.coordination.coordinator_stream import Coordinator
from fluvial.runtime.local.task import LocalTask
from fluvial.runtime.state import RocksStore
from fluvial.runtime.systems import KafkaSystem
from fluvial.runtime.systems.kafka import KafkaRecordProducer

BATCH = 5
"""Most messages read at once, so that few of them make many commits."""
IDLE_TURNS = 60
"""Turns of a container without work, after which a run that is to die dies all the same."""
IDLE = "with nothing to do"


class Order(Struct, frozen=True, kw_only=True):
    """What to run, and where it ends: at a `call`, counted from 0, of a point. Times in seconds."""

    servers: str
    prefix: str
    pipeline: str
    folder: str
    guarantee: Guarantee = "at_least_once"
    container: int = 0
    containers: int = 1
    until: Until = "stopped"
    point: str = ""
    call: int = 0
    signal: int = signal.SIGKILL
    give_up_after: float = 60.0
    stall_timeout: float = 300.0
    batch: int = BATCH

    @property
    def state(self) -> Path:
        """The folder of the container's stores; each has its own, as on machines of their own."""
        return Path(self.folder) / f"state-{self.container}"

    @property
    def notes(self) -> Path:
        """Where it is noted at which points runs ended."""
        return Path(self.folder) / "ended"

    @property
    def system(self) -> "Sipping":
        give_up = timedelta(seconds=self.give_up_after)
        # A broker may be away while this process starts, too.
        reach = max(give_up, timedelta(seconds=60))
        return Sipping(KafkaSystem(self.servers, reach_within=reach, give_up_after=give_up), self.prefix, self.batch)


@dataclass(frozen=True)
class Sipping(Namespace):
    """Read in small sips."""

    batch: int

    def consumer(self, *, max_records: int = 10_000, committed: bool = False) -> NamedConsumer:
        return super().consumer(max_records=min(self.batch, max_records), committed=committed)


# Pipelines.


def answer(word: str) -> list[str]:
    return [word, f"{word}!"]


async def looked_up(word: str) -> list[str]:
    await asyncio.sleep(len(word) % 3 * 0.004 + int(word[-1]) * 0.001)
    return answer(word)


async def never(_: str) -> list[str]:
    await asyncio.Event().wait()
    return []


def lookups() -> Pipeline:
    pipeline = Pipeline("lookups")
    words = pipeline.stream("words", value=str)
    words.async_flat_map(looked_up, id="look", order="none", max_in_flight=4).send_to("out", value=str)
    return pipeline


def stuck() -> Pipeline:
    pipeline = Pipeline("stuck")
    pipeline.stream("words", value=str).async_flat_map(never, id="look").send_to("out", value=str)
    return pipeline


def stripped(word: str) -> str:
    return word.strip()


def counts(sources: Sequence[str] = ("words",), *, marked: bool = False) -> Pipeline:
    """How often each word comes in a day; `marked` adds an operator on either side of the border."""
    pipeline = Pipeline("counts")
    first, *others = (pipeline.stream(source, value=str) for source in sources)
    words: MessageStream[str] = first.merge(*others) if others else first
    words = words.map(stripped) if marked else words
    counted = words.partition_by(str, id="by", key_type=str).window(tumbling(timedelta(days=1)), count_(), id="counts")
    panes = counted.filter(lambda pane: pane.value > 0) if marked else counted
    panes.map(lambda pane: f"{pane.key} {pane.value}").send_to("out", value=str)
    return pipeline


PIPELINES: dict[str, Callable[[], Pipeline]] = {
    "sessions": lambda: visitor_sessions.pipeline,
    "lookups": lookups,
    "stuck": stuck,
    "counts": counts,
    "counts of two": lambda: counts(("words", "more"), marked=True),
}


# Points.


@dataclass(frozen=True)
class Point:
    """`when` a function is called: "before" it, "after" it, or "during" it, as it tells its last argument of progress.
    `phase` says what a run is doing then."""

    phase: str
    owner: Any
    name: str
    when: str
    pipelines: frozenset[str]
    guarantees: frozenset[str]

    def wrapped(self, call: Callable[..., Any], step: Callable[[], None]) -> Callable[..., Any]:
        """The function, which takes the step at this point."""

        def before(*arguments: Any, **named: Any) -> Any:
            step()
            return call(*arguments, **named)

        def after(*arguments: Any, **named: Any) -> Any:
            result = call(*arguments, **named)
            step()
            return result

        def during(*arguments: Any) -> Any:
            tell = arguments[-1]

            def told(*how_far: int) -> None:
                tell(*how_far)
                step()

            return call(*arguments[:-1], told)

        return {"before": before, "after": after, "during": during}[self.when]


ALL = "sessions lookups at_least_once exactly_once"
STATEFUL = "sessions at_least_once exactly_once"
_ROWS: tuple[tuple[str, Any, str, str, str], ...] = (
    ("processing", visitor_sessions, "parse_access_log", "before", STATEFUL),
    ("processing", sys.modules[__name__], "answer", "before", "lookups at_least_once exactly_once"),
    ("processing", LocalTask, "_process", "after", ALL),
    ("processing", KafkaRecordProducer, "send", "before after", ALL),
    ("commit", KafkaRecordProducer, "flush", "before after", ALL),
    ("commit", KafkaRecordProducer, "commit", "before after", ALL),
    ("commit", KafkaRecordProducer, "ends", "before", STATEFUL),
    ("commit", ChangelogCommit, "_produce_changes", "before after", STATEFUL),
    ("commit", ChangelogCommit, "_send_checkpoints", "before after", ALL),
    ("commit", LocalTask, "committed", "after", ALL),
    ("between flush and checkpoint", ChangelogCommit, "_write_stores", "before after", ALL),
    ("between flush and checkpoint", ChangelogCommit, "_write", "before after", STATEFUL),
    ("restore", RocksStore, "write", "before after", STATEFUL),
    ("restore", RocksStore, "clear", "before after", STATEFUL),
    ("restore", restoring, "replay", "during", STATEFUL),
    ("restore", ChangelogCommit, "_repair", "before after", "sessions at_least_once"),
    ("restore", ChangelogCommit, "resume", "before after", ALL),
    ("start", Coordinator, "write", "before after", ALL),
    ("start", KafkaRecordProducer, "__init__", "after", ALL),
)


def _named(owner: Any) -> str:
    name: str = owner.__name__
    return "mortal" if owner is sys.modules[__name__] else name.rpartition(".")[2]


POINTS: dict[str, Point] = {
    f"{when} {_named(owner)}.{name}": Point(
        phase, owner, name, when, frozenset(of.split()) & PIPELINES.keys(), frozenset(of.split()) - PIPELINES.keys()
    )
    for phase, owner, name, sides, of in _ROWS
    for when in sides.split()
}


def points(pipeline: str, guarantee: str) -> list[str]:
    """The points that a run may come to."""
    return [name for name, at in POINTS.items() if pipeline in at.pipelines and guarantee in at.guarantees]


@contextmanager
def ending(order: Order) -> Iterator[None]:
    """End this process at the point of an order, if it has one."""
    if not order.point:
        yield
        return
    point, calls, idle = POINTS[order.point], count(), count()

    def end(where: str) -> None:
        with order.notes.open("a") as notes:
            notes.write(f"{where}\n")
        os.kill(os.getpid(), order.signal)

    def step() -> None:
        if next(calls) == order.call:
            end(order.point)

    async def rest(container: Container, moved: bool) -> float:
        nonlocal idle
        idle = count() if moved else idle
        if next(idle) == IDLE_TURNS:
            end(IDLE)
        return await pause(container, moved)

    pause = Container._pause
    with (
        patch.object(point.owner, point.name, point.wrapped(getattr(point.owner, point.name), step)),
        patch.object(Container, "_pause", rest),
    ):
        yield


def obey(order: Order) -> int:
    """Run what is ordered; returns the exit code."""
    guarantee, state = order.guarantee, str(order.state)
    settings = Settings(
        guarantee=guarantee,
        commit_interval=timedelta(0),
        state_dir=state,
        stall_timeout=timedelta(seconds=order.stall_timeout),
        cached_entries=4,
    )
    try:
        with ending(order):
            run(
                PIPELINES[order.pipeline](),
                system=order.system,
                settings=settings,
                until=order.until,
                container_id=order.container,
                containers=order.containers,
            )
    except FluvialError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    print("running", flush=True)
    sys.exit(obey(json.decode(sys.argv[1], type=Order)))
