"""The queues of a task's inputs: what waits to be processed, what has landed, and which input is read when."""

from dataclasses import replace

from fluvial.dsl.message import Record
from fluvial.runtime.local.input_queue import InputQueue, InputQueues
from fluvial.runtime.systems.contract import RecordBatch

RECORD: Record = (None, b"", 0, ())


def batch(*offsets: int, stream: str = "in", next_offset: int | None = None) -> RecordBatch:
    end = offsets[-1] + 1 if next_offset is None else next_offset
    return RecordBatch(stream, 0, [*offsets], [RECORD] * len(offsets), end)


def process(queue: InputQueue, most: int) -> list[int]:
    """Process messages of the first batch at once; the offsets of those."""
    found, start, stop = queue.front(most)
    queue.land(stop)
    queue.remove(stop)
    return [*found.offsets[start:stop]]


def test_batches_are_processed_in_parts_and_in_their_order() -> None:
    queue = InputQueue("in", 0, 4)
    queue.add(batch(4, 6, 9))
    queue.add(batch(10))
    assert [process(queue, 2), process(queue, 2), process(queue, 2)] == [[4, 6], [9], [10]]
    assert (queue.empty, queue.waiting, queue.read, queue.processed) == (True, 0, 4, 4)


def test_what_waits_is_what_was_read_and_not_processed() -> None:
    queue = InputQueue("in", 0, 0)
    queue.add(batch(0, 1, 2))
    queue.add(batch(3, 4))
    process(queue, 2)
    assert (queue.waiting, queue.read, queue.processed, queue.next_offset) == (3, 5, 2, 5)


def test_a_batch_without_records_moves_the_position_alone() -> None:
    queue = InputQueue("in", 0, 3)
    queue.add(RecordBatch("in", 0, [], [], 8))
    assert (queue.next_offset, queue.empty, queue.landed) == (8, True, 3)
    assert queue.has_landed(8)


def test_messages_in_flight_hold_back_what_has_landed_though_they_wait_no_longer() -> None:
    queue = InputQueue("in", 0, 0)
    queue.add(batch(0, 1, 2))
    marks = queue.begin(3)
    queue.remove(3)
    marks[1:] = b"\1\1"
    assert (queue.empty, queue.landed, queue.has_landed(3)) == (True, 0, False)
    marks[0] = 1
    assert (queue.landed, queue.has_landed(3), queue.has_landed(4)) == (3, True, False)


def test_messages_that_were_not_processed_after_all_are_not_in_flight() -> None:
    queue = InputQueue("in", 0, 0)
    queue.add(batch(0, 1, 2))
    marks = queue.begin(3)
    queue.withdraw(2)
    queue.remove(1)
    assert (queue.waiting, queue.landed, len(marks)) == (2, 0, 1)
    marks[0] = 1
    assert queue.landed == 1
    queue.begin(3)
    queue.withdraw(2)
    assert (queue.landed, queue.has_landed(1)) == (1, False)
    assert process(queue, 2) == [1, 2]


def test_an_input_is_read_until_two_batches_wait_or_the_run_has_its_end() -> None:
    queues = InputQueues([InputQueue("in", 0, 0)])
    queues.add(batch(0))
    assert [queues.is_read("in", end) for end in (None, 2, 1)] == [False, False, True]
    assert queues.has_room("in")
    queues.add(batch(1))
    assert not queues.has_room("in")


def test_what_another_task_reads_again_is_left_out() -> None:
    queue = InputQueue("in", 0, 3)
    queue.add(batch(0, 1))
    assert (queue.empty, queue.next_offset) == (True, 3)
    queue.add(batch(2, 3, 4))
    assert (queue.next_offset, process(queue, 5)) == (5, [3, 4])


def test_inputs_are_read_once_all_up_to_their_ends_was_processed() -> None:
    one, other = InputQueue("one", 0, 0), InputQueue("other", 0, 0)
    queues, ends = InputQueues([one, other]), {("one", 0): 1, ("other", 0): 0}
    queues.add(batch(0, stream="one"))
    assert not queues.are_read(["one", "other"], ends)
    one.begin(1)  # in flight
    one.remove(1)
    assert (queues.are_read(["one", "other"], ends), queues.are_read(["one"], {})) == (True, False)


def test_other_inputs_are_not_read_before_all_has_landed_of_one_that_comes_first() -> None:
    first, other = InputQueue("first", 0, 0, bootstrap_until=2), InputQueue("other", 0, 0)
    queues = InputQueues([other, first])
    assert (queues.has_room("first"), queues.has_room("other")) == (True, False)
    queues.add(batch(0, 1, stream="first"))
    queues.end_bootstraps()
    assert not queues.has_room("other")
    process(first, 2)
    queues.end_bootstraps()
    assert queues.has_room("other")


def test_the_queues_of_a_task_tell_of_all_its_inputs() -> None:
    one, other = InputQueue("one", 3, 5), InputQueue("other", 3, 7)
    queues = InputQueues([one, other])
    assert (queues.positions, queues.landed, queues.empty) == (
        {("one", 3): 5, ("other", 3): 7},
        {"one": 5, "other": 7},
        True,
    )
    queues.add(replace(batch(7, 8, stream="other"), partition=3))
    assert not queues.empty
    process(other, 1)
    assert (queues.processed, queues.landed) == (1, {"one": 5, "other": 8})
    assert (queues.has_landed("one", 5), queues.has_landed("other", 9)) == (True, False)
