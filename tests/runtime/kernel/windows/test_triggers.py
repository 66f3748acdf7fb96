"""What a trigger has seen of a window of a key, and when it fires."""

from dataclasses import dataclass

import pytest

from fluvial.dsl import Trigger
from fluvial.runtime.kernel.time.bounds import END
from fluvial.runtime.kernel.windows.triggers import (
    AT_ONCE,
    NEVER,
    OVER,
    due,
    mark_fired,
    merge_states,
    observe,
    slot_of,
    start_anew,
)


@dataclass
class State:
    seen: int = 0
    due_first: int = END
    due_last: int = END


def test_a_count_fires_with_the_message_that_completes_it() -> None:
    trigger, state = Trigger(count=2), State()
    assert [observe(trigger, state, 0), observe(trigger, state, 0)] == [False, True]


def test_a_time_from_the_first_stays_and_one_from_the_last_moves_on() -> None:
    state = State()
    for time in (100, 150, 120):
        assert not observe(Trigger(first=10, last=10), state, time)
    assert (state.due_first, state.due_last, due(state)) == (110, 160, 110)


@pytest.mark.parametrize(("repeats", "seen"), [(True, 0), (False, OVER)])
def test_a_trigger_that_has_fired_begins_again_if_it_repeats(repeats: bool, seen: int) -> None:
    trigger, state = Trigger(count=1, first=10, repeats=repeats), State()
    observe(trigger, state, 5)
    mark_fired(trigger, state)
    assert state == State(seen)
    assert observe(trigger, state, 6) is repeats


def test_another_trigger_begins_anew() -> None:
    state = State(OVER, 1, 2)
    start_anew(state)
    assert state == State()


def test_merged_windows_have_seen_the_messages_of_all() -> None:
    state = State(1, 50, 60)
    merge_states(state, [State(2, 40, END), State(3, END, 90)])
    assert state == State(6, 40, 90)


def test_merged_windows_are_over_if_one_of_them_is() -> None:
    state = State(1)
    merge_states(state, [State(OVER)])
    assert state.seen == OVER


def test_there_is_a_trigger_for_never_and_one_for_each_message() -> None:
    state = State()
    assert [observe(NEVER, state, 0), due(state) == END, observe(AT_ONCE, State(), 0)] == [False, True, True]


@pytest.mark.parametrize(
    ("triggers", "size"), [([NEVER], 1), ([Trigger(first=1600)], 100), ([Trigger(first=1600), Trigger(last=160)], 10)]
)
def test_slots_are_a_fraction_of_the_shortest_time(triggers: list[Trigger], size: int) -> None:
    assert slot_of(*triggers) == size
