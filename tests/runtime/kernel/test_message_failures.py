"""Failures as compiled code and calls report them: raised at once, or kept for the one who feeds."""

from typing import Any

import pytest

from fluvial.dsl import ErrorPolicy, Pipeline, fail, skip
from fluvial.dsl.errors import MessageError
from fluvial.runtime.kernel.calls.in_flight import InFlightMessage, InFlightQueue, InFlightTracker
from fluvial.runtime.kernel.failures import Failures
from fluvial.runtime.kernel.message_failures import FedBatch, MessageFailures, message_opener
from fluvial.runtime.kernel.time.stage_input import StageInput

ERROR = ValueError("wrong")


def failures(policy: ErrorPolicy, *, asynchronous: bool = False) -> MessageFailures:
    pipeline = Pipeline("p", on_error=policy)
    pipeline.stream("in", value=int).map(abs).send_to("out")
    inputs = {"in": StageInput("in", "source", None, "stream-1", ("map-2",))}
    made = MessageFailures(Failures(pipeline), inputs, asynchronous=asynchronous)
    records = [(b"k", b"%d" % number, 0, ()) for number in range(4)]
    made.batch = FedBatch("in", 3, range(10, 14), records, 1, bytearray(3))
    return made


def in_flight(made: MessageFailures, index: int) -> InFlightMessage:
    return InFlightMessage(0, (made.batch, index), InFlightQueue("in"))


def test_a_message_that_failed_is_named_by_its_place() -> None:
    with pytest.raises(MessageError, match=r"map.* failed on the message at in, partition 3, offset 12"):
        failures(fail()).message(2, ERROR, "map-2")


def test_a_message_that_is_skipped_is_counted() -> None:
    made = failures(skip())
    made.message(2, ERROR, "map-2")
    assert made.counts == {"map-2": 1}


def test_the_failure_of_a_call_is_raised_by_the_next_check_and_the_first_one_stays() -> None:
    made = failures(fail(), asynchronous=True)
    made.check()
    message = in_flight(made, 2)
    made.in_flight(message, ERROR, "map-2")
    made.in_flight(in_flight(made, 3), ERROR, "map-2")
    assert message.failed
    with pytest.raises(MessageError, match="offset 12"):
        made.check()


def test_a_firing_fails_where_it_is_unless_calls_are_in_flight() -> None:
    with pytest.raises(MessageError, match="at time 7"):
        failures(fail()).firing("map-2", b"k", None, 7, ERROR)
    made = failures(fail(), asynchronous=True)
    made.firing("map-2", b"k", None, 7, ERROR)
    with pytest.raises(MessageError, match="at time 7"):
        made.check()


def test_a_message_that_landed_is_marked_in_its_batch() -> None:
    made = failures(fail())
    made.passed(1)
    made.landed((made.batch, 3))
    assert list(made.batch.marks) == [1, 0, 1]


def test_nothing_lands_after_a_failure_that_ends_the_run() -> None:
    made = failures(fail(), asynchronous=True)
    made.in_flight(in_flight(made, 2), ERROR, "map-2")
    made.passed(1)
    assert list(made.batch.marks) == [0, 0, 0]


def test_a_message_is_opened_in_the_queue_of_its_input() -> None:
    made = failures(fail())
    landed: list[Any] = []
    effects: Any = None  # nothing is released
    tracker = InFlightTracker(landed.append, made.in_flight, lambda _: None, effects)
    message = message_opener(tracker, made, "in")(2, 17)
    assert (message.watermark, message.where) == (17, (made.batch, 2))
    assert (list(tracker.queue("in")), tracker.queue("in").opened) == ([message], 1)
