"""Messages in flight: all that a message gives rise to is released at once or not at all, and time waits for the
oldest."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fluvial.runtime.kernel.calls.in_flight import MOST_DONE, InFlightMessage, InFlightTracker


@dataclass
class Stage:
    """What messages in flight belong to: it notes what happens to it, and keeps what effects change."""

    happened: list[Any] = field(default_factory=list)
    state: list[Any] = field(default_factory=list)
    output: list[Any] = field(default_factory=list)

    def undo(self, window: str, message: tuple[Any, ...]) -> Callable[[], None]:
        del window, message
        kept = [*self.state]
        return lambda: self.state.__setitem__(slice(None), kept)

    def emit_fired(self) -> None:
        self.happened.append("late panes go")

    def drop_fired(self) -> None:
        self.happened.append("late panes are dropped")

    def keep(self, *message: Any) -> None:
        if message[0] == "bad":
            raise ValueError
        self.state.append(message[0])

    def fail(self, message: InFlightMessage, error: BaseException, operator: str) -> None:
        message.failed = True
        self.happened.append((type(error), operator))


def cells_of(stage: Stage) -> InFlightTracker:
    return InFlightTracker(stage.happened.append, stage.fail, lambda _: stage.happened.append("moved"), stage)


def kept(stage: Stage, value: str) -> Any:
    """An effect on a window; those have a key, a value and a time."""
    return "window", stage.keep, (value, 1, 2)


def sent(stage: Stage, value: str) -> Any:
    return "send", stage.output.append, (value,)


def test_nothing_is_released_before_the_message_has_ended() -> None:
    stage = Stage()
    tracker = cells_of(stage)
    message = tracker.open(5, "in", ("in", 0))
    message.effects += [sent(stage, "a"), kept(stage, "b")]
    assert (stage.output, stage.state, stage.happened, len(tracker)) == ([], [], [], 1)
    tracker.close(message)
    assert (stage.output, stage.state, len(tracker)) == (["a"], ["b"], 0)
    assert stage.happened == ["late panes go", ("in", 0), "moved"]


def test_an_effect_that_fails_takes_back_those_before_and_keeps_the_outputs_in() -> None:
    stage = Stage(state=["old"])
    tracker = cells_of(stage)
    message = tracker.open(5, "in", ("in", 0))
    message.effects += [sent(stage, "a"), kept(stage, "good"), kept(stage, "bad"), kept(stage, "never")]
    tracker.close(message)
    assert (stage.output, stage.state) == ([], ["old"])
    assert stage.happened == ["late panes are dropped", (ValueError, "window"), ("in", 0), "moved"]


def test_a_message_that_failed_lands_without_a_trace() -> None:
    stage = Stage()
    tracker = cells_of(stage)
    message = tracker.open(5, "in", ("in", 0))
    message.effects += [sent(stage, "a"), kept(stage, "b")]
    message.failed = True
    tracker.close(message)
    assert (stage.output, stage.state, stage.happened) == ([], [], [("in", 0), "moved"])


@given(st.data())
def test_messages_land_as_they_end_and_time_waits_for_the_oldest_of_each_start(data: st.DataObject) -> None:
    stage = Stage()
    tracker = cells_of(stage)
    model: list[tuple[str, int, InFlightMessage]] = []
    for number in range(data.draw(st.integers(1, 12))):
        index = data.draw(st.none() | st.integers(0, len(model) - 1)) if model else None
        if index is not None:
            start, _, message = one = model[index]
            oldest = next(other for other in model if other[0] == start) is one
            model.remove(one)
            stage.happened.clear()
            tracker.close(message)
            assert stage.happened == [message.where, *(["moved"] if oldest else [])]
        else:
            start = data.draw(st.sampled_from("ab"))
            model.append((start, number, tracker.open(number, start, (start, number))))
        for start in "ab":
            assert tracker.floor(start) == next((mark for name, mark, _ in model if name == start), None)


def test_what_has_landed_behind_a_message_in_flight_is_counted_and_not_kept() -> None:
    tracker = cells_of(Stage())
    oldest, *others = (tracker.open(5, "in", ("in", number)) for number in range(3 * MOST_DONE))
    slow = others.pop(MOST_DONE)
    for message in others:
        tracker_closes(tracker, message)
    more = tracker.open(6, "in", ("in", 3 * MOST_DONE))
    assert len(tracker.queue("in")) <= MOST_DONE + 3
    assert tracker.landed("in") == 0
    tracker_closes(tracker, oldest)
    assert (tracker.landed("in"), tracker.floor("in")) == (MOST_DONE + 1, 5)
    tracker_closes(tracker, more)
    tracker_closes(tracker, slow)
    assert (tracker.landed("in"), tracker.opened("in"), len(tracker)) == (3 * MOST_DONE + 1, 3 * MOST_DONE + 1, 0)


def test_a_message_waits_for_those_before_it_that_have_an_effect_on_the_same_target() -> None:
    stage = Stage()
    tracker = cells_of(stage)
    first, second, apart = (tracker.open(5, "in", ("in", number)) for number in range(3))
    for message, effect in ((first, sent(stage, "a")), (second, sent(stage, "b")), (apart, kept(stage, "c"))):
        message.pending += 1
        message.effects.append(effect)
        tracker.fed(message)
    tracker_closes(tracker, second)
    tracker_closes(tracker, apart)
    assert (stage.output, stage.state, tracker.waiting) == ([], ["c"], 1)
    tracker_closes(tracker, first)
    assert (stage.output, tracker.waiting, len(tracker)) == (["a", "b"], 0, 0)


def test_messages_without_calls_wait_as_well() -> None:
    stage = Stage()
    tracker = cells_of(stage)
    called, plain, other_key = (tracker.open(5, "in", ("in", number)) for number in range(3))
    called.pending += 1
    for message, value in ((called, "a"), (plain, "a"), (other_key, "b")):
        message.effects.append(kept(stage, value))
        tracker.fed(message)
    assert (stage.state, tracker.waiting) == (["b"], 1)
    tracker_closes(tracker, called)
    assert (stage.state, tracker.waiting) == (["b", "a", "a"], 0)


def test_effects_behind_calls_have_no_target() -> None:
    stage = Stage()
    tracker = cells_of(stage)
    messages = [tracker.open(5, "in", ("in", number)) for number in range(2)]
    for message in messages:
        message.pending += 1
        tracker.fed(message)
    for message, value in zip(reversed(messages), "ba", strict=True):
        message.effects.append(sent(stage, value))
        tracker_closes(tracker, message)
    assert stage.output == ["b", "a"]


def test_calls_that_keep_an_order_are_places() -> None:
    stage = Stage()
    tracker = cells_of(stage)
    messages = [tracker.open(5, "in", ("in", number)) for number in range(3)]
    for message, key in zip(messages, "kkl", strict=True):
        message.pending += 1
        message.ordered += (("call", key),)
        tracker.fed(message)
    for message, value in zip(reversed(messages), "cba", strict=True):
        message.effects.append(sent(stage, value))
        tracker_closes(tracker, message)
    assert stage.output == ["c", "a", "b"]


def test_messages_are_held_back_while_a_firing_has_paused_and_firings_are_not() -> None:
    stage = Stage()
    tracker = cells_of(stage)
    tracker.paused[0] = True
    first, second = (tracker.open(5, "in", ("in", number)) for number in range(2))
    pane = tracker.open(5, "window", ("window", "key", "pane"))
    for message, value in ((first, "a"), (second, "b"), (pane, "c")):
        message.pending += 1
        message.effects.append(sent(stage, value) if message is pane else kept(stage, "k"))
        tracker.fed(message)
    for message in (first, second, pane):
        tracker_closes(tracker, message)
    assert (stage.state, stage.output, tracker.has_held, len(tracker)) == ([], ["c"], True, 2)
    tracker.release_held()
    assert stage.state == []
    tracker.paused[0] = False
    tracker.release_held()
    assert (stage.state, tracker.has_held, len(tracker), tracker.waiting) == (["k", "k"], False, 0, 0)


def test_a_firing_before_the_one_that_has_paused_is_held_back_too() -> None:
    stage = Stage()
    tracker = cells_of(stage)
    tracker.precedes = {"before": True, "beside": False}.__getitem__
    tracker.paused[0] = True
    for operator in ("beside", "before"):
        firing = tracker.open(5, operator, (operator, "key", "pane", 0))
        firing.pending += 1
        firing.effects.append(kept(stage, operator))
        tracker.fed(firing)
        tracker_closes(tracker, firing)
    assert (stage.state, tracker.has_held) == (["beside"], True)
    tracker.paused[0] = False
    tracker.release_held()
    assert (stage.state, tracker.has_held) == (["beside", "before"], False)


def tracker_closes(tracker: InFlightTracker, message: InFlightMessage) -> None:
    """The last branch of a message ends."""
    message.pending -= 1
    assert not message.pending
    tracker.close(message)


def test_a_firing_stands_among_those_that_messages_wait_for_until_it_has_landed() -> None:
    tracker = cells_of(Stage())
    other, firing = tracker.open(5, "w", ("w", b"k", 1, 2)), tracker.open_firing(5, "w", ("w", b"k", 1, 2))
    assert tracker.firings == {firing}
    tracker.close(other)
    assert tracker.firings == {firing}
    tracker.close(firing)
    assert (tracker.firings, len(tracker)) == (set(), 0)
