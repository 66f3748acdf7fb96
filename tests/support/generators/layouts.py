"""Pipelines that keep the same operators in other stages: counters behind sources, behind borders, and joined."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from unittest.mock import patch

from hypothesis import strategies as st

from engines.sending import Fate
from engines.targets import contents, write
from fluvial.dsl import Context, KeyedProcessor, KeyedStream, Message, Pipeline, ValueState
from fluvial.runtime.local.commit import two_phase_commit as published
from fluvial.runtime.local.stores import state_moves
from fluvial.runtime.state import RocksStore
from fluvial.runtime.systems import System
from fluvial.runtime.systems.log.producer import LogProducer
from fluvial.runtime.systems.log.transaction import LogTransaction
from fluvial.runtime.systems.partitioner import partition_for

SOURCES = ("a", "b", "c")
KEYS = ("ada", "bob", "eve")
PARTITIONS = 2


class Counter(KeyedProcessor[str, str, str]):
    """Says how many messages of the key there were, in all runs."""

    seen = ValueState(int, 0)

    def on_message(self, message: Message[str], context: Context[str]) -> Iterator[str]:  # noqa: ARG002
        self.seen.value += 1
        yield f"{context.key} {self.seen.value}"


def itself(value: str) -> str:
    return value


def both(left: str, right: str) -> str:
    return left + right


@dataclass(frozen=True)
class Counted:
    """Where a counter is: behind which source, and behind which border, if any."""

    source: str
    border: str | None = None


@dataclass(frozen=True)
class Layout:
    """`sources` in the order in which they are written, `counters` by id, and pairs of sources that are joined, whose
    stages become one."""

    sources: tuple[str, ...]
    counters: tuple[tuple[str, Counted], ...]
    joined: tuple[tuple[str, str], ...] = ()

    @property
    def reads(self) -> set[str]:
        """The sources that are read."""
        return {where.source for _, where in self.counters} | {name for pair in self.joined for name in pair}

    @property
    def borders(self) -> bool:
        return any(where.border for _, where in self.counters)


def build(layout: Layout) -> Pipeline:
    """The pipeline; messages have their key as their value too."""
    pipeline = Pipeline("p")
    streams: dict[str, KeyedStream[str, str]] = {
        name: pipeline.stream(name, key=str, value=str) for name in layout.sources if name in layout.reads
    }
    crossed: dict[str, KeyedStream[str, str]] = {}
    for id, where in layout.counters:
        keyed = streams[where.source]
        if where.border is not None:
            name = f"{where.border}-{where.source}"
            if name not in crossed:
                crossed[name] = keyed.partition_by(itself, id=name, key_type=str)
            keyed = crossed[name]
        keyed.process(Counter(), id=id).send_to(f"out-{id}", value=str)
    for left, right in layout.joined:
        pairs = streams[left].join(streams[right], both, within=timedelta(0), id=f"join-{left}-{right}")
        pairs.send_to("pairs", value=str)
    return pipeline


def layouts(counters: Mapping[str, Sequence[Counted]], *, optional: bool) -> st.SearchStrategy[Layout]:
    """Layouts in which each counter is in one of the given places, or missing where that is `optional`."""
    places = [st.sampled_from(where) | (st.none() if optional else st.nothing()) for where in counters.values()]
    return st.builds(
        lambda order, found, joined: Layout(
            tuple(order), tuple((id, one) for id, one in zip(counters, found, strict=True) if one is not None), joined
        ),
        st.permutations(SOURCES),
        st.tuples(*places),
        st.sampled_from([(), (("a", "b"),), (("b", "c"),), (("a", "b"), ("b", "c"))]),
    ).filter(lambda layout: bool(layout.reads))


def add_messages(system: System, time: int) -> None:
    """One message of each key to each source, in the partition of its key."""
    for source in SOURCES:
        partitions: list[list[Any]] = [[] for _ in range(PARTITIONS)]
        for key in KEYS:
            partitions[partition_for(key.encode(), PARTITIONS)].append((key.encode(), key.encode(), time, ()))
        write(system, {source: partitions})


def counts(system: System, id: str) -> dict[str, list[int]]:
    """What a counter has said so far, by key."""
    found: dict[str, list[int]] = defaultdict(list)
    if f"out-{id}" in system.admin().streams():
        for _, value, _, _ in contents(system, f"out-{id}"):
            key, number = (value or b"").decode().split()
            found[key].append(int(number))
    return dict(found)


@contextmanager
def mortal(fate: Fate, *, moves_only: bool) -> Iterator[None]:
    """Let a run on a log die at one of the calls that change something, or only at those of a move."""
    active = not moves_only
    move_states = state_moves.move_states

    def moving(*arguments: Any) -> None:
        nonlocal active
        active = True
        move_states(*arguments)
        active = not moves_only

    def dying(original: Any) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            if active:
                fate.step()
            return original(*arguments, **named)

        return call

    with (
        patch.object(published, "move_states", moving),
        patch.object(RocksStore, "write", dying(RocksStore.write)),
        patch.object(LogProducer, "publish", dying(LogProducer.publish)),
        patch.object(LogTransaction, "prepare", dying(LogTransaction.prepare)),
        patch.object(LogTransaction, "commit", dying(LogTransaction.commit)),
    ):
        yield
