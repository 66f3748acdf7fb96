"""However often the elasticity of a pipeline changes between runs, all of them together write what one run writes."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from typing import get_args
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.comparing import assert_same, without_repeats
from engines.sending import ProducingSystem
from engines.several import Death, Progressing, at_each_turn
from engines.targets import PATIENT, append, outputs_of, with_remote_rows, write
from fluvial.planner import Settings
from fluvial.runtime import run
from fluvial.runtime.local import container
from fluvial.runtime.systems import LogSystem, System
from generators.building import build
from generators.cases import Case, Pieces, cases, expected_at_any_elasticity, pieces_of
from generators.draft import Extra
from generators.how_many import examples
from oracle.interpreter import Outputs

ELASTICITY = st.sampled_from([1, 2, 4, 8])
TURN = st.integers(0, 12)
MOST = 5
"""Runs of an example: enough to split tasks, merge them, split them again, and merge and split others."""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["log", "sent"])
def test_runs_of_any_elasticity_write_what_one_run_writes(kind: str) -> None:
    @settings(max_examples=examples(30, least=4), deadline=None, suppress_health_check=PATIENT)
    @given(cases("on_time", max_records=10, extras=get_args(Extra)), st.data())
    def check(case: Case, data: st.DataObject) -> None:
        outputs = expected_at_any_elasticity(case)
        pieces = data.draw(pieces_of(case.inputs, case.first), label="pieces")
        most = min(len(pieces) + 1, MOST)
        several = st.lists(ELASTICITY, min_size=min(most, 3), max_size=most)
        assert_same(written_in_runs(kind, case, pieces, data.draw(several, label="elasticity")), outputs)

    check()


@pytest.mark.slow
def test_runs_that_die_leave_tasks_apart_and_lose_nothing() -> None:
    @settings(max_examples=examples(30, least=4), deadline=None, suppress_health_check=PATIENT)
    @given(
        cases("on_time", negative=False, extras=get_args(Extra)),
        st.lists(st.tuples(ELASTICITY, TURN), min_size=2, max_size=MOST),
        ELASTICITY,
    )
    def check(case: Case, deaths: list[tuple[int, int]], last: int) -> None:
        outputs = expected_at_any_elasticity(case)
        written = written_in_spite_of(case, deaths, last)
        # A row that was written and not committed is written to its remote table again.
        assert_same(without_repeats(written), without_repeats(outputs))

    check()


@with_remote_rows
def written_in_spite_of(case: Case, deaths: Sequence[tuple[int, int]], last: int) -> Outputs:
    """Run to the end, each time with an elasticity and up to the turn in which the run dies, and at last to the end."""
    pipeline = build(case.description)
    with TemporaryDirectory() as folder:
        system = LogSystem(Path(folder), fsync=False, segment_bytes=300)
        write(system, case.inputs)
        with patch.object(container, "TRIM_SECONDS", 0.0), at_each_turn():
            for elasticity, turn in deaths:
                chosen = Settings(guarantee="exactly_once", commit_interval=timedelta(0), elasticity=elasticity)
                with suppress(Death):
                    run(pipeline, system=system, until="end", settings=chosen, progress=Progressing(turn, Event()))
        run(pipeline, system=system, until="end", settings=Settings(elasticity=last))
        return outputs_of(system, {*case.inputs}, pipeline.name)


@with_remote_rows
def written_in_runs(kind: str, case: Case, pieces: Pieces, elasticity: Sequence[int]) -> Outputs:
    """Write piece by piece, with a run of each elasticity that catches up behind the first ones, and one to the end."""
    pipeline = build(case.description)
    with TemporaryDirectory() as folder:
        system: System = ProducingSystem() if kind == "sent" else LogSystem(Path(folder), fsync=False)
        for stream, count in case.partitions.items():
            system.admin().create(stream, count)
        *first, last = elasticity
        for number, (partition, records) in enumerate(pieces):
            append(system, *partition, records)
            if number < len(first):
                small = Settings(cached_entries=3, elasticity=first[number], state_dir=folder)
                run(pipeline, system=system, until="caught-up", settings=small)
        run(pipeline, system=system, until="end", settings=Settings(elasticity=last, state_dir=folder))
        return outputs_of(system, {*case.inputs}, pipeline.name)
