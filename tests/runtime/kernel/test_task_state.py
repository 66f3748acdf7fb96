"""The state of a task: its changes for a commit, what stays in memory behind it, and what cannot be encoded."""

from datetime import timedelta
from typing import Any

import pytest

from engines.stages import feed, task_of
from fluvial.dsl import Pipeline, PipelineError, aggregate, count, tumbling
from fluvial.runtime.kernel.stage import StageTask
from fluvial.runtime.kernel.state_cache import Size

HOUR = tumbling(timedelta(hours=1))


def counting(of: Any = None) -> StageTask:
    pipeline = Pipeline("p")
    pipeline.stream("in", key=str, value=int).window(HOUR, of or count(), id="n").send_to("out")
    return task_of(pipeline)


def records(*keys: bytes) -> list[Any]:
    return [(key, b"1", 0, ()) for key in keys]


def test_what_has_changed_is_reported_until_it_is_committed() -> None:
    task = counting()
    feed(task, "in", *records(b"a", b"b"))
    assert task.state.changed >= 2
    assert len({key for _, key, _ in task.state.changes() if key in (b"a", b"b")}) == 2
    task.state.mark_committed(10)
    assert (task.state.changed, list(task.state.changes())) == (0, [])


def test_bytes_are_estimated_as_values_change() -> None:
    task = counting()
    task.state.measure(0)
    before = task.state.changed_bytes
    feed(task, "in", *records(*(b"%d" % number for number in range(100))))
    task.state.measure(100)
    assert task.state.changed_bytes > before
    assert task.state.bytes >= task.state.changed_bytes
    task.state.mark_committed(1000)
    assert task.state.changed_bytes == 0


def held(task: StageTask) -> int:
    return sum(len(cache.clean) for operator in task.stateful.values() for cache in operator.caches())


def test_as_much_stays_in_memory_as_is_said() -> None:
    task = counting()
    feed(task, "in", *records(*(b"%d" % number for number in range(100))))
    task.state.mark_committed(1000)
    assert held(task) > 50
    task.state.mark_committed(10)
    assert held(task) <= 10


def test_nothing_is_evicted_while_little_is_read() -> None:
    task = counting()
    feed(task, "in", *records(*(b"%d" % number for number in range(100))))
    task.state.mark_committed(1000)
    before = held(task)
    task.state.evict(Size(10, 1 << 40))
    assert held(task) == before


def test_a_value_that_cannot_be_encoded_names_its_operator() -> None:
    def add(total: int, _: int) -> int:
        return total + 2**64

    task = counting(aggregate(int, add))
    feed(task, "in", *records(b"a"))
    with pytest.raises(PipelineError, match="the state of window n cannot be encoded"):
        list(task.state.changes())
