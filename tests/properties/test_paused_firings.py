"""Firings that pause behind each emission, with commits and deaths between, write what the oracle does."""

from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import get_args
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.comparing import assert_same, without_repeats
from engines.targets import PATIENT, driver_outputs, feed_whole, run_on, with_remote_rows
from faults.commit_deaths import run_in_spite_of
from fluvial.planner import Settings
from fluvial.runtime.kernel import firing_pauses
from fluvial.runtime.process.machine import THIS_MACHINE
from fluvial.runtime.systems import LogSystem
from fluvial.runtime.testing import PipelineDriver, driver
from generators.building import build
from generators.cases import Case, Target, cases, expected
from generators.draft import Extra
from generators.how_many import examples
from oracle.interpreter import Outputs

MANY = settings(max_examples=examples(80), deadline=None, suppress_health_check=PATIENT)


def opened(case: Case, exclusive: bool) -> Case:
    return replace(case, description=replace(case.description, exclusive=exclusive))


CASES = st.builds(opened, cases(max_records=14, windows="triggers", extras=get_args(Extra)), st.booleans())

PATIENTLY = Settings(guarantee="exactly_once", max_staged_bytes=1, cached_entries=2)
"""A commit is due behind each output."""


def pausing() -> AbstractContextManager[object]:
    """Firings pause behind each emission, until what was handed on is committed."""
    return patch.object(firing_pauses, "PIECE", 1)


@with_remote_rows
def on_driver_in_pieces(case: Case) -> Outputs:
    with PipelineDriver(build(case.description), partitions=case.partitions, settings=PATIENTLY) as running:
        feed_whole(running, case.inputs)
        running.end()
        return driver_outputs(running)


@with_remote_rows
def on_log_in_pieces(case: Case) -> Outputs:
    with TemporaryDirectory() as folder:
        system = LogSystem(Path(folder), fsync=False)
        return run_on(system, build(case.description), case.inputs, settings=PATIENTLY, batches=3)


@pytest.mark.parametrize("target", [on_driver_in_pieces, on_log_in_pieces])
@MANY
@given(case=CASES)
def test_pauses_change_nothing(target: Target, case: Case) -> None:
    with pausing():
        found = target(case)
    assert_same(found, expected(case))


@MANY
@given(CASES, st.lists(st.integers(0, 30), max_size=6))
def test_a_death_between_two_pieces_does_not_show(case: Case, deaths: list[int]) -> None:
    with pausing():
        found = written_by_the_dying(case, deaths)
    assert_same(without_repeats(found), without_repeats(expected(case)))


@with_remote_rows
def written_by_the_dying(case: Case, deaths: list[int]) -> Outputs:
    """One run to the end, which dies after so many steps of commits each time, and is started again."""
    one_run = patch.object(driver, "THIS_MACHINE", replace(THIS_MACHINE, new_id=lambda: "0" * 32))
    with one_run, PipelineDriver(build(case.description), partitions=case.partitions, settings=PATIENTLY) as running:
        running.crash()
        feed_whole(running, case.inputs)
        run_in_spite_of(deaths, running.restart, running.end)
        running.end()
        return driver_outputs(running)
