"""Windows behind a border that aggregates messages: the panes of messages sent alone, from each engine."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.comparing import assert_same
from engines.spark_in_process import lowered_pipeline
from engines.targets import PATIENT, driver_outputs, run_on
from fluvial.dsl.message import Record
from fluvial.runtime.systems import LogSystem, MemorySystem
from fluvial.runtime.testing import PipelineDriver
from generators.how_many import examples
from generators.tallies import AGGREGATES, ASSIGNERS, tallied
from oracle.interpreter import run_oracle

SOME = settings(max_examples=examples(300), deadline=None, suppress_health_check=PATIENT)
VALUES = st.sampled_from(["a1", "a2", "a10", "a", "a3", "b12", "b5", "b-4"])
"""Most are of one letter; `a` is no number."""
STEPS = st.sampled_from([0, 0, 0, 1, 2, 5, -2, -9])
MESSAGES = st.lists(st.tuples(VALUES, STEPS), min_size=1, max_size=60)
SHAPES = st.tuples(st.sampled_from(sorted(AGGREGATES)), st.sampled_from(sorted(ASSIGNERS)))


def records(messages: list[tuple[str, int]]) -> list[Record]:
    """Messages at times that mostly rise; some come late."""
    made: list[Record] = []
    now = 100
    for value, step in messages:
        now += max(step, 0)
        made.append((None, value.encode(), now + min(step, 0), ()))
    return made


@pytest.mark.slow
@SOME
@given(SHAPES, MESSAGES, st.integers(1, 20))
def test_panes_and_late_messages_are_those_of_messages_sent_alone(
    shape: tuple[str, str], messages: list[tuple[str, int]], batch: int
) -> None:
    inputs = {"in": [records(messages)]}
    wanted = run_oracle(tallied(*shape), inputs)
    assert_same(run_on(MemorySystem(), tallied(*shape), inputs), wanted)
    with TemporaryDirectory() as folder:
        assert_same(run_on(LogSystem(Path(folder), fsync=False), tallied(*shape), inputs, batches=batch), wanted)
    counts = []
    for combine in (True, False):
        with PipelineDriver(tallied(*shape, combine=combine)) as driver:
            for start in range(0, len(messages), batch):
                driver.records.send("in", inputs["in"][0][start : start + batch])
            driver.end()
            assert_same(driver_outputs(driver), wanted)
            counts.append((driver.report().late, driver.report().failed))
    assert counts[0] == counts[1]


@pytest.mark.slow
@SOME
@given(SHAPES, MESSAGES, st.integers(1, 20))
def test_the_lowering_to_spark_gives_the_panes_of_messages_sent_alone(
    shape: tuple[str, str], messages: list[tuple[str, int]], batch: int
) -> None:
    inputs = {"in": [sorted(records(messages), key=lambda record: record[2])]}
    assert_same(lowered_pipeline(tallied(*shape), inputs, batch), run_oracle(tallied(*shape), inputs))
