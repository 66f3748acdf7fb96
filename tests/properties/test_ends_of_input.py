"""Runs to the end of their input, one after the other: what the plan does not name comes out as of one run."""

from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, TypeGuard, get_args

import msgspec
import networkx as nx
import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from engines.comparing import assert_same
from engines.spark_in_process import BUCKETS, lowered_in_runs
from engines.targets import PATIENT, append, outputs_of, with_remote_rows
from fluvial.dsl.message import Record
from fluvial.planner import Plan, Settings, plan
from fluvial.planner.ends_of_input import end_dependences
from fluvial.planner.kinds import PLANNER_KINDS
from fluvial.runtime import run
from fluvial.runtime.spark.lowering.lowering import has_loop
from fluvial.runtime.systems import LogSystem
from generators.building import build
from generators.case_windows import AGGREGATES
from generators.cases import Case, Pieces, cases, cases_of, expected, pieces_of
from generators.described_steps import Border, Merge, Source, Step, When, WindowStep
from generators.descriptions import Description, Mode
from generators.draft import Extra, Windows
from generators.how_many import examples
from oracle.interpreter import Outputs

Kind = Literal["tumbling", "session", "hopping", "unbounded"]
Table = dict[tuple[bytes | None, int, int], Any]
"""The values of panes by key and window, each in place of the one before."""


@st.composite
def windowed(draw: st.DrawFn, mode: Mode) -> Case:
    """Windows of one keyed stream, or of two that are merged, some of them behind a border."""
    waits = draw(st.lists(st.sampled_from((0, 5, 20, 300)), min_size=1, max_size=1 if mode == "late" else 2))
    steps: list[Step] = [Merge(0, (1,))] if len(waits) > 1 else []
    node = len(waits) - 1 + len(steps)
    if draw(st.booleans()):
        steps.append(Border(node, "str", "word", 0))
    nodes = list(range(node, len(waits) + len(steps)))
    times = st.none() | st.sampled_from((1, 5, 10, 50)) if mode == "late" else st.none()
    by_count, by_time = (
        st.builds(When, st.integers(1, 3), times, times, repeats=st.booleans()),
        st.builds(When, st.none(), st.sampled_from((1, 5, 10, 50)), times, repeats=st.booleans()),
    )
    some = st.booleans().flatmap(lambda any: (by_count | by_time if mode == "late" else by_count) if any else st.none())
    for number in range(draw(st.integers(1, 2))):
        kind: Kind = draw(st.sampled_from(("tumbling", "tumbling", "session", "hopping", "unbounded")))
        size = draw(st.sampled_from((1, 10, 50)))
        lateness = 0 if kind == "unbounded" else draw(st.sampled_from((0, 10, 50)))
        step = WindowStep(
            draw(st.sampled_from(nodes[::-1])),
            kind,
            size,
            draw(st.sampled_from((*["count"] * 8, *sorted(AGGREGATES)))),
            lateness=lateness,
            accumulate=draw(st.sampled_from((True, True, True, False))),
            panes=f"panes-{number}",
            every=max(1, size // 2),
            trigger=draw(some),
            late_trigger=draw(some) if lateness else None,
        )
        steps.append(step)
    sources = tuple(Source(name, "str", "record", wait) for name, wait in zip("ab", waits, strict=False))
    return draw(cases_of(Description(sources, tuple(steps), "fail", mode), max_records=20))


CutCase = tuple[Case, Pieces, set[int]]
"""A case, the order in which its inputs come, and the numbers of pieces behind which a run has come to its end."""


@st.composite
def in_runs(draw: st.DrawFn, *modes: Mode) -> CutCase:
    """Windows, or random pipelines, cut into runs."""
    mode = draw(st.sampled_from(modes))
    windows: Windows = "triggers" if mode == "late" else "plain"
    case = draw(st.one_of(windowed(mode), cases(mode, max_records=12, windows=windows, extras=get_args(Extra))))
    pieces = draw(pieces_of(case.inputs, case.first))
    return case, pieces, draw(st.sets(st.integers(1, max(1, len(pieces)))))


MANY = settings(max_examples=examples(200), deadline=None, suppress_health_check=PATIENT)


@pytest.mark.timeout(1800)  # at length, beside others
@MANY
@given(in_runs("on_time", "late"))
def test_results_that_no_end_parts_are_those_of_one_run(runs: CutCase) -> None:
    assert_no_end_parts(runs[0], written_in_runs(*runs), expected(runs[0]))


@pytest.mark.timeout(1800)
@MANY
@given(in_runs("on_time"))  # Spark's batches may take what is late in
def test_so_they_are_in_the_levels_of_spark(runs: CutCase) -> None:
    case, _, _ = runs
    made = plan(build(case.description), partitions=case.partitions)
    assume(not has_loop(made))
    assert_no_end_parts(case, lowered_in_runs(*runs), expected(case, BUCKETS))


def assert_no_end_parts(case: Case, found: Outputs, wanted: Outputs) -> None:
    """Assert that what several runs have written is what one run writes, as far as the plan names no difference."""
    made = plan(build(case.description), partitions=case.partitions)
    same, panes = streams_by_what_holds(made, {*found, *wanted})
    event(f"streams of panes: {bool(panes)}")
    assert_same({name: found.get(name, []) for name in same}, {name: wanted.get(name, []) for name in same})
    for name in panes:
        assert table_of(found.get(name, [])) == table_of(wanted.get(name, [])), name
    for name in panes & {f"{step.panes}" for step in case.description.steps if counts_all(step)}:
        assert not repeated(found.get(name, [])), name


@with_remote_rows
def written_in_runs(case: Case, pieces: Pieces, ends: set[int]) -> Outputs:
    """Write piece by piece, with a run to the end behind each of these numbers of pieces, and one at last."""
    pipeline = build(case.description)
    with TemporaryDirectory() as folder:
        system = LogSystem(Path(folder), fsync=False)
        for stream, count in case.partitions.items():
            system.admin().create(stream, count)
        for number, (partition, records) in enumerate(pieces, 1):
            append(system, *partition, records)
            if number in ends:
                run(pipeline, system=system, until="end", settings=Settings(cached_entries=3))
        run(pipeline, system=system, until="end")
        return outputs_of(system, {*case.inputs}, pipeline.name)


def streams_by_what_holds(made: Plan, streams: Iterable[str]) -> tuple[set[str], set[str]]:
    """The streams of which each message is to be the same, and those of panes that are to be read as a table."""
    graph = made.pipeline.graph
    operators = {one.id: one for one in made.pipeline.operators}
    graph.add_edges_from((id, one.fills) for id, one in operators.items() if one.fills is not None)
    dependent = {one.operator for one in end_dependences(made)}
    firing = {id for id, one in operators.items() if PLANNER_KINDS[one].fires_at_end(one)}
    same, panes = set[str](), set[str]()
    for stream in streams:
        writers = {one.id for one in made.operators if stream in one.writes}
        before = {*writers, *(id for writer in writers for id in nx.ancestors(graph, writer))}
        before = before or {*operators}  # of what is not in the plan, such as dead letters, any may be the writer
        if dependent & {operators[id].label for id in before}:
            continue
        if not before & firing:
            same.add(stream)
        elif stream.startswith("panes"):
            panes.add(stream)
    return same, panes


def counts_all(step: Step) -> TypeGuard[WindowStep]:
    """Whether each pane of a window has another value than the one before it, unless it fired for no message."""
    return isinstance(step, WindowStep) and step.aggregate == "count" and step.trigger is None


def repeated(records: Iterable[Record]) -> list[Record]:
    """The panes that say what the pane before them of their key and window has said."""
    table, again = Table(), list[Record]()
    for key, value, timestamp, headers in records:
        pane = msgspec.json.decode(value or b"")
        at = key, pane["window"]["start"], pane["window"]["end"]
        if table.get(at) == pane["value"]:
            again.append((key, value, timestamp, headers))
        table[at] = pane["value"]
    return again


def table_of(records: Iterable[Record]) -> Table:
    """Read panes as upserts by key and window; those that a session replaces are removed."""
    table = Table()
    for key, value, _, _ in records:
        pane = msgspec.json.decode(value or b"")
        for window in pane["replaces"]:
            table.pop((key, window["start"], window["end"]), None)
        table[key, pane["window"]["start"], pane["window"]["end"]] = pane["value"]
    return table
