"""Any number of containers, some of which die in the middle of the run, write what one does."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import get_args
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.comparing import assert_same, without_repeats
from engines.several import at_each_turn, run_together
from engines.targets import PATIENT, outputs_of, with_remote_rows, write
from fluvial.planner import Settings
from fluvial.runtime.local import container
from fluvial.runtime.systems import LogSystem
from generators.building import build
from generators.cases import Case, cases, expected
from generators.descriptions import Mode
from generators.draft import Extra
from generators.how_many import examples
from oracle.interpreter import Outputs

FEW = settings(max_examples=examples(30), deadline=None, suppress_health_check=PATIENT)


@with_remote_rows
def in_containers(case: Case, containers: int, deaths: Sequence[tuple[int, int]] = (), elasticity: int = 1) -> Outputs:
    with TemporaryDirectory() as folder:
        # Small files, and a trim at each turn: what containers still need must be kept.
        system = LogSystem(Path(folder), fsync=False, segment_bytes=300)
        write(system, case.inputs)
        pipeline = build(case.description)
        often = Settings(guarantee="exactly_once", commit_interval=timedelta(0), elasticity=elasticity)
        with patch.object(container, "TRIM_SECONDS", 0.0):
            run_together(system, pipeline, containers, often, deaths)
        return outputs_of(system, {*case.inputs}, pipeline.name)


ELASTICITY: Mapping[Mode, st.SearchStrategy[int]] = {"on_time": st.sampled_from([1, 2, 4]), "late": st.just(1)}
"""What is late behind a border depends on how many tasks write the stream."""
EXTRAS = pytest.mark.parametrize("extras", [(), get_args(Extra)], ids=["windows and borders", "all operators"])


@pytest.mark.slow
@EXTRAS
@pytest.mark.parametrize("mode", ["on_time", "late"])
def test_containers_write_what_the_oracle_does(mode: Mode, extras: Sequence[Extra]) -> None:
    @FEW
    @given(cases(mode, negative=False, extras=extras), st.integers(2, 4), ELASTICITY[mode])
    def check(case: Case, containers: int, elasticity: int) -> None:
        assert_same(in_containers(case, containers, elasticity=elasticity), expected(case, elasticity=elasticity))

    check()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "extras"),
    [
        ("on_time", ()),
        ("on_time", get_args(Extra)),
        ("late", ()),
        ("late", get_args(Extra)),
    ],
    ids=["on_time, windows and borders", "on_time, all operators", "late, windows and borders", "late, all operators"],
)
def test_containers_that_die_repeat_and_lose_nothing(mode: Mode, extras: Sequence[Extra]) -> None:
    @FEW
    @given(
        cases(mode, negative=False, extras=extras),
        st.integers(2, 3),
        st.lists(st.tuples(st.integers(0, 2), st.integers(0, 12)), max_size=6),
        ELASTICITY[mode],
    )
    def check(case: Case, containers: int, deaths: list[tuple[int, int]], elasticity: int) -> None:
        with at_each_turn():
            written = in_containers(case, containers, deaths, elasticity)
        # A row that was written and not committed is written to its remote table again.
        assert_same(without_repeats(written), without_repeats(expected(case, elasticity=elasticity)))

    check()
