"""What the pages of window, join and deduplicate say is so."""

from typing import Any

import pytest

from fluvial.dsl import (
    Message,
    Pipeline,
    PipelineError,
    aggregate,
    collect,
    count,
    dead_letter,
    hopping,
    session,
    skip,
    total,
    tumbling,
    unbounded,
)
from fluvial.runtime.testing import PipelineDriver
from generators.rules import HEADERS, SECOND, itself, shown

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
        assert b'"value":[null,2]' in (driver.records.read("out")[0][1] or b"")


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


# deduplicate


def deduplicated(by: Any = None, by_type: Any = None, out_of_order: Any = 0 * SECOND, on_error: Any = None) -> Pipeline:
    pipeline = Pipeline("p", on_error=on_error or skip())
    keyed = pipeline.stream("in", value=str, key=str, out_of_order=out_of_order)
    keyed.deduplicate(SECOND, by=by, by_type=by_type, id="once").send_to("out")
    return pipeline


def passed(pipeline: Pipeline, *messages: tuple[str | None, int]) -> list[tuple[str | None, int]]:
    with PipelineDriver(pipeline) as driver:
        for value, at in messages:
            driver.send("in", value, key="k", timestamp=at)
        return [(message.value, message.timestamp) for message in driver.read("out")]


def first_letter(text: str) -> str:
    return text[0]


def test_what_is_passed_on_stays_as_it_came() -> None:
    with PipelineDriver(deduplicated()) as driver:
        driver.send("in", "a", key="k", timestamp=100, headers=HEADERS)
        driver.send("in", "b", key="k", timestamp=1099)
        (found,) = driver.read("out")
    assert (found.key, found.value, found.timestamp, found.headers) == ("k", "a", 100, HEADERS)


def test_exactly_within_apart_is_no_duplicate_and_the_earlier_one_may_come_later() -> None:
    assert passed(deduplicated(), ("a", 5000), ("b", 4001), ("c", 4000), ("d", 5999), ("e", 6000)) == [
        ("a", 5000),
        ("c", 4000),
        ("e", 6000),
    ]


def test_of_messages_that_keep_coming_each_second_one_is_passed_on() -> None:
    assert [at for _, at in passed(deduplicated(), *(("a", at) for at in range(0, 3600, 600)))] == [0, 1200, 2400]


def test_in_another_order_others_are_passed_on_and_more_of_them() -> None:
    assert [at for _, at in passed(deduplicated(), ("a", 600), ("a", 0), ("a", 1200))] == [600]
    assert [at for _, at in passed(deduplicated(), ("a", 0), ("a", 600), ("a", 1200))] == [0, 1200]


def test_by_tells_messages_of_a_key_apart() -> None:
    found = passed(deduplicated(first_letter), ("a1", 0), ("b1", 1), ("a2", 2))
    assert [value for value, _ in found] == ["a1", "b1"]


@pytest.mark.parametrize("answer", [None, 3, b"x", ("x",)])
def test_what_by_returns_of_another_type_is_an_error_of_the_message(answer: Any) -> None:
    with PipelineDriver(deduplicated(lambda _: answer, str)) as driver:
        driver.send("in", "a", key="k", timestamp=0)
        assert (shown(driver), driver.report().failed) == ([], {"once": 1})


def test_a_message_without_value_is_a_message_and_one_without_key_an_error() -> None:
    assert passed(deduplicated(), (None, 0), ("a", 1)) == [(None, 0)]
    with PipelineDriver(deduplicated(itself, str)) as driver:
        driver.send("in", None, key="k", timestamp=0)
        driver.send("in", "a", timestamp=0)
        assert driver.report().failed == {"once": 2}


def test_a_message_more_than_within_behind_the_watermark_is_late_and_others_are_judged() -> None:
    with PipelineDriver(deduplicated(itself, str)) as driver:
        for value, at in (("a", 5000), ("late", 3999), ("b", 4000), ("a", 4001)):
            driver.send("in", value, key="k", timestamp=at)
        assert (shown(driver), driver.report().late) == (["a", "b"], {"once": 1})


def test_a_message_for_which_by_fails_is_not_remembered() -> None:
    failing = iter([ValueError("not now"), None])

    def name(value: str) -> str:
        if error := next(failing):
            raise error
        return value

    assert passed(deduplicated(name), ("a", 0), ("a", 1)) == [("a", 1)]


def test_what_fails_behind_is_remembered_and_its_dead_letter_has_no_value() -> None:
    pipeline = Pipeline("p", on_error=dead_letter())
    keyed = pipeline.stream("in", value=str, key=str)
    keyed.deduplicate(SECOND, id="once").map(int).send_to("out")
    with PipelineDriver(pipeline) as driver:
        driver.send("in", "no number", key="k", timestamp=7)
        driver.send("in", "3", key="k", timestamp=8)
        (letter,) = driver.dead_letters
        assert (letter.key, letter.value, letter.timestamp) == (b"k", None, 7)
        assert shown(driver) == []


def test_a_time_is_remembered_until_the_watermark_is_twice_within_behind_it() -> None:
    with PipelineDriver(deduplicated()) as driver:
        sizes = []
        for key, at in (("a", 0), ("b", 1999), ("c", 2000)):
            driver.send("in", "x", key=key, timestamp=at)
            sizes.append(remembered(driver))
        assert sizes == [1, 2, 2]  # at 2000 that of "a" is forgotten


def remembered(driver: PipelineDriver) -> int:
    (task,) = (task for task in driver._tasks if task._work.stateful)
    operator: Any = task._work.stateful["once"]
    (entries, *_) = operator.caches()
    return sum(1 for _ in entries.items())


def test_a_later_run_leaves_out_what_an_earlier_one_has_passed_on() -> None:
    with PipelineDriver(deduplicated()) as driver:
        driver.send("in", "a", key="k", timestamp=0)
        driver.end()
        driver.restart()
        driver.send("in", "b", key="k", timestamp=999)
        assert shown(driver) == ["a"]


def test_what_comes_twice_over_a_border_is_left_out() -> None:
    pipeline = Pipeline("p")
    words = pipeline.stream("in", value=str).partition_by(itself, id="by", key_type=str)
    words.deduplicate(SECOND, id="once").send_to("out")
    with PipelineDriver(pipeline) as driver:
        for _ in range(2):
            driver.send("in", "a", timestamp=0)
        assert shown(driver) == ["a"]
