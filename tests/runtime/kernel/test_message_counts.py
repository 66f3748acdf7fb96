"""How many messages each operator was given."""

import asyncio
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from engines.stages import feed, task_of
from fluvial.dsl import Pipeline, count, skip, tumbling

NUMBERS = st.lists(st.integers(-3, 12), max_size=20)


def records(numbers: list[int]) -> list[tuple[None, bytes, int, tuple[()]]]:
    return [(None, b"%d" % number, 0, ()) for number in numbers]


def is_even(number: int) -> bool:
    return number % 2 == 0


def up_to(number: int) -> range:
    return range(number)


def inverse(number: int) -> int:
    return 12 // number


async def up_to_later(number: int) -> range:
    await asyncio.sleep(0)
    return range(12 // number)


@given(NUMBERS)
def test_each_operator_of_a_chain_is_given_what_the_one_before_passes_on(numbers: list[int]) -> None:
    pipeline = Pipeline("p", on_error=skip())
    spread = pipeline.stream("in", value=int).filter(is_even).map(abs).flat_map(up_to)
    spread.map(inverse).filter(is_even).send_to("out", value=int)
    task = task_of(pipeline)
    feed(task, "in", *records(numbers))
    even = [number for number in numbers if is_even(number)]
    several = [made for number in even for made in up_to(abs(number))]
    # A flat_map ends at the first of its messages that fails, here zero.
    begun = [made for made in several if made == 0]
    assert list(task.input_counts.values()) == [len(numbers), len(numbers), len(even), len(even), len(begun), 0, 0]


@given(NUMBERS, NUMBERS)
def test_all_that_follow_are_given_the_same(left: list[int], right: list[int]) -> None:
    pipeline = Pipeline("p")
    first, second = pipeline.stream("left", value=int).filter(is_even), pipeline.stream("right", value=int)
    first.send_to("first")
    merged = first.merge(second)
    merged.filter(is_even).map(abs).send_to("even")
    merged.send_to("all")
    task = task_of(pipeline)
    feed(task, "left", *records(left))
    feed(task, "right", *records(right))
    evens, other = sum(map(is_even, left)), len(right)
    both = evens + sum(map(is_even, right))
    named = {id.split("-")[0]: number for id, number in task.input_counts.items()}
    assert named == {"stream": len(right), "filter": evens + other, "merge": evens + other, "map": both} | {
        "send_to": evens + other
    }
    assert [task.input_counts[id] for id in ("send_to-4", "send_to-8", "send_to-9")] == [evens, both, evens + other]


def test_what_follows_a_window_is_given_its_panes() -> None:
    pipeline = Pipeline("p")
    keyed = pipeline.stream("in", value=int, key=str)
    window = keyed.window(tumbling(timedelta(milliseconds=10)), count(), id="window")
    window.map(lambda pane: pane.value).send_to("out", value=int)
    task = task_of(pipeline)
    feed(task, "in", *[(key, b"1", time, ()) for key, time in ((b"a", 0), (b"b", 1), (b"a", 2), (b"a", 25), (b"a", 1))])
    assert task.input_counts == {"stream-1": 5, "window": 5, "map-3": 2, "send_to-4": 2}
    assert task.counts.late == {"window": 1}


def test_what_follows_calls_is_given_their_results() -> None:
    pipeline = Pipeline("p", on_error=skip())
    pipeline.stream("in", value=int).async_flat_map(up_to_later, id="call").filter(is_even).send_to("out", value=int)

    async def work() -> dict[str, int]:
        task = task_of(pipeline)
        feed(task, "in", *records([0, 4, 12]))
        while task.progress.busy:
            await asyncio.sleep(0)
        return task.input_counts

    assert asyncio.run(work()) == {"stream-1": 3, "call": 3, "filter-3": 4, "send_to-4": 3}


def test_messages_that_cannot_be_decoded_go_no_further() -> None:
    pipeline = Pipeline("p", on_error=skip())
    pipeline.stream("in", value=int).map(abs).send_to("out")
    task = task_of(pipeline)
    feed(task, "in", (None, b"1", 0, ()), (None, b"one", 0, ()))
    assert task.input_counts == {"stream-1": 2, "map-2": 1, "send_to-3": 1}
