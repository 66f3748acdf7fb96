"""Tasks that read one partition of one stream write what tasks do that read those of one number."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.comparing import assert_same
from engines.several import run_together
from engines.targets import PATIENT, outputs_of, write
from fluvial.planner import Settings, plan
from fluvial.planner.grouping import BY_STREAM_PARTITION
from fluvial.runtime.systems import LogSystem
from generators.building import build
from generators.cases import Case, cases_of, expected
from generators.descriptions import Description
from generators.how_many import examples
from generators.pipelines import pipelines
from oracle.interpreter import Outputs

DEATHS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9)), max_size=3)
"""A container, and the turn at which it dies."""
MANY = settings(max_examples=examples(40, least=4), deadline=None, suppress_health_check=PATIENT)
APART = Settings(
    guarantee="exactly_once", commit_interval=timedelta(0), group_by=BY_STREAM_PARTITION, forget_at_end=True
)


def has_tasks_apart(description: Description) -> bool:
    """Whether there is a stage whose tasks read one stream each: of few pipelines, so that this is asked for before
    there are messages."""
    return any(stage.group_by == BY_STREAM_PARTITION for stage in plan(build(description), settings=APART).stages)


APART_CASES = (
    pipelines("on_time").filter(has_tasks_apart).flatmap(lambda description: cases_of(description, negative=False))
)


def in_containers(case: Case, containers: int, deaths: Sequence[tuple[int, int]]) -> Outputs:
    """What is written by containers that die at these turns, with tasks of one stream each where stages allow it."""
    with TemporaryDirectory() as folder:
        system = LogSystem(Path(folder), fsync=False, segment_bytes=300)
        write(system, case.inputs)
        pipeline = build(case.description)
        run_together(system, pipeline, containers, APART, deaths)
        return outputs_of(system, {*case.inputs}, pipeline.name)


@pytest.mark.slow
@MANY
@given(APART_CASES, st.integers(1, 3), DEATHS)
def test_tasks_of_one_stream_write_what_the_oracle_does(
    case: Case, containers: int, deaths: list[tuple[int, int]]
) -> None:
    deaths = [death for death in deaths if death[0] < containers]
    assert_same(in_containers(case, containers, deaths), expected(case))
