"""Progress: what is due is written though the input goes on; the end of input is not what makes time pass."""

from datetime import timedelta

import msgspec
import pytest
from hypothesis import Phase, given, settings

from engines.comparing import difference
from engines.targets import PATIENT, driver_outputs, feed_whole
from faults.mutants import Mutant, Rewritten, planted
from fluvial.dsl.message import Record
from fluvial.dsl.serde import encode_key
from fluvial.runtime.kernel.compiler.compiler import Compiler
from fluvial.runtime.kernel.time.input_progress import InputProgress
from fluvial.runtime.kernel.time.node_watermarks import NodeWatermarks
from fluvial.runtime.testing import PipelineDriver
from generators.building import build
from generators.case_events import Event
from generators.cases import Case, cases, cases_of, expected
from generators.described_steps import Filter, Source, WindowStep
from generators.descriptions import Description
from generators.how_many import examples
from oracle.interpreter import Outputs

QUIET = Description(
    (Source("a", key="str"),),
    (
        Filter(0, "above", 2),
        WindowStep(1, "tumbling", 10, "count", crosses=True),
        WindowStep(2, "tumbling", 50, "count", panes="panes"),
    ),
)
"""The second window hears of time only by control messages where the first has nothing to fire."""

MUTANTS: list[Mutant] = [
    Rewritten(
        "what is read lets nothing fire",
        Compiler,
        "_read",
        "text.add(2, f'advance_{number}(w)')",
        "text.add(2, f'now[{path.node}] = w')",
    ),
    Rewritten(
        "the end that a producer tells moves nothing",
        InputProgress,
        "_control",
        "self.report(stream, control.producer, control.watermark, idle=control.idle)",
        "pass",
    ),
    Rewritten("what fired before the end is forgotten", NodeWatermarks, "reported", "self.now[index] != END", "False"),
]

FAR = 2**46
"""Later than all that cases hold, and than every window of it."""


def before_the_end(case: Case) -> Outputs:
    """What has been written when a last message has come to each partition, long after all others."""
    with PipelineDriver(build(case.description), partitions=case.partitions, commits="timed") as driver:
        feed_whole(driver, case.inputs)
        for source in case.description.sources:
            for partition in range(case.partitions[source.stream]):
                driver.records.send(source.stream, [last(source)], partition=partition)
        driver.advance(timedelta(seconds=1))
        driver.commit()
        return driver_outputs(driver)


def last(source: Source) -> Record:
    key = {"str": b"a", "int": encode_key(0), None: None}[source.key]
    return key, msgspec.json.encode(Event("a", 0, FAR)), FAR, ()


def missing(case: Case) -> str:
    """What the oracle writes for a case and `before_the_end` does not."""
    lines = difference(before_the_end(case), expected(case)).splitlines()
    return "\n".join(line for line in lines if line.startswith("  missing"))


@settings(max_examples=examples(50), deadline=None, suppress_health_check=PATIENT)
@given(cases("on_time", max_steps=6, max_records=12))
def test_what_is_due_is_written_before_the_end(case: Case) -> None:
    assert not missing(case)


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_time_that_stands_still_is_noticed(mutant: Mutant) -> None:
    @settings(max_examples=50, deadline=None, database=None, derandomize=True, phases=[Phase.generate])
    @given(cases_of(QUIET, max_records=12))
    def check(case: Case) -> None:
        assert not missing(case)

    with planted(mutant), pytest.raises(AssertionError):
        check()
