"""The frame of a drawing: room for names, the order of keys, what became of messages."""

from fluvial.dsl import Message
from fluvial.runtime.testing.drawing.frame import WIDTH, Options, frame_of, look_of
from fluvial.runtime.testing.drawing.labels import value_label
from fluvial.runtime.testing.recording import RecordedMessage, Step, StreamLane
from tests.runtime.testing.drawing.runs import windows

OPTIONS = Options(streams=("in", "out"), label=value_label)
SENT = RecordedMessage(StreamLane("in", "source"), Message("ann", "a", 0))


def test_keys_are_numbered_in_the_order_in_which_they_come() -> None:
    assert frame_of(windows(), OPTIONS, [], []).signs == {"ann": 0, "bob": 1}


def test_time_begins_behind_the_names_and_ends_before_the_edge() -> None:
    short, long = (frame_of(windows(), OPTIONS, ["a" * number], ["k" * number]).axis for number in (1, 20))
    assert short.left < long.left < long.right == short.right < WIDTH


def test_a_label_at_the_right_edge_stands_before_its_mark() -> None:
    found = frame_of(windows(), Options(streams=("in",), label=lambda _: "a label that is long"), [], [])
    step = windows().steps[2]
    marks = [found.mark(RecordedMessage(SENT.lane, Message("ann", "a", time)), step, 0, "sent") for time in (0, 12_000)]
    assert [mark.before for mark in marks] == [False, True]


def test_of_several_messages_of_a_step_nobody_knows_which_was_late() -> None:
    assert look_of(Step("send", 0, None, (SENT,), late=("window",))) == "late"
    assert look_of(Step("send", 0, None, (SENT,), failed=("map",))) == "failed"
    assert look_of(Step("send", 0, None, (SENT, SENT), late=("window",))) == "sent"
