"""The driver under random batchings, interleavings, commits and crashes: what is written stays what the oracle says."""

from datetime import timedelta
from typing import Any, get_args

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from engines.comparing import assert_same, without_repeats
from engines.targets import PATIENT, driver_outputs, feed_whole, with_remote_rows
from faults.commit_deaths import run_in_spite_of
from fluvial.planner import Settings
from fluvial.planner.settings import Guarantee
from fluvial.runtime.testing import PipelineDriver
from generators.building import build
from generators.cases import Case, cases, expected, pieces_of
from generators.described_steps import Async, WindowStep
from generators.draft import Extra
from generators.how_many import examples
from oracle.interpreter import Outputs

MANY = settings(max_examples=examples(60), deadline=None, suppress_health_check=PATIENT)


def drawn_results(data: st.DataObject) -> Any:
    """Ends asynchronous calls in an order that Hypothesis draws, some of them later than others."""
    return lambda calls: data.draw(st.sampled_from([*range(len(calls)), None]), label="next call to end")


def driver_for(case: Case, guarantee: Guarantee, data: st.DataObject) -> PipelineDriver:
    settings = Settings(guarantee=guarantee)
    return PipelineDriver(
        build(case.description),
        partitions=case.partitions,
        settings=settings,
        async_results=drawn_results(data),
        commits="timed",
    )


def feed(driver: PipelineDriver, case: Case, data: st.DataObject, steps: tuple[str, ...]) -> None:
    """Send the inputs in random pieces, with random steps between them."""
    for (stream, partition), records in data.draw(pieces_of(case.inputs, case.first), label="pieces"):
        driver.records.send(stream, records, partition=partition)
        take(driver, data.draw(st.sampled_from(steps), label="step"))


def take(driver: PipelineDriver, step: str) -> None:
    match step:
        case "advance":
            driver.advance(timedelta(milliseconds=700))
        case "commit":
            driver.commit()
        case "crash":
            driver.crash()
            driver.restart()
        case _:
            assert step == "go on"


@with_remote_rows
def written(case: Case, guarantee: Guarantee, data: st.DataObject, steps: tuple[str, ...]) -> Outputs:
    with driver_for(case, guarantee, data) as driver:
        feed(driver, case, data, steps)
        driver.end()
        return driver_outputs(driver)


@MANY
@given(cases(max_records=12, extras=get_args(Extra)), st.data())
def test_batches_and_their_order_mean_nothing(case: Case, data: st.DataObject) -> None:
    assert_same(written(case, "at_least_once", data, ("go on", "advance", "commit")), expected(case))


@MANY
@given(cases(max_records=12, extras=get_args(Extra)), st.data())
def test_crashes_do_not_show_under_exactly_once(case: Case, data: st.DataObject) -> None:
    found = written(case, "exactly_once", data, ("go on", "advance", "commit", "crash"))
    # What was written to a remote table and not committed is written again.
    assert_same(without_repeats(found), without_repeats(expected(case)))


@MANY
@given(cases(max_records=12, extras=["tables"]), st.data())
def test_nothing_is_missing_after_crashes_under_at_least_once(case: Case, data: st.DataObject) -> None:
    # Counts behind asynchronous work may be higher, for its results may come twice.
    kinds = [type(step) for step in case.description.steps]
    assume(not (Async in kinds and WindowStep in kinds))
    found = written(case, "at_least_once", data, ("go on", "advance", "commit", "crash"))
    for stream, messages in expected(case).items():
        rest = list(found[stream])
        for message in messages:
            assert message in rest or stream.endswith("-dead-letters"), f"{message} is missing in {stream}"


@MANY
@given(cases(max_records=12, extras=get_args(Extra)), st.lists(st.integers(0, 12), max_size=3))
def test_a_death_in_the_middle_of_a_commit_does_not_show(case: Case, deaths: list[int]) -> None:
    assert_same(without_repeats(written_by_the_dying(case, deaths)), without_repeats(expected(case)))


@with_remote_rows
def written_by_the_dying(case: Case, deaths: list[int]) -> Outputs:
    settings = Settings(guarantee="exactly_once")
    with PipelineDriver(build(case.description), partitions=case.partitions, settings=settings) as driver:
        driver.crash()
        feed_whole(driver, case.inputs)
        run_in_spite_of(deaths, driver.restart, driver.commit)
        driver.end()
        return driver_outputs(driver)
