"""The differential property is worth something: it catches mistakes planted in the kernel and the local engine."""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from inspect import signature
from itertools import chain
from typing import Any

import pytest
from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st

from engines.comparing import difference
from engines.targets import PATIENT, on_driver_in_pieces, on_driver_with_restarts
from faults.mutants import Mutant, Replaced, Rewritten, planted
from fluvial.runtime.kernel.calls.in_flight import InFlightTracker
from fluvial.runtime.kernel.chunked_values import ChunkedValues
from fluvial.runtime.kernel.compiler.compiler import Compiler
from fluvial.runtime.kernel.failures import Failures
from fluvial.runtime.kernel.kinds import join
from fluvial.runtime.kernel.operators.deduplicate import DeduplicateOperator
from fluvial.runtime.kernel.operators.interval_join import JoinOperator
from fluvial.runtime.kernel.operators.join_context import JoinContext
from fluvial.runtime.kernel.operators.latest_join import LatestJoinOperator
from fluvial.runtime.kernel.operators.processor import BoundTimers, ProcessOperator
from fluvial.runtime.kernel.operators.processor_state import BoundList, BoundMap
from fluvial.runtime.kernel.operators.remote_tables import KeyBatcher, RowCache
from fluvial.runtime.kernel.operators.state_entries import ExpiringEntries
from fluvial.runtime.kernel.operators.tables import TableOperator
from fluvial.runtime.kernel.stage import StageTask
from fluvial.runtime.kernel.state_cache import TimeBucketedState, WriteBackCache
from fluvial.runtime.kernel.task_state import TaskState
from fluvial.runtime.kernel.time.bounds import END
from fluvial.runtime.kernel.time.far_timers import FarTimers
from fluvial.runtime.kernel.time.input_ends import InputEnds
from fluvial.runtime.kernel.time.input_progress import InputProgress
from fluvial.runtime.kernel.time.node_watermarks import NodeWatermarks
from fluvial.runtime.kernel.time.producer_watermarks import ProducerWatermarks
from fluvial.runtime.kernel.time.timers import Timers
from fluvial.runtime.kernel.time.watermarks import WatermarkGraph
from fluvial.runtime.kernel.windows.sessions import SessionOperator
from fluvial.runtime.kernel.windows.triggered import TriggeredWindowOperator
from fluvial.runtime.kernel.windows.triggered_sessions import TriggeredSessionOperator
from fluvial.runtime.kernel.windows.tumbling import TumblingOperator
from fluvial.runtime.local.border_progress import BorderProgress
from fluvial.runtime.local.offset_tracker import OffsetTracker
from fluvial.runtime.local.output_router import Router
from generators.cases import Case, Pieces, cases, cases_of, expected, pieces_of
from generators.described_steps import (
    Broadcast,
    Deduplicate,
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
DEDUPLICATED = Description(
    (Source("a", key="str"),),
    (Deduplicate(0, 10, "remainder", 2), Deduplicate(0, 5), Process(0, "running", 2, fails=True)),
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
each kind, tables that are read and filled, triggers of each kind, processors that one message reaches together,
duplicates of messages that fail, and what every task is told beside remote tables."""

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
    "duplicates": cases_of(DEDUPLICATED),
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


def adding(watermark: int) -> Callable[..., None]:
    """Makes an operator whose `add` is given a watermark that is so much more than it was."""

    def make(init: Callable[..., None], self: Any, *arguments: Any) -> None:
        init(self, *arguments)
        add = self.add
        self.add = lambda key, value, timestamp, headers, now: add(key, value, timestamp, headers, now + watermark)

    return make


def advancing_late(advance: Callable[..., bool], self: Any, watermark: int) -> bool:
    return advance(self, watermark if watermark == END else watermark - 1)


def feeding_backwards(feed: Callable[..., int], self: Any, *arguments: Any, **named: Any) -> int:
    stream, partition, offsets, records, *rest = arguments
    return feed(self, stream, partition, offsets, records[::-1], *rest, **named)


def starting_with(**given: Any) -> Callable[..., None]:
    """Makes an object with other arguments of these names."""

    def make(init: Callable[..., None], *arguments: Any, **named: Any) -> None:
        bound = signature(init).bind(*arguments, **named)
        bound.arguments.update(given)
        init(*bound.args, **bound.kwargs)

    return make


def keeping_one_letter(message: Callable[..., None], self: Failures, *arguments: Any) -> None:
    message(self, *arguments)
    del self.dead_letters[1:]


def leaving_always(leave: Callable[..., None], self: JoinContext, side: int, key: bytes, row: Any) -> None:
    row.reported = False
    leave(self, side, key, row)


def taking_nothing_back(undo: Callable[..., Callable[[], None]], *arguments: Any) -> Callable[[], None]:
    undo(*arguments)
    return lambda: None


def nothing(*_: Any) -> None:
    """Whatever it is called with."""


def none_of(*_: Any) -> Iterator[Any]:
    """Whatever there is."""
    return iter(())


STRAIGHT, RESTARTING = on_driver_in_pieces, on_driver_with_restarts

MUTANTS: Mapping[tuple[str, Target], list[Mutant]] = {
    ("late", STRAIGHT): [
        # The bounds of windows, and firing once.
        Replaced("a window takes what comes a moment too late", TumblingOperator, "__init__", adding(watermark=-1)),
        Replaced("a window fires a moment too late", TumblingOperator, "advance", advancing_late),
        Rewritten(
            "a window fires again", TumblingOperator, "_fire_due", "self._fired < end <= watermark", "end <= watermark"
        ),
        Rewritten(
            "a late message to the window that fired last shows nothing",
            TumblingOperator,
            "_add",
            "end <= self._fired",
            "end < self._fired",
        ),
        Replaced("a session takes what comes a moment too late", SessionOperator, "__init__", adding(watermark=-1)),
        Replaced("a session refuses what comes just in time", SessionOperator, "__init__", adding(watermark=+1)),
        Rewritten("a session fires again", SessionOperator, "_fire_due", "not span.fired", "True"),
        Rewritten(
            "a message goes into a session that has fired as if it had not",
            SessionOperator,
            "_adder",
            "not span.fired and",
            "",
        ),
        # A lost merge, and sessions out of order.
        Rewritten("a session that others become loses messages", SessionOperator, "_union", "held[1:]", "held[2:]"),
        Rewritten(
            "the sessions of a key are not in their order",
            SessionOperator,
            "_join",
            "sorted([*(other for other in spans if id(other) not in gone), span], key=_first)",
            "[span, *(other for other in spans if id(other) not in gone)]",
        ),
        # A watermark that takes nothing to be out of order, and panes that come a moment too late.
        Rewritten(
            "a source takes nothing to be out of order", Compiler, "_advance", "f't - {lag}' if lag else 't'", "'t'"
        ),
        Replaced(
            "a pane comes with the watermark of its end",
            NodeWatermarks,
            "firing",
            lambda firing, *place: firing(*place[:-1], place[-1] + 1),
        ),
        # A batch in the wrong order.
        Replaced("a batch is processed backwards", StageTask, "feed", feeding_backwards),
    ],
    ("lateness", STRAIGHT): [
        # Windows forgotten too soon.
        Rewritten(
            "a window forgets at its end what it is still to take",
            TumblingOperator,
            "_fire_due",
            "end + self._lateness <= watermark",
            "end <= watermark",
        ),
        Rewritten("a session is forgotten a gap too soon", SessionOperator, "_expiry", "+ self._retention", "+ 0"),
    ],
    ("on_time", STRAIGHT): [
        # The bounds of sessions.
        Replaced(
            "a session ends a moment too soon",
            SessionOperator,
            "__init__",
            lambda init, self, context, gap: init(self, context, gap - 1),
        ),
        Rewritten(
            "a session does not reach a gap back",
            SessionOperator,
            "_join",
            "span.first - gap <= timestamp",
            "span.first - gap < timestamp",
        ),
        Replaced(
            "a session ends a moment too late",
            SessionOperator,
            "__init__",
            lambda init, self, context, gap: init(self, context, gap + 1),
        ),
        Rewritten(
            "a session reaches back more than a gap",
            SessionOperator,
            "_adder",
            "span.first - gap <= timestamp",
            "span.first - gap - 1 <= timestamp",
        ),
        Rewritten(
            "a session does not begin at an earlier message",
            SessionOperator,
            "_adder",
            "span.first = timestamp",
            "pass",
        ),
        # ControlMessage messages that are dropped, by the reader or for all partitions but one, or believed too soon.
        Replaced("control messages are dropped", InputProgress, "__init__", starting_with(accepts=lambda _: False)),
        Rewritten(
            "control messages go to one partition alone",
            BorderProgress,
            "report",
            "range(partitions)",
            "range(1)",
        ),
        Rewritten(
            "an input ends with its first producer",
            InputEnds,
            "observe",
            "len(ended) >= control.producers",
            "len(ended) >= 1",
        ),
        # Time that does not wait for the slowest producer, or the oldest message in flight.
        Rewritten(
            "time goes with the fastest producer",
            ProducerWatermarks,
            "least",
            "min(marks.values())",
            "max(marks.values())",
        ),
        Replaced(
            "time does not wait for producers that have told nothing",
            InputProgress,
            "__init__",
            starting_with(producers={}),
        ),
        Rewritten(
            "time does not wait for the oldest message in flight",
            InFlightTracker,
            "floor",
            "queue[0].watermark",
            "queue[-1].watermark",
        ),
        # A lost dead letter.
        Replaced("dead letters are lost but for the first", Failures, "message", keeping_one_letter),
    ],
    ("two streams", STRAIGHT): [
        Rewritten("where streams meet time goes with the fastest", WatermarkGraph, "_merge", "min((", "max((")
    ],
    ("joins", STRAIGHT): [
        # Rows that join too much or too little, that are emitted alone twice or never, or forgotten too soon.
        Rewritten(
            "rows of an earlier slot do not join",
            JoinOperator,
            "_adder",
            "(own - size, own, own + size)",
            "(own, own + size)",
        ),
        Rewritten(
            "the last row that is near does not join",
            JoinOperator,
            "_near",
            "last = len(rows) if",
            "last = len(rows) - 1 if",
        ),
        Replaced("a row that has joined is emitted alone too", JoinContext, "leave", leaving_always),
        Rewritten("rows are forgotten too soon", JoinOperator, "_expiry", " + self._within", ""),
        Rewritten(
            "a row without partner is emitted a moment too late",
            JoinOperator,
            "_leave",
            "bisect_right(",
            "bisect_left(",
        ),
        # Time behind a join that does not wait for rows alone.
        Rewritten(
            "time behind a join does not wait for rows without partner",
            WatermarkGraph,
            "_fire",
            "lagging(watermark, node.behind)",
            "watermark",
        ),
    ],
    ("late joins", STRAIGHT): [
        Replaced(
            "a join of latest rows refuses what comes just in time",
            LatestJoinOperator,
            "add",
            lambda add, *given: add(*given[:-2], given[-2] + 1, given[-1]),
        ),
        Rewritten(
            "a latest row is emitted a moment too late", LatestJoinOperator, "_leave", "over <= time", "over < time"
        ),
    ],
    ("triggers", STRAIGHT): [
        Rewritten(
            "the window that fired last takes late messages for early ones",
            TriggeredWindowOperator,
            "_evaluate",
            "end <= self._fired",
            "end < self._fired",
        ),
        Rewritten(
            "a trigger fires together with its window",
            TriggeredWindowOperator,
            "_fire_due",
            "limit > watermark",
            "True",
        ),
        Rewritten(
            "what a late pane would show is dropped with its window",
            TriggeredWindowOperator,
            "_drop",
            "not held.shown",
            "False",
        ),
        Rewritten(
            "the trigger of a session has no time", TriggeredSessionOperator, "_limit", "if span.pending", "if False"
        ),
        Rewritten(
            "a session that others become keeps what its trigger has seen",
            TriggeredSessionOperator,
            "_union",
            "start_anew(united)",
            "pass",
        ),
    ],
    ("tables", STRAIGHT): [
        # Rows that are never deleted, joined rows that outlive theirs, and rows that nobody finds.
        Rewritten("a row is never deleted", TableOperator, "_set", "self._rows.delete(key)", "pass"),
        Rewritten("a joined row outlives its rows", TableOperator, "_join", "self.has(key)", "False"),
        Rewritten("the deletion of a row is dropped", TableOperator, "_take", "key is None", "row is None"),
        Rewritten(
            "a joined row always needs the right one",
            join,
            "joined_row",
            "needs_right and theirs is None",
            "theirs is None",
        ),
    ],
    ("told", STRAIGHT): [
        # Messages that one task alone is told, rows of other keys, and rows that nobody asks for.
        Rewritten("a broadcast reaches one task alone", Router, "route", "range(route.partitions)", "range(1)"),
        Rewritten(
            "a cache gives the row of another key",
            RowCache,
            "get",
            "self._rows.get(key)",
            "next(iter(self._rows.values()), None)",
        ),
        Rewritten(
            "a batch of keys is asked for nothing",
            KeyBatcher,
            "_call",
            "self._make(batch.fn, batch.rows, ",
            "self._make(batch.fn, {}, ",
        ),
    ],
    ("filled", STRAIGHT): [
        Replaced("no row is found in a table that the pipeline fills", TableOperator, "row", nothing)
    ],
    ("tables", RESTARTING): [
        Replaced("a commit leaves out the rows of tables", TableOperator, "changes", none_of),
        Rewritten(
            "a committed row is forgotten in memory",
            TableOperator,
            "mark_committed",
            "self._rows.mark_committed()",
            "(self._rows.mark_committed(), self._rows.cache.clean.clear())",
        ),
    ],
    ("processors", STRAIGHT): [
        # Entries that are over too late or never, or that are not there again when a message fails.
        Replaced(
            "an entry is there a moment too long",
            ExpiringEntries,
            "__init__",
            lambda init, self, kept, scope, ttl, far_timers: init(self, kept, scope, ttl + 1, far_timers),
        ),
        Rewritten(
            "the time of a processor is the watermark alone",
            ProcessOperator,
            "_adder",
            "timestamp if timestamp > watermark else watermark",
            "watermark",
        ),
        Replaced("what a failed message did to states stays", ProcessOperator, "undo", taking_nothing_back),
        # Timers that fire when they were put off, in the wrong order, or twice.
        Replaced("a timer fires a moment too late", ProcessOperator, "advance", advancing_late),
        Rewritten(
            "a timer that was put off fires at its old time",
            ProcessOperator,
            "_fire_up_to",
            "left == time and due <= now",
            "left == time",
        ),
        Rewritten("timers that are set together fire out of order", ProcessOperator, "_still_set", "sorted(", "list("),
        Rewritten(
            "a timer that has fired is still set", ProcessOperator, "_fire", "timers.times.delete(entry)", "pass"
        ),
        Rewritten("a timer that is set to an earlier time stays", BoundTimers, "flush", "due < before[0]", "False"),
        Rewritten(
            "a timer of the past waits for the time of the call",
            BoundTimers,
            "flush",
            "self.reached + 1",
            "self.now + 1",
        ),
    ],
    ("processors", RESTARTING): [
        Rewritten(
            "a commit leaves out the first state of a processor",
            ProcessOperator,
            "changes",
            "self._entries)",
            "self._entries[1:])",
        ),
        Rewritten("a list is empty after a restart", BoundList, "_fill", "if pieces else []", "if False else []"),
        Rewritten(
            "names that are removed from a map stay after a restart", BoundMap, "flush", "added or removed", "added"
        ),
        Replaced("a commit leaves out far timers", FarTimers, "changes", none_of),
    ],
    ("duplicates", STRAIGHT): [
        Rewritten(
            "what is exactly so far apart is a duplicate",
            DeduplicateOperator,
            "_is_new",
            "-within < timestamp - time < within",
            "-within <= timestamp - time <= within",
        ),
        Rewritten(
            "an earlier message is no duplicate",
            DeduplicateOperator,
            "_is_new",
            "-within < timestamp",
            "0 <= timestamp",
        ),
        Rewritten(
            "the last message alone is remembered",
            DeduplicateOperator,
            "_is_new",
            "(time for time in before if time + self._life > watermark)",
            "()",
        ),
        Rewritten("times are remembered half as long", DeduplicateOperator, "__init__", "2 * ", ""),
        Rewritten(
            "a time is remembered from the earliest one",
            DeduplicateOperator,
            "_is_new",
            "remembered[-1]",
            "remembered[0]",
        ),
        Rewritten(
            "what is behind the watermark is late",
            DeduplicateOperator,
            "_adder",
            "timestamp + within < watermark",
            "timestamp < watermark",
        ),
        Replaced("what a failed message did to times stays", DeduplicateOperator, "undo", taking_nothing_back),
    ],
    ("duplicates", RESTARTING): [
        Replaced("a commit leaves out times", DeduplicateOperator, "changes", none_of),
    ],
    ("on_time", RESTARTING): [
        # A message that is left out, and state that is not written, or not looked for where it was.
        Rewritten(
            "a restart leaves out a message",
            OffsetTracker,
            "land_all",
            "offsets[stop - 1] + 1",
            "offsets[stop - 1] + 2",
        ),
        Replaced("a commit leaves out state", TaskState, "changes", none_of),
        Replaced("a commit leaves out the timers of sessions", Timers, "changes", none_of),
        Rewritten(
            "a commit leaves out the first window",
            TimeBucketedState,
            "changes",
            "yield from cache.changes()",
            "yield from [*cache.changes()][1:]",
        ),
        Rewritten(
            "what is no longer in memory is taken to be nowhere",
            WriteBackCache,
            "evict",
            "self.complete = self.complete and (not gone)",
            "pass",
        ),
        Rewritten(
            "a chunk is written only where there was none",
            ChunkedValues,
            "changes",
            "known != (bounds, digest)",
            "known is None",
        ),
    ],
    ("late", RESTARTING): [
        Rewritten(
            "a restart forgets what may be out of order",
            ProducerWatermarks,
            "_reported_by",
            " - source.out_of_order",
            "",
        )
    ],
    ("two streams", RESTARTING): [
        Rewritten(
            "a restart goes on with the fastest stream",
            NodeWatermarks,
            "restore",
            "self.slowest(node)",
            "(max(self.now[at] for at in node.follows), False)",
        )
    ],
}
"""Mistakes, by the cases that can show them and by who runs those."""

PLANTED = [
    pytest.param(mutant, kind, target, id=f"{mutant}, {kind}")
    for (kind, target), mutants in MUTANTS.items()
    for mutant in mutants
]


@pytest.mark.parametrize("mutant", [mutant for mutants in MUTANTS.values() for mutant in mutants], ids=str)
def test_a_mistake_has_its_place_in_the_code(mutant: Mutant) -> None:
    """Where code has changed, this shows it in each run of the tests; what finds the mistakes runs at length alone."""
    with planted(mutant):
        pass


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize(("mutant", "kind", "target"), PLANTED)
def test_a_mistake_is_caught(mutant: Mutant, kind: str, target: Target) -> None:
    with planted(mutant):
        assert any(fails(target, judged) for judged in some_cases(kind, SEARCHES))


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("target", [STRAIGHT, RESTARTING])
@pytest.mark.parametrize("kind", KINDS)
def test_without_a_mistake_nothing_is_caught(kind: str, target: Target) -> None:
    assert not any(fails(target, judged) for judged in some_cases(kind, 5))
