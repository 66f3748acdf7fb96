"""The turns of inputs: the highest priority comes first, and of one priority none waits for ever."""

from collections.abc import Sequence
from itertools import groupby

from hypothesis import given
from hypothesis import strategies as st

from fluvial.dsl.message import Record
from fluvial.runtime.local.input_queue import InputQueue, InputQueues
from fluvial.runtime.local.input_turns import InputTurns
from fluvial.runtime.systems.contract import RecordBatch

RECORD: Record = (None, b"", 0, ())


def never_full() -> bool:
    return False


def queued(*names: str, messages: int = 2, priorities: Sequence[int] = ()) -> InputQueues:
    """Inputs that have so many messages each."""
    given = [*priorities, *[0] * len(names)]
    queues = InputQueues([InputQueue(name, 0, 0, priority=given[at]) for at, name in enumerate(names)])
    for name in names:
        queues.add(RecordBatch(name, 0, [*range(messages)], [RECORD] * messages, messages))
    return queues


def process(queue: InputQueue, most: int) -> int:
    """Process messages of the first batch at once; how many."""
    _, start, stop = queue.front(most)
    if stop > start:
        queue.land(stop)
        queue.remove(stop)
    return stop - start


def step(turns: InputTurns, most: int, room: int = 1 << 30) -> str:
    """One step of a task that takes so many messages at a time: the names of the inputs in the order of messages."""
    seen = ""
    for queue, share in turns.shares(most, never_full):
        seen += queue.name * process(queue, min(share, room - len(seen)))
    return seen


def test_the_inputs_of_the_highest_priority_that_have_messages_come_first() -> None:
    queues = queued("a", "b", "c", priorities=(0, 1))
    usual, urgent, other = queues
    turns = InputTurns(queues)
    assert turns.first() == [urgent]
    urgent.held = True
    assert turns.first() == [usual, other], "one that is held keeps no other waiting"
    urgent.held = False
    urgent.hold_at = 1
    process(urgent, 1)
    assert turns.first() == [usual, other]
    assert InputTurns(InputQueues([])).first() == []


def test_an_urgent_input_whose_messages_wait_for_slow_calls_keeps_no_other_waiting() -> None:
    turns = InputTurns(queued("a", "b", priorities=(0, 1)))
    urgent = [queue.name for queue, _ in turns.shares(4, never_full)]
    parked = [queue.name for queue, _ in turns.shares(4, never_full, lambda name: name == "b")]
    assert (urgent, parked) == (["b"], ["a"])


def test_each_input_has_its_turn_in_a_step() -> None:
    turns = InputTurns(queued("a", "b", messages=6))
    assert [step(turns, 4), step(turns, 4), step(turns, 4)] == ["aaaabbbb", "aabb", ""]


def test_what_one_input_has_used_up_the_next_one_has_the_next_time() -> None:
    turns = InputTurns(queued("a", "b", "c", messages=6))
    assert [step(turns, 4, room=3) for _ in range(5)] == ["aaa", "bbb", "ccc", "aaa", "bbb"]


def test_an_input_has_no_more_messages_in_its_turn_than_it_may() -> None:
    turns = InputTurns(queued("a", "b", messages=5), most=2)
    assert step(turns, 4) == "aabbaabb"
    assert step(turns, 4) == "ab"


def test_no_other_round_begins_in_a_task_that_is_full() -> None:
    turns = InputTurns(queued("a", "b", messages=5), most=1)
    assert [process(queue, share) for queue, share in turns.shares(4, lambda: True)] == [1, 1]


def test_an_input_of_a_higher_priority_comes_in_between_two_rounds() -> None:
    queues = queued("a", "b", messages=2, priorities=(0, 1))
    turns, urgent = InputTurns(queues, most=1), queues.of("b")
    process(urgent, 2)
    seen = ""
    for queue, share in turns.shares(5, never_full):
        seen += queue.name * process(queue, share)
        if seen == "a":
            queues.add(RecordBatch("b", 0, [2, 3], [RECORD] * 2, 4))
    assert seen == "abba"


@given(st.lists(st.tuples(st.integers(1, 6), st.integers(1, 9)), max_size=30), st.sampled_from([None, 1, 3]))
def test_nobody_waits_for_more_than_a_turn_of_each_other(steps: list[tuple[int, int]], most: int | None) -> None:
    """However much a step takes, between two turns of an input each other one that has messages has had one."""
    turns = InputTurns(queued("a", "b", "c", messages=1000), most)
    seen = "".join(step(turns, asked, room) for asked, room in steps)
    served = [name for name, _ in groupby(seen)]
    assert all({*three} == {"a", "b", "c"} for three in zip(served, served[1:], served[2:], strict=False))
