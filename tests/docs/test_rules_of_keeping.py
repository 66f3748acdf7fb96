"""What the pages of window and join say is so."""

from typing import Any

import pytest

from fluvial.dsl import (
    Message,
    Pipeline,
    PipelineError,
    aggregate,
    collect,
    count,
    hopping,
    session,
    skip,
    total,
    tumbling,
    unbounded,
)
from fluvial.runtime.testing import PipelineDriver
from generators.rules import HEADERS, SECOND, shown

# window


def windowed(assigner: Any = None, kind: Any = None, **options: Any) -> Pipeline:
    pipeline = Pipeline("p", on_error=skip())
    keyed = pipeline.stream("in", value=int, key=str)
    keyed.window(assigner or tumbling(SECOND), kind or count(), id="window", **options).send_to("out")
    return pipeline


def panes(pipeline: Pipeline, *messages: tuple[int | None, int]) -> list[Message[Any]]:
    with PipelineDriver(pipeline) as driver:
        for value, at in messages:
            driver.send("in", value, key="k", timestamp=at, headers=HEADERS)
        driver.end()
        return driver.read("out")


def test_a_pane_has_the_last_time_of_its_window_and_no_headers() -> None:
    (found,) = panes(windowed(), (1, 200))
    assert (found.key, found.timestamp, found.headers) == ("k", 999, ())


def test_a_pane_without_end_has_the_time_of_the_latest_message() -> None:
    (found,) = panes(windowed(unbounded()), (1, 700), (1, 200))
    assert (found.timestamp, found.value.value) == (700, 2)


def test_messages_without_value_count_and_are_collected() -> None:
    assert panes(windowed(), (None, 0))[0].value.value == 1
    with PipelineDriver(windowed(kind=collect())) as driver:
        for value in (None, 2):
            driver.send("in", value, key="k", timestamp=0)
        driver.end()
        assert b'"value":[null,2]' in (driver.records("out")[0][1] or b"")


def test_a_function_of_an_aggregate_is_given_none_and_its_error_leaves_the_window_as_it_was() -> None:
    def twice(number: int) -> int:
        return 2 * number

    with PipelineDriver(windowed(kind=total(twice))) as driver:
        for value in (3, None, 4):
            driver.send("in", value, key="k", timestamp=0)
        assert driver.end().failed == {"window": 1}
        assert [pane.value for pane in shown(driver)] == [14]


@pytest.mark.parametrize(
    "assigner", [tumbling(SECOND), hopping(SECOND, every=SECOND / 2), session(SECOND / 2)], ids=str
)
def test_windows_that_the_watermark_passes_at_once_fire_in_the_order_of_their_ends(assigner: Any) -> None:
    pipeline = Pipeline("p")
    keyed = pipeline.stream("in", value=int, key=str, out_of_order=10 * SECOND)
    keyed.window(assigner, count(), id="window").send_to("out")
    with PipelineDriver(pipeline) as driver:
        for at in (2500, 500, 3500, 1500, 20_000):
            driver.send("in", 1, key="k", timestamp=at)
        ends = [pane.window.end for pane in shown(driver)]
    assert len(ends) >= 4
    assert ends == sorted(ends)


def test_late_messages_are_dropped_and_counted_or_go_where_they_are_sent() -> None:
    with PipelineDriver(windowed(late_to="too-late")) as driver:
        driver.send("in", 1, key="k", timestamp=5000)
        driver.send("in", 2, key="k", timestamp=100, headers=HEADERS)
        (found,) = driver.read("too-late")
        assert (found.key, found.value, found.timestamp, found.headers) == ("k", 2, 100, HEADERS)
        assert driver.report().late == {"window": 1}


def test_a_message_of_a_window_that_is_open_is_not_late_however_old_it_is() -> None:
    (found,) = panes(windowed(), (1, 900), (1, 100))
    assert found.value.value == 2


def test_a_window_is_forgotten_when_its_lateness_is_over() -> None:
    with PipelineDriver(windowed(lateness=SECOND)) as driver:
        sizes = []
        for at in (0, 1000, 1999, 2000):
            driver.send("in", 1, key="k", timestamp=at)
            sizes.append(held(driver))
        assert sizes == [1, 2, 2, 2]  # at 2000 the window [0, 1000) makes room for [2000, 3000)


def held(driver: PipelineDriver) -> int:
    (task,) = (task for task in driver._tasks if task._work.stateful)
    operator: Any = task._work.stateful["window"]
    return len(operator._state.at)


def test_a_session_ends_a_millisecond_after_its_gap() -> None:
    found = panes(windowed(session(SECOND)), (1, 0), (1, 1000), (1, 2001))
    assert [(pane.value.window.start, pane.value.window.end) for pane in found] == [(0, 2001), (2001, 3002)]


def test_a_window_of_the_clock_closes_by_itself_and_takes_everything() -> None:
    with PipelineDriver(windowed(time="processing"), start=5000) as driver:
        for at in (9000, 1):
            driver.send("in", 1, key="k", timestamp=at)
        driver.advance(SECOND)
        (found,) = driver.read("out")
        assert (found.timestamp, found.value.value, driver.report().late) == (5999, 2, {})


def test_an_unbounded_window_takes_everything_however_late() -> None:
    with PipelineDriver(windowed(unbounded())) as driver:
        for at in (9000, 1):
            driver.send("in", 1, key="k", timestamp=at)
        assert driver.end().late == {}


def test_sessions_need_an_aggregate_that_merges() -> None:
    def add(acc: int, value: int) -> int:
        return acc + value

    with pytest.raises(PipelineError, match="sessions merge, add cannot"):
        windowed(session(SECOND), aggregate(int, add))


# join


def joined(**options: Any) -> Pipeline:
    pipeline = Pipeline("p", on_error=skip())
    left, right = (pipeline.stream(name, value=str, key=str) for name in ("left", "right"))
    left.join(right, lambda one, other: f"{one}{other}", id="join", within=SECOND, **options).send_to("out")
    return pipeline


def test_a_row_has_the_later_time_and_the_headers_of_the_left() -> None:
    with PipelineDriver(joined()) as driver:
        driver.send("right", "b", key="k", timestamp=900, headers=(("of", b"right"),))
        driver.send("left", "a", key="k", timestamp=100, headers=HEADERS)
        (found,) = driver.read("out")
    assert (found.key, found.value, found.timestamp, found.headers) == ("k", "ab", 900, HEADERS)


def test_rows_exactly_within_apart_join_and_with_latest_do_not() -> None:
    for options, expected in (({}, ["ab"]), ({"retain": "latest"}, [])):
        with PipelineDriver(joined(**options)) as driver:
            driver.send("left", "a", key="k", timestamp=0)
            driver.send("right", "b", key="k", timestamp=1000)
            assert shown(driver) == expected


def test_a_row_without_value_joins_as_none() -> None:
    with PipelineDriver(joined()) as driver:
        driver.send("left", None, key="k", timestamp=0)
        driver.send("right", "b", key="k", timestamp=0)
        assert shown(driver) == ["Noneb"]


def test_a_left_row_alone_comes_out_once_both_sides_are_beyond_its_time() -> None:
    with PipelineDriver(joined(how="left")) as driver:
        driver.send("left", "a", key="k", timestamp=0)
        driver.send("left", "c", key="k", timestamp=5000)
        assert shown(driver) == []
        driver.send("right", "b", key="k", timestamp=1000)
        assert shown(driver) == ["ab"]
        driver.end()
        assert shown(driver) == ["ab", "cNone"]


def test_a_row_behind_the_watermark_of_both_sides_is_late_for_a_join() -> None:
    with PipelineDriver(joined()) as driver:
        driver.send("left", "a", key="k", timestamp=5000)
        driver.send("right", "b", key="k", timestamp=4999)
        driver.send("left", "late?", key="k", timestamp=4998)
        driver.send("right", "b", key="k", timestamp=9000)
        assert driver.report().late == {"join": 1}


def test_a_join_of_the_clock_goes_by_when_rows_come() -> None:
    with PipelineDriver(joined(time="processing", how="left"), start=5000) as driver:
        driver.send("left", "a", key="k", timestamp=90_000)
        driver.send("right", "b", key="k", timestamp=1)
        assert [(message.value, message.timestamp) for message in driver.read("out")] == [("ab", 5000)]
        driver.send("left", "c", key="other", timestamp=1)
        driver.advance(2 * SECOND)
        assert (shown(driver), driver.report().late) == (["ab", "cNone"], {})


def test_a_row_joins_several_in_the_order_of_their_times() -> None:
    with PipelineDriver(joined()) as driver:
        for value, at in (("b", 300), ("a", 100), ("c", 500)):
            driver.send("left", value, key="k", timestamp=at)
        driver.send("right", "!", key="k", timestamp=200)
        assert shown(driver) == ["a!", "b!", "c!"]
