"""A case whose input comes piece by piece while its containers come, go, die and change, and what it is to write."""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from typing import get_args

from hypothesis import strategies as st
from msgspec import structs

from engines.comparing import assert_same, counted, without_repeats
from engines.container_acts import (
    COMMIT,
    ELASTICITY,
    NEW_RUN,
    ONE_CONTAINER,
    SCALE,
    SPLIT,
    TURN,
    TURNS,
    Act,
    act,
    perform,
)
from engines.live_containers import LiveContainers, rushing
from engines.namespaces import Namespace
from engines.sending import ProducingSystem, stores_of
from engines.targets import append, outputs_of, with_remote_rows
from fluvial.planner import Settings
from fluvial.planner.settings import Grouping, Guarantee
from fluvial.runtime import run
from fluvial.runtime.process.machine import Machine
from generators.building import build
from generators.cases import Case, Pieces, cases, expected, pieces_of
from generators.draft import Extra
from oracle.interpreter import Outputs

FIRST = 2
"""The containers that a run begins with."""

FEED = act("feed", st.integers(1, 3))
ACTS = st.one_of(FEED, FEED, TURN, TURN, TURNS, TURNS, ONE_CONTAINER, COMMIT, SCALE, SPLIT, NEW_RUN)


@dataclass(frozen=True)
class Story:
    """A case, its input in pieces, and what happens. Unless it commits at each turn, acts alone commit."""

    case: Case
    pieces: Pieces
    guarantee: Guarantee
    elasticity: int
    group_by: Grouping
    commits_at_each_turn: bool
    acts: Sequence[Act]


@dataclass(frozen=True)
class Surroundings:
    """What containers run on: their machine, how long they wait for records, how long for a commit that no act asks
    for, and where their stores lie."""

    machine: Callable[[], Machine] = rushing
    patience: float = 0.0
    longest: timedelta = timedelta(days=9_999)
    state_dir: str | None = None


@st.composite
def stories(
    draw: st.DrawFn,
    guarantee: Guarantee,
    extras: Sequence[Extra] = (),
    *,
    acts: tuple[int, int] = (0, 40),
    max_records: int = 30,
    negative: bool = True,
) -> Story:
    """Stories of a guarantee, with so many acts. Under at_least_once no stream crosses a border: behind one repeats are
    counted, so that other panes come of them."""
    borders = 2 if guarantee == "exactly_once" else 0
    random = cases("on_time", max_borders=borders, max_records=max_records, negative=negative, extras=extras)
    case = draw(random)
    least, most = acts
    return Story(
        case=case,
        pieces=draw(pieces_of(case.inputs, case.first)),
        guarantee=guarantee,
        elasticity=draw(ELASTICITY),
        group_by=draw(st.sampled_from(get_args(Grouping))),
        commits_at_each_turn=draw(st.booleans()),
        acts=draw(st.lists(ACTS, min_size=least, max_size=most)),
    )


@with_remote_rows
def written(system: ProducingSystem | Namespace, story: Story, on: Surroundings) -> Outputs:
    """What is written by containers to which this happens, and by a run to the end behind them. What tables are read
    from is there before they start."""
    pipeline, feed = build(story.case.description), _Feed(system, story)
    settings = Settings(
        guarantee=story.guarantee,
        cached_entries=2,
        elasticity=story.elasticity,
        group_by=story.group_by,
        state_dir=on.state_dir,
    )
    with closing(LiveContainers(system, pipeline, FIRST, settings, on.machine, on.patience)) as containers:
        if not story.commits_at_each_turn:
            containers.commit_every(on.longest)
        for number in range(FIRST):
            containers.start(number)
        for one in story.acts:
            if one.kind == "feed":
                feed.next(one.number)
            else:
                perform(containers, one)
        feed.next(len(feed.rest))
        containers.commit_every(timedelta(0))
        containers.finish()
        after = structs.replace(settings, elasticity=containers.elasticity)
    with stores_of(system):
        run(pipeline, system=system, until="end", settings=after)
    return outputs_of(system, {*story.case.inputs}, pipeline.name)


class _Feed:
    """The input that has not come yet."""

    def __init__(self, system: ProducingSystem | Namespace, story: Story) -> None:
        self._system = system
        for stream, count in story.case.partitions.items():
            system.admin().create(stream, count)
        self.rest = [*story.pieces]
        self.next(sum(stream in story.case.first for (stream, _), _ in self.rest))

    def next(self, pieces: int) -> None:
        """Let so many more pieces come, if there are as many."""
        for partition, records in self.rest[:pieces]:
            append(self._system, *partition, records)
        del self.rest[:pieces]


def check_written(actual: Outputs, story: Story) -> None:
    """Fail unless this is what the oracle writes, or under at_least_once that and repeats of it. A row that was written
    to a remote table and not committed is written again under both."""
    wanted = expected(story.case)
    if story.guarantee == "exactly_once":
        assert_same(without_repeats(actual), without_repeats(wanted))
        return
    for stream in {*actual, *wanted}:
        found, needed = counted(stream, actual.get(stream, ())), counted(stream, wanted.get(stream, ()))
        assert not needed - found, f"{stream} lacks {needed - found}"
        assert {*found} == {*needed}, f"{stream} has { ({*found} - {*needed}) } besides"
