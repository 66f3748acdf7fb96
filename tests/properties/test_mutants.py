"""The differential property is worth something: it catches mistakes planted in the kernel and the local engine."""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import chain

import pytest
from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st

from engines.comparing import difference
from engines.targets import PATIENT, on_driver_in_pieces, on_driver_with_restarts
from faults.mutants import Mutant, planted
from fluvial.runtime.kernel import table_bindings
from fluvial.runtime.kernel.alarms import Alarms
from fluvial.runtime.kernel.cells import Cells
from fluvial.runtime.kernel.code import Compiler
from fluvial.runtime.kernel.entries import Ageing
from fluvial.runtime.kernel.failures import Failures
from fluvial.runtime.kernel.inputs import Inputs
from fluvial.runtime.kernel.joins import JoinOperator, LatestJoinOperator
from fluvial.runtime.kernel.kept import ListAtWork, MapAtWork
from fluvial.runtime.kernel.pool import Pool
from fluvial.runtime.kernel.processing import ProcessOperator, TimersAtWork
from fluvial.runtime.kernel.remote import Batches, Cache
from fluvial.runtime.kernel.sessions import SessionOperator
from fluvial.runtime.kernel.stage import StageTask
from fluvial.runtime.kernel.state import Layer, TimedState
from fluvial.runtime.kernel.tables import TableOperator
from fluvial.runtime.kernel.timeline import Timeline
from fluvial.runtime.kernel.tumbling import TumblingOperator
from fluvial.runtime.kernel.watched import WatchedOperator
from fluvial.runtime.kernel.watched_sessions import WatchedSessionOperator
from fluvial.runtime.local.border_progress import BorderProgress
from fluvial.runtime.local.landing import Landing
from fluvial.runtime.local.routing import Router
from generators.cases import Case, Pieces, cases, cases_of, expected, pieces_of
from generators.described_steps import (
    Broadcast,
    Filter,
    Join,
    Lookup,
    Merge,
    Process,
    Put,
    RemoteLookup,
    Source,
    When,
    WindowStep,
)
from generators.described_tables import RemoteRows, TablePair, TableSource
from generators.descriptions import Description
from oracle.interpreter import Outputs

Target = Callable[[Case, Pieces], Outputs]
Judged = tuple[Case, Pieces, Outputs]
"""A case, the order in which its inputs come, and what must be written."""

TWO_STREAMS = Description(
    (Source("a", key="str"), Source("b", key="str", out_of_order=5)),
    (Merge(0, (1,)), WindowStep(2, "tumbling", 10, "count")),
)
LATENESS = Description(
    (Source("a", key="str"),),
    (
        WindowStep(0, "tumbling", 10, "count", lateness=50, panes="panes"),
        WindowStep(0, "session", 10, "count", lateness=10, panes="sessions"),
    ),
    mode="late",
)
JOINED = Description(
    (Source("a", key="str"), Source("b", key="str", out_of_order=5)),
    (Join(0, 1, 5, "outer", "all", "minus", 0), WindowStep(2, "tumbling", 10, "count", panes="panes")),
)
LATEST = Description(
    (Source("a", key="str"),),
    (Filter(0, "above", 0), Filter(0, "indivisible", 2), Join(1, 2, 5, "outer", "latest", "minus", 0)),
    mode="late",
)
LOOKED_UP = Description(
    (Source("a", key="str"),),
    (
        Lookup(0, 0, "left", "first_word", 1),
        Lookup(1, 2, "inner", "minus", 2),
        WindowStep(2, "session", 10, "count", panes="panes"),
    ),
    "skip",
    tables=(TableSource("one", "str"), TableSource("two", "str"), TablePair(0, 1, "left", "first_word", 3)),
)
FILLED = Description(
    (Source("a", key="str"),),
    (Lookup(0, 0, "left", "first_word", 1), Put(1, 0), Filter(1, "above", -9)),
    "dead_letter",
    tables=(TableSource("latest", "str", filled=True),),
)
WATCHED = Description(
    (Source("a", key="str"),),
    (
        WindowStep(0, "hopping", 10, "count", 20, panes="panes", every=4, trigger=When(2, 7), late_trigger=When(2)),
        WindowStep(0, "session", 10, "count", 20, panes="sessions", trigger=When(3, None, 4), late_trigger=When(2)),
    ),
    mode="late",
)
PROCESSED = Description(
    (Source("a", key="str"),),
    (
        Process(0, "watching", 1, aside="aside"),
        Process(0, "running", 2, fails=True, aside="aside"),
        Process(0, "sorting", 3, aside="aside"),
    ),
    on_error="skip",
    mode="late",
)
TOLD = Description(
    (Source("a", key="str"),),
    (
        RemoteLookup(0, 0, "left", "first_word", 1),
        RemoteLookup(0, 1, "inner", "minus", 2),
        Broadcast(1),
        Merge(2, (3,)),
    ),
    remotes=(RemoteRows("some", 1, waits=True, cached=True), RemoteRows("some", 2, batch=2)),
)
"""What random pipelines seldom have: a window where two streams meet, windows that many late messages enter, joins of
each kind, tables that are read and filled, triggers of each kind, processors that one message reaches together, and
what every task is told beside remote tables."""

KINDS: Mapping[str, st.SearchStrategy[Case]] = {
    "late": cases("late", max_steps=5),
    "on_time": cases("on_time", max_steps=5),
    "two streams": cases_of(TWO_STREAMS, max_records=12),
    "lateness": cases_of(LATENESS),
    "joins": cases_of(JOINED, max_records=12),
    "late joins": cases_of(LATEST),
    "triggers": cases_of(WATCHED),
    "tables": cases_of(LOOKED_UP, max_records=12),
    "filled": cases_of(FILLED, max_records=12),
    "processors": cases_of(PROCESSED),
    "told": cases_of(TOLD, max_records=12),
}

SEARCHES = 60
TEN = settings(
    max_examples=10,
    deadline=None,
    database=None,
    derandomize=False,
    phases=[Phase.generate],
    suppress_health_check=PATIENT,
)


@cache
def search(kind: str, number: int) -> list[Judged]:
    """Ten cases, the same ones each time and for every mistake.

    Many short searches, for in a long one Hypothesis spends its time on variations of what it has drawn before.
    """
    found: list[tuple[Case, Pieces]] = []

    @seed(number)
    @TEN
    @given(KINDS[kind].flatmap(lambda case: st.tuples(st.just(case), pieces_of(case.inputs, case.first))))
    def draw(one: tuple[Case, Pieces]) -> None:
        found.append(one)

    draw()
    return [(case, pieces, expected(case)) for case, pieces in found]


def some_cases(kind: str, searches: int) -> Iterator[Judged]:
    return chain.from_iterable(search(kind, number) for number in range(searches))


def fails(target: Target, judged: Judged) -> bool:
    """Whether a target does not write what the oracle does: the differential property, for one case."""
    case, pieces, wanted = judged
    try:
        return bool(difference(target(case, pieces), wanted))
    except NameError:
        raise  # a mistake in the mistake
    except Exception:  # a pipeline may also fail, or never end
        return True


STRAIGHT, RESTARTING = on_driver_in_pieces, on_driver_with_restarts

MUTANTS: Mapping[tuple[str, Target], list[Mutant]] = {
    ("late", STRAIGHT): [
        # The bounds of windows, and firing once.
        Mutant(TumblingOperator, "_add", "end + lateness <= watermark", "end + lateness < watermark"),
        Mutant(TumblingOperator, "advance", "self._fired < end <= watermark", "self._fired < end < watermark"),
        Mutant(TumblingOperator, "advance", "self._fired < end <= watermark", "end <= watermark"),
        Mutant(TumblingOperator, "_add", "end <= self._fired", "end < self._fired"),
        Mutant(SessionOperator, "_join", "lateness <= watermark", "lateness < watermark"),
        Mutant(SessionOperator, "_join", "lateness > watermark", "lateness >= watermark"),
        Mutant(SessionOperator, "_ring", "not span.fired", "True"),
        Mutant(SessionOperator, "_adder", "not span.fired and", ""),
        # A lost merge, and sessions out of order.
        Mutant(SessionOperator, "_union", "held[1:]", "held[2:]"),
        Mutant(
            SessionOperator,
            "_join",
            "sorted([*(other for other in spans if id(other) not in gone), span], key=_first)",
            "[span, *(other for other in spans if id(other) not in gone)]",
        ),
        # A watermark that takes nothing to be out of order, and panes that come a moment too late.
        Mutant(Compiler, "_advance", "f't - {lag}' if lag else 't'", "'t'"),
        Mutant(Timeline, "firing", "time - 1", "time"),
        # A batch in the wrong order, and calls that overtake each other.
        Mutant(StageTask, "feed", "part = records if", "part = records[::-1] if"),
        Mutant(Pool, "_end", "lane is None:", "True:"),
    ],
    ("lateness", STRAIGHT): [
        # Windows forgotten too soon.
        Mutant(TumblingOperator, "advance", "end + self._lateness <= watermark", "end <= watermark"),
        Mutant(SessionOperator, "_over", "+ self._kept", "+ 0"),
    ],
    ("on_time", STRAIGHT): [
        # The bounds of sessions.
        Mutant(SessionOperator, "_join", "timestamp <= span.last + gap", "timestamp < span.last + gap"),
        Mutant(SessionOperator, "_join", "span.first - gap <= timestamp", "span.first - gap < timestamp"),
        Mutant(SessionOperator, "_adder", "timestamp <= last + gap", "timestamp <= last + gap + 1"),
        Mutant(SessionOperator, "_adder", "span.first - gap <= timestamp", "span.first - gap - 1 <= timestamp"),
        Mutant(SessionOperator, "_adder", "span.first = timestamp", "pass"),
        # Control messages that are dropped, by the reader or for all partitions but one, or believed too soon.
        Mutant(Inputs, "observe", "self._control(stream, control)", "pass"),
        Mutant(BorderProgress, "report", "range(partitions)", "range(1)"),
        Mutant(Inputs, "_control", "len(ended) >= control.producers", "len(ended) >= 1"),
        # Time that does not wait for the slowest producer, or the oldest message under way.
        Mutant(Inputs, "_least", "min(told.values())", "max(told.values())"),
        Mutant(Inputs, "_least", "len(told) < self._expected.get(stream, 1)", "not told"),
        Mutant(Cells, "floor", "found[0].watermark", "found[-1].watermark"),
        # A lost dead letter.
        Mutant(Failures, "_handle", "action == 'dead_letter'", "not self.letters and action == 'dead_letter'"),
    ],
    ("two streams", STRAIGHT): [Mutant(Timeline, "_meet", "min((", "max((")],
    ("joins", STRAIGHT): [
        # Rows that join too much or too little, that are emitted alone twice or never, or forgotten too soon.
        Mutant(JoinOperator, "_adder", "(own - size, own, own + size)", "(own, own + size)"),
        Mutant(JoinOperator, "_near", "last = len(rows) if", "last = len(rows) - 1 if"),
        Mutant(JoinOperator, "_near", "row.told = True", "pass"),
        Mutant(JoinOperator, "_over", " + self._within", ""),
        Mutant(JoinOperator, "_leave", "bisect_right(", "bisect_left("),
        # Time behind a join that does not wait for rows alone.
        Mutant(Timeline, "_fire", "_back(watermark, line.behind)", "watermark"),
    ],
    ("late joins", STRAIGHT): [
        Mutant(LatestJoinOperator, "add", "timestamp < watermark", "timestamp <= watermark"),
        Mutant(LatestJoinOperator, "_leave", "over <= time", "over < time"),
    ],
    ("triggers", STRAIGHT): [
        Mutant(WatchedOperator, "_look", "end <= self._fired", "end < self._fired"),
        Mutant(WatchedOperator, "_ring", "limit > watermark", "True"),
        Mutant(WatchedOperator, "_drop", "not held.shown", "False"),
        Mutant(WatchedSessionOperator, "_limit", "if span.pending", "if False"),
        Mutant(WatchedSessionOperator, "_union", "begin(united)", "pass"),
    ],
    ("tables", STRAIGHT): [
        # Rows that are never deleted, joined rows that outlive theirs, and rows that nobody finds.
        Mutant(TableOperator, "_set", "self._rows.delete(key)", "pass"),
        Mutant(TableOperator, "_join", "self.has(key)", "False"),
        Mutant(TableOperator, "_take", "key is None", "row is None"),
        Mutant(table_bindings, "joined_row", "needs_right and theirs is None", "theirs is None"),
    ],
    ("told", STRAIGHT): [
        # Messages that one task alone is told, rows of other keys, and rows that nobody asks for.
        Mutant(Router, "route", "range(partitions)", "range(1)"),
        Mutant(Cache, "get", "self._rows.get(key)", "next(iter(self._rows.values()), None)"),
        Mutant(Batches, "_send", "asked, answer = (self._open, self._answer)", "asked, answer = ({}, self._answer)"),
    ],
    ("filled", STRAIGHT): [Mutant(TableOperator, "row", "None if key is None else", "None if key else")],
    ("tables", RESTARTING): [
        Mutant(TableOperator, "changes", "self._rows.changes()", "iter(())"),
        Mutant(
            TableOperator,
            "settle",
            "self._rows.settle()",
            "(self._rows.settle(), self._rows.layer.clean.clear())",
        ),
    ],
    ("processors", STRAIGHT): [
        # Entries that are over too late or never, or that are not there again when a message fails.
        Mutant(Ageing, "get", "self._ttl <= self._turn.time", "self._ttl < self._turn.time"),
        Mutant(ProcessOperator, "_adder", "timestamp if timestamp > watermark else watermark", "watermark"),
        Mutant(ProcessOperator, "undo", "self._turn.journal = journal", "pass"),
        # Timers that fire when they were put off, in the wrong order, or twice.
        Mutant(ProcessOperator, "advance", "watermark >= self._wake", "watermark > self._wake"),
        Mutant(ProcessOperator, "_ring_up_to", "left == time and due <= now", "left == time"),
        Mutant(ProcessOperator, "_set_to", "sorted(", "list("),
        Mutant(ProcessOperator, "_fire", "timers.times.delete(entry)", "pass"),
        Mutant(TimersAtWork, "flush", "due < before[0]", "False"),
        Mutant(TimersAtWork, "flush", "self.reached + 1", "self.now + 1"),
    ],
    ("processors", RESTARTING): [
        Mutant(ProcessOperator, "changes", "self._kept)", "self._kept[1:])"),
        Mutant(ListAtWork, "_fill", "if pieces else []", "if False else []"),
        Mutant(MapAtWork, "flush", "added or removed", "added"),
        Mutant(Alarms, "changes", "self._tiers)", "self._tiers[1:])"),
    ],
    ("on_time", RESTARTING): [
        # A message that is left out, and state that is not written, or not looked for where it was.
        Mutant(Landing, "land_all", "offsets[stop - 1] + 1", "offsets[stop - 1] + 2"),
        Mutant(StageTask, "changes", "self.stateful.items()", "[*self.stateful.items()][1:]"),
        Mutant(SessionOperator, "changes", "self._timers.changes()", "()"),
        Mutant(TimedState, "changes", "yield from layer.changes()", "yield from [*layer.changes()][1:]"),
        Mutant(Layer, "evict", "self.complete = self.complete and (not gone)", "pass"),
    ],
    ("late", RESTARTING): [Mutant(Inputs, "_told", " - source.out_of_order", "")],
    ("two streams", RESTARTING): [
        Mutant(Timeline, "restore", "self._slowest(line)", "(max(self.now[at] for at in line.follows), False)")
    ],
}
"""Mistakes, by the cases that can show them and by who runs those."""

PLANTED = [
    pytest.param(mutant, kind, target, id=f"{mutant}, {kind}", marks=[pytest.mark.long] * (number > 0))
    for (kind, target), mutants in MUTANTS.items()
    for number, mutant in enumerate(mutants)
]
"""The first mistake of each kind is planted in each run of the tests; all of them by `make faults`."""


@pytest.mark.slow
@pytest.mark.parametrize(("mutant", "kind", "target"), PLANTED)
def test_a_mistake_is_caught(mutant: Mutant, kind: str, target: Target) -> None:
    with planted(mutant):
        assert any(fails(target, judged) for judged in some_cases(kind, SEARCHES))


@pytest.mark.slow
@pytest.mark.parametrize("target", [STRAIGHT, RESTARTING])
@pytest.mark.parametrize("kind", KINDS)
def test_without_a_mistake_nothing_is_caught(kind: str, target: Target) -> None:
    assert not any(fails(target, judged) for judged in some_cases(kind, 5))
