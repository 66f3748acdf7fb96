"""Growths of sources that are held: what comes first, and when they are released."""

from datetime import timedelta

import pytest

from fluvial.dsl import Pipeline, count, tumbling
from fluvial.dsl.message import Record
from fluvial.planner import plan
from fluvial.planner.growths import grown
from fluvial.planner.plan import Plan
from fluvial.runtime.kernel.time.position import Position
from fluvial.runtime.local.checkpoints.checkpoint import Checkpoint, Hold
from fluvial.runtime.local.holds import TaskHolds, with_growths
from fluvial.runtime.local.input_queue import InputQueue, InputQueues
from fluvial.runtime.systems.contract import RecordBatch

RECORD: Record = (b"k", b"", 0, ())
UNTIL = 1_000


def planned(partitions: int = 2) -> Plan:
    pipeline = Pipeline("p")
    pipeline.stream("in", key=str, value=str).window(tumbling(timedelta(days=1)), count(), id="n").send_to("out")
    return grown(plan(pipeline, partitions={"in": 1}), {"in": partitions})


class Holding:
    """A task with one partition of before, and one growth that is held."""

    def __init__(self, hold: Hold) -> None:
        self.first, self.second = InputQueue("in", 0, 0), InputQueue("in", 1, 0, growth=1)
        self.queues = InputQueues([self.first, self.second])
        self.holds = TaskHolds(planned(), {"in+1": hold}, self.queues)
        self.queues.add(RecordBatch("in", 1, [0], [RECORD]))

    def process(self, offset: int) -> None:
        """Process the message at an offset of the partition of before."""
        self.queues.add(RecordBatch("in", 0, [offset], [RECORD]))
        self.first.land(1)
        self.first.remove(1)


def test_a_growth_is_released_once_all_of_before_has_landed_that_there_was_when_producers_had_heard() -> None:
    made = Holding(Hold(UNTIL))
    assert (made.second.ready, made.queues.empty) == (False, True)
    assert (made.holds.asks(UNTIL - 1), made.holds.asks(UNTIL)) == (set(), {"in"})
    made.process(0)
    made.holds.learn({"in": [2, 1]}, UNTIL - 1)  # asked for too early
    made.holds.release(None)
    assert made.holds.known == {"in+1": Hold(UNTIL)}
    made.holds.learn({"in": [2, 1]}, UNTIL)
    assert made.holds.asks(UNTIL) == set()
    made.holds.release(None)
    assert (made.holds.known, made.second.ready) == ({"in+1": Hold(UNTIL, {"in": 2})}, False)
    made.process(1)
    made.holds.release(None)
    assert (made.holds.known, made.second.ready) == ({}, True)


def test_a_partition_of_before_in_which_nothing_is_holds_nothing_up() -> None:
    made = Holding(Hold(UNTIL))
    made.holds.learn({"in": [0, 1]}, UNTIL)
    made.holds.release(None)
    assert made.second.ready


def test_what_a_commit_has_kept_counts_whatever_has_come_since() -> None:
    made = Holding(Hold(UNTIL, {"in": 1}))
    made.process(0)
    made.queues.add(RecordBatch("in", 0, [1], [RECORD]))
    made.holds.release(None)
    assert made.second.ready


def test_a_run_that_ends_processes_what_is_held_behind_its_ends_and_keeps_the_hold() -> None:
    made = Holding(Hold(UNTIL))
    ends = {("in", 0): 1, ("in", 1): 1}
    made.holds.release(ends)
    assert not made.second.ready
    made.process(0)
    made.holds.release(ends)
    assert (made.second.ready, made.holds.known) == (True, {"in+1": Hold(UNTIL)})


def test_holds_of_inputs_that_the_task_does_not_have_are_not_its() -> None:
    queues = InputQueues([InputQueue("in", 0, 0)])
    assert TaskHolds(planned(1), {"in+1": Hold(UNTIL)}, queues).known == {}


@pytest.mark.parametrize(
    ("rested", "high"), [({}, 500), ({"in": {0: 700}}, 800)], ids=["by its messages", "by the clock"]
)
def test_a_growth_begins_with_the_watermark_that_its_stream_has_and_idle(
    rested: dict[str, dict[int, int]], high: int
) -> None:
    position = Position(highs={"in": 500}, out_of_order={"in": 100}, rested=rested, idle={name: [0] for name in rested})
    begun = with_growths(Checkpoint(offsets={"in": 4}, position=position), ["in", "in+1"], UNTIL)
    assert begun.holds == {"in+1": Hold(UNTIL)}
    assert begun.position.highs == {"in": 500, "in+1": high}
    assert begun.position.out_of_order == {"in": 100, "in+1": 100}
    assert begun.position.idle["in+1"] == [0]


def test_a_growth_that_is_known_stays_as_it_is() -> None:
    known = Checkpoint(offsets={"in": 4, "in+1": 0})
    assert with_growths(known, ["in", "in+1"], UNTIL) is known
    new = with_growths(Checkpoint(), ["in", "in+1"], UNTIL)
    assert (new.holds, new.position.highs) == ({"in+1": Hold(UNTIL)}, {})
