"""A bootstrap stream comes before the other inputs of its tasks."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from engines.few_records import FewRecords
from engines.targets import contents, write
from explained import assert_explains, error_of
from fluvial.dsl import Pipeline, PipelineError, collect, tumbling
from fluvial.planner import plan
from fluvial.runtime import run
from fluvial.runtime.testing import PipelineDriver

DAY = tumbling(timedelta(days=1))


def merged(first: str, then: str) -> Pipeline:
    """Both streams in one window, which keeps the order in which the messages were processed."""
    pipeline = Pipeline("p")
    streams = [pipeline.stream(name, value=int, key=str, bootstrap=name == first) for name in sorted((first, then))]
    streams[0].merge(streams[1]).window(DAY, collect(), id="w").map(lambda pane: pane.value).send_to("out")
    return pipeline


@given(st.integers(0, 20), st.integers(0, 20), st.booleans())
def test_all_it_holds_at_the_start_is_processed_first(rates: int, orders: int, comes_last: bool) -> None:
    first, then = ("b", "a") if comes_last else ("a", "b")
    system = FewRecords()
    inputs = {first: rates, then: orders}
    write(system, {name: [[(b"k", b"%d" % (name == then), 0, ())] * count] for name, count in inputs.items()})
    run(merged(first, then), system=system, until="end")
    expected = [b"[%s]" % b",".join([b"0"] * rates + [b"1"] * orders)] if rates + orders else []
    assert [record[1] for record in contents(system, "out")] == expected


def test_what_comes_later_is_processed_as_it_comes() -> None:
    with PipelineDriver(merged("a", "b")) as driver:
        for stream, value in (("b", 1), ("a", 0), ("b", 2), ("a", 3)):
            driver.send(stream, value, key="k", timestamp=0)
        driver.end()
        assert [message.value for message in driver.read("out")] == [[1, 0, 2, 3]]


def test_after_a_restart_what_has_come_meanwhile_is_processed_first() -> None:
    with PipelineDriver(merged("a", "b")) as driver:
        driver.send("a", 0, key="k", timestamp=0)
        driver.crash()
        for stream, value in (("b", 2), ("a", 1)):
            driver.send(stream, value, key="k", timestamp=0)
        driver.restart()
        driver.end()
        assert [message.value for message in driver.read("out")] == [[0, 1, 2]]


def test_the_plan_shows_it() -> None:
    details = [operator.details for operator in plan(merged("a", "b")).operators if operator.reads]
    assert [found.get("bootstrap") for found in details] == ["first", None]


def test_anything_but_true_and_false_is_refused() -> None:
    wrong: bool = "yes"  # type: ignore[assignment]
    error = error_of(lambda: Pipeline("p").stream("in", value=int, bootstrap=wrong), PipelineError)
    assert_explains(error, "stream 'in': bootstrap='yes'", None, "True or False")
