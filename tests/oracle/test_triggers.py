"""The oracle's triggers, against results worked out by hand.

The cases named w01 and so on are Samza's, with the times of messages for its clock and a message of key "z" for its
ticks.
"""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.one_window import Sent, by_key, by_window, first, last, ms, panes, records, replacing, shown, windowed
from fluvial.dsl import (
    Pipeline,
    Trigger,
    after_count,
    any_of,
    collect,
    count,
    hopping,
    repeat,
    session,
    skip,
    tumbling,
    unbounded,
)
from generators.how_many import examples
from generators.some_triggers import triggers
from oracle.interpreter import run_oracle

TURNS = [("1", 1), ("2", 1)] * 4 + [("3", 1)]


def test_w01_a_repeated_count_shows_each_message_once_without_accumulation() -> None:
    options = {"trigger": repeat(after_count(2)), "accumulate": False}
    assert by_key([*TURNS, ("z", 1001)], tumbling(ms(1000)), count(), **options) == [
        ("1", 0, "early", 2),
        ("2", 0, "early", 2),
        ("1", 0, "early", 2),
        ("2", 0, "early", 2),
        ("3", 0, "on_time", 1),
    ]


def test_w02_a_count_that_is_not_reached_shows_nothing_early() -> None:
    options = {"trigger": repeat(after_count(1000)), "accumulate": False}
    assert by_key([("1", 1)] * 9 + [("z", 1001)], tumbling(ms(1000)), count(), **options) == [("1", 0, "on_time", 9)]


def test_w04_a_repeated_count_shows_all_so_far_with_accumulation_and_all_again_on_time() -> None:
    found = by_key([*TURNS, ("z", 1001)], tumbling(ms(1000)), count(), trigger=repeat(after_count(2)))
    assert found[:4] == [("1", 0, "early", 2), ("2", 0, "early", 2), ("1", 0, "early", 4), ("2", 0, "early", 4)]
    assert sorted(found[4:]) == [("1", 0, "on_time", 4), ("2", 0, "on_time", 4), ("3", 0, "on_time", 1)]


def test_w05_sessions_end_in_the_order_of_time() -> None:
    sent = [("1", 1)] * 2 + [("2", 1001)] * 2 + [("3", 1001)] * 2 + [("2", 2001)] * 2
    found = by_key(sent, session(ms(500)), count(), accumulate=False)
    assert found[0] == ("1", 1, "on_time", 2)
    assert sorted(found[1:3]) == [("2", 1001, "on_time", 2), ("3", 1001, "on_time", 2)]
    assert found[3:] == [("2", 2001, "on_time", 2)]


def test_w07_a_trigger_that_does_not_repeat_fires_once() -> None:
    sent = [("1", 1)] * 5 + [("3", 1001)]
    assert by_key(sent, tumbling(ms(1000)), count(), trigger=after_count(2)) == [
        ("1", 0, "early", 2),
        ("1", 0, "on_time", 5),
        ("3", 1000, "on_time", 1),
    ]


def test_w08_the_first_of_several_triggers_ends_all_of_them_in_this_window_alone() -> None:
    sent = [("1", 1)] * 2 + [("z", 501)] + [("1", 501)] * 3 + [("1", 1001), ("z", 1501), ("z", 2401)]
    assert by_key(sent, tumbling(ms(1000)), count(), trigger=any_of(after_count(2), first(500))) == [
        ("1", 0, "early", 2),
        ("1", 0, "on_time", 5),
        ("1", 1000, "early", 1),
        ("1", 1000, "on_time", 1),
    ]


def test_w10_the_end_of_input_shows_what_is_left() -> None:
    found = shown([("1", 1)] * 5, tumbling(ms(1000)), count(), trigger=repeat(after_count(2)), accumulate=False)
    assert found == [("early", 2), ("early", 2), ("on_time", 1)]


def test_w12_the_end_of_input_ends_a_session() -> None:
    assert shown([("1", 1)] * 4, session(ms(500)), count(), accumulate=False) == [("on_time", 4)]


def test_w13_the_end_of_input_shows_a_window_once() -> None:
    found = shown([("1", 1)] * 5, tumbling(ms(1000)), count(), trigger=repeat(after_count(2)))
    assert found == [("early", 2), ("early", 4), ("on_time", 5)]


def test_w17_a_time_after_the_first_message_fires_once() -> None:
    sent = [("a", 1), ("z", 301), ("a", 301), ("z", 1001)]
    found = shown(sent, tumbling(ms(1000)), trigger=first(300), accumulate=False)
    assert found == [("early", [1]), ("on_time", [3])]


@pytest.mark.parametrize(("time", "kinds"), [(4, ["early", "on_time"]), (5, ["on_time"])])
def test_a_time_at_the_end_of_the_window_does_not_fire(time: int, kinds: list[str]) -> None:
    found = shown([("a", time), ("z", 9), ("z", 10)], tumbling(ms(10)), trigger=first(5))
    assert [kind for kind, _ in found] == kinds


@pytest.mark.parametrize("tick", [[("z", 10)], [("z", 99)], []])
def test_where_the_watermark_passes_time_and_end_only_the_end_is_reported(tick: list[Sent]) -> None:
    assert shown([("a", 0), *tick], tumbling(ms(10)), trigger=first(5)) == [("on_time", [1])]


@pytest.mark.parametrize(("tick", "values"), [(8, [[2, 4]]), (9, [[2], [2, 4]])])
def test_a_message_behind_the_watermark_counts_as_if_it_had_its_time(tick: int, values: list[list[int]]) -> None:
    found = shown([("z", 6), ("a", 1), ("z", tick), ("a", 7)], tumbling(ms(10)), trigger=first(3))
    assert [value for _, value in found] == values


@pytest.mark.parametrize(("tick", "values"), [(11, [[1, 2, 4]]), (12, [[1, 2], [1, 2, 4]])])
def test_the_first_message_is_the_earliest_not_the_one_that_came_first(tick: int, values: list[list[int]]) -> None:
    # The watermark is 5 behind. 7 comes at watermark 2, then 4: so 7 is the trigger's time, not 10.
    found = shown([("a", 7), ("a", 4), ("z", tick), ("a", 9)], tumbling(ms(10)), trigger=first(3), out_of_order=5)
    assert [value for _, value in found] == values


def test_a_time_after_the_last_message_waits_for_silence_again_and_again() -> None:
    sent = [("a", 0), ("a", 2), ("z", 4), ("z", 5), ("a", 6), ("a", 7), ("z", 9), ("a", 9), ("z", 12), ("z", 50)]
    found = shown(sent, tumbling(ms(100)), trigger=repeat(last(3)), accumulate=False)
    assert found == [("early", [1, 2]), ("early", [5, 6, 8])]


def test_a_repeated_trigger_begins_anew_with_the_message_after_its_firing() -> None:
    sent = [("a", 0), ("z", 5), ("z", 12), ("a", 13), ("z", 17), ("z", 18)]
    found = shown(sent, tumbling(ms(100)), trigger=repeat(first(5)))
    assert found == [("early", [1]), ("early", [1, 4]), ("on_time", [1, 4])]


@pytest.mark.parametrize(("accumulate", "kinds"), [(True, ["early", "on_time"]), (False, ["early"])])
def test_a_window_that_was_shown_early_fires_on_time_only_with_accumulation(accumulate: bool, kinds: list[str]) -> None:
    found = shown([("a", 1)], tumbling(ms(10)), trigger=repeat(after_count(1)), accumulate=accumulate)
    assert found == [(kind, [1]) for kind in kinds]


def test_a_trigger_that_fired_once_does_not_fire_for_the_emptied_window_again() -> None:
    found = shown([("a", 1)] * 4, tumbling(ms(10)), trigger=after_count(2), accumulate=False)
    assert found == [("early", [1, 2]), ("on_time", [3, 4])]


LATE = [("a", 1), ("z", 10), ("a", 2), ("a", 3), ("a", 4)]


@pytest.mark.parametrize(
    ("accumulate", "values"), [(True, [[1], [1, 3, 4], [1, 3, 4, 5]]), (False, [[1], [3, 4], [5]])]
)
@pytest.mark.parametrize("tick", [[("z", 20)], []])
def test_what_a_late_trigger_leaves_is_shown_when_the_lateness_is_over(
    accumulate: bool, values: list[list[int]], tick: list[Sent]
) -> None:
    # It begins from zero: 1, which was shown on time, does not count.
    options = {"lateness": ms(10), "late_trigger": repeat(after_count(2)), "accumulate": accumulate}
    found = shown([*LATE, *tick], tumbling(ms(10)), **options)
    assert found == list(zip(["on_time", "late", "late"], values, strict=True))


def test_a_late_trigger_that_fires_once_leaves_the_rest_to_the_end_of_the_lateness() -> None:
    found = shown(LATE, tumbling(ms(10)), lateness=ms(10), late_trigger=after_count(1), accumulate=False)
    assert found == [("on_time", [1]), ("late", [3]), ("late", [4, 5])]


def test_a_late_trigger_that_has_shown_all_leaves_nothing() -> None:
    found = shown(LATE, tumbling(ms(10)), lateness=ms(10), late_trigger=repeat(after_count(3)))
    assert found == [("on_time", [1]), ("late", [1, 3, 4, 5])]


@pytest.mark.parametrize(
    ("time", "tick", "values"), [(3, 15, [[2], [4]]), (3, 14, [[2, 4]]), (3, 20, [[2]]), (8, 19, [[2, 4]])]
)
def test_a_late_trigger_waits_from_when_its_message_came(time: int, tick: int, values: list[list[int]]) -> None:
    # The message comes at watermark 12, the lateness ends at 20: there a message is late for good.
    options = {"lateness": ms(10), "late_trigger": first(time), "accumulate": False}
    found = shown([("z", 12), ("a", 1), ("z", tick), ("a", 2)], tumbling(ms(10)), **options)
    assert found == [("late", value) for value in values]


def test_times_take_their_turns_and_ends_come_before_triggers() -> None:
    # The watermark goes from -20 to 11, where the session of b ends, as the time of a comes; c ended at 1.
    sent = [("a", 0), ("b", -10), ("c", -20), ("z", 31)]
    found = by_key(sent, session(ms(20)), trigger=first(11), out_of_order=20)
    assert [(key, kind) for key, _, kind, _ in found[:3]] == [("c", "on_time"), ("b", "on_time"), ("a", "early")]


def test_a_session_that_reaches_beyond_the_watermark_again_begins_anew() -> None:
    sent = [("a", 0), ("a", 1), ("z", 12), ("a", 5), ("a", 6), ("a", 7)]
    found = replacing(sent, session(ms(10)), lateness=ms(50), trigger=after_count(2))
    assert found == [
        ((0, 12), "early", [1, 2], []),
        ((0, 12), "on_time", [1, 2], []),
        ((0, 17), "early", [1, 2, 4, 5], [(0, 12)]),
        ((0, 18), "on_time", [1, 2, 4, 5, 6], [(0, 17)]),
    ]


def test_the_trigger_of_a_session_has_seen_what_its_parts_have_seen() -> None:
    sent = [("a", 0), ("a", 20), ("a", 10)]
    found = by_window(sent, session(ms(10)), out_of_order=20, trigger=after_count(3))
    assert found == [((0, 31), "early", [1, 2, 3]), ((0, 31), "on_time", [1, 2, 3])]


def test_a_session_of_one_for_which_the_trigger_has_fired_is_not_shown_early_again() -> None:
    sent = [("a", 0), ("a", 0), ("a", 20), ("a", 10), ("a", 10)]
    found = replacing(sent, session(ms(10)), out_of_order=20, trigger=after_count(2), accumulate=False)
    assert found == [((0, 11), "early", [1, 2], []), ((0, 31), "on_time", [3, 4, 5], [(0, 11)])]


def test_the_time_of_a_session_may_come_before_its_end_once_it_has_grown() -> None:
    sent = [("a", 0), ("a", 8), ("z", 15)]
    found = by_window(sent, session(ms(10)), trigger=first(15))
    assert found == [((0, 19), "early", [1, 2]), ((0, 19), "on_time", [1, 2])]


def test_late_sessions_that_become_one_are_counted_together() -> None:
    sent = [("a", 0), ("a", 20), ("z", 40), ("a", 1), ("a", 10), ("a", 11)]
    found = replacing(sent, session(ms(10)), lateness=ms(50), late_trigger=after_count(3))
    assert found == [
        ((0, 11), "on_time", [1], []),
        ((20, 31), "on_time", [2], []),
        ((0, 31), "late", [1, 4, 2, 5, 6], [(0, 11), (20, 31)]),
    ]


def test_an_early_pane_follows_all_else_that_its_message_gives_rise_to() -> None:
    pipeline = Pipeline("p")
    numbers = pipeline.stream("in", value=int, key=str)
    counted = numbers.window(tumbling(ms(10)), count(), id="count", trigger=repeat(after_count(1)))
    both = counted.map(lambda pane: 100 + pane.value).merge(numbers)
    both.window(tumbling(ms(10)), collect(), id="all").send_to("panes")
    ((_, pane),) = panes(run_oracle(pipeline, {"in": [records([("a", 1), ("a", 2)])]}))
    assert pane.value == [1, 101, 2, 102, 102]


def test_a_trigger_does_not_count_a_message_that_failed() -> None:
    def picky(number: int) -> int:
        if number == 2:
            raise ValueError("two")
        return number

    pipeline = Pipeline("p", on_error=skip())
    numbers = pipeline.stream("in", value=int, key=str)
    numbers.window(hopping(ms(10), every=ms(5)), collect(), id="w", trigger=after_count(2)).send_to("panes")
    numbers.map(picky).send_to("out")
    found = panes(run_oracle(pipeline, {"in": [records([("a", 1), ("a", 2), ("a", 3)])]}))
    assert [(pane.kind, pane.value) for _, pane in found if pane.window.start == 0] == [
        ("early", [1, 3]),
        ("on_time", [1, 3]),
    ]


TRIGGERS = triggers(st.sampled_from([1, 4, 5, 6, 10]))
SENT = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 60)), max_size=12)
SESSION, WITH_END = session(ms(5)), [tumbling(ms(5)), hopping(ms(10), every=ms(4))]


@settings(max_examples=examples(240))
@given(SENT, st.sampled_from([*WITH_END, SESSION]), TRIGGERS, st.sampled_from([0, 20]))
def test_an_early_pane_changes_nothing_of_what_is_shown_later_with_accumulation(
    sent: list[Sent], assigner: Any, trigger: Trigger, lateness: int
) -> None:
    def later(**options: Any) -> list[tuple[str, int, str, Any]]:
        return [one for one in by_key(sent, assigner, lateness=ms(lateness), **options) if one[2] != "early"]

    assert later(trigger=trigger) == later()


@settings(max_examples=examples(240))
@given(SENT, st.sampled_from([tumbling(ms(5)), SESSION, unbounded()]), TRIGGERS, TRIGGERS)
def test_without_accumulation_every_message_is_shown_once(
    sent: list[Sent], assigner: Any, trigger: Trigger, late_trigger: Trigger
) -> None:
    options: dict[str, Any] = {"trigger": trigger, "accumulate": False}
    if assigner != unbounded():
        options |= {"lateness": ms(10), "late_to": "late", "late_trigger": late_trigger}
    outputs = windowed(sent, assigner, **options)
    shown_ones = [msgspec.json.decode(message.value or b"")["value"] for message in outputs.get("panes", [])]
    held = [number for numbers in shown_ones for number in numbers]
    late = [int(message.value or b"") for message in outputs.get("late", [])]
    assert sorted([*held, *late]) == list(range(1, len(sent) + 1))
