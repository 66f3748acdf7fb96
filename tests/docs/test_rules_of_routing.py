"""What the pages of merge, partition_by, send_to and sink say is so."""

from collections.abc import Sequence
from typing import Any

import pytest

from fluvial.dsl import KeyedStream, Message, MessageStream, Pipeline, PlanError, SystemProblem, count, skip, tumbling
from fluvial.planner import Settings, plan
from fluvial.runtime.testing import PipelineDriver
from generators.rules import HEADERS, SECOND, itself, one_way, shown

# merge


def two_merged(*, keys: tuple[Any, Any] = (str, str)) -> tuple[Pipeline, Any]:
    """A pipeline and the merge of its streams, keyed if both have keys: which a type checker cannot know."""
    pipeline = Pipeline("p")
    one: MessageStream[str] = pipeline.stream("one", value=str, key=keys[0])
    other: MessageStream[str] = pipeline.stream("other", value=str, key=keys[1])
    return pipeline, one.merge(other)


def test_a_merge_is_keyed_if_all_its_streams_are() -> None:
    assert isinstance(two_merged()[1], KeyedStream)
    assert not isinstance(two_merged(keys=(str, None))[1], KeyedStream)


def test_time_behind_a_merge_is_that_of_the_slowest() -> None:
    pipeline, merged = two_merged()
    merged.window(tumbling(SECOND), count(), id="window").send_to("out")
    with PipelineDriver(pipeline) as driver:
        driver.send("one", "a", key="k", timestamp=0)
        driver.send("one", "b", key="k", timestamp=9000)
        assert shown(driver) == []
        driver.send("other", "c", key="k", timestamp=500)
        driver.send("other", "d", key="k", timestamp=1000)
        assert [pane.value for pane in shown(driver)] == [2]


def test_time_behind_a_merge_does_not_wait_for_what_is_idle() -> None:
    pipeline = Pipeline("p")
    one, other = (pipeline.stream(name, value=str, key=str, idle_after=5 * SECOND) for name in ("one", "other"))
    one.merge(other).window(tumbling(SECOND), count(), id="window").send_to("out")
    with PipelineDriver(pipeline) as driver:
        driver.advance(4 * SECOND)
        for at in (0, 9000):
            driver.send("one", "a", key="k", timestamp=at)
        assert shown(driver) == []
        driver.advance(2 * SECOND)
        assert [pane.value for pane in shown(driver)] == [1]


def test_a_window_behind_a_merge_needs_equal_partition_counts_and_a_merge_alone_does_not() -> None:
    pipeline, merged = two_merged()
    merged.send_to("out")
    assert plan(pipeline, partitions={"one": 2, "other": 3}).stage("one").tasks == 3
    merged.window(tumbling(SECOND), count(), id="window").send_to("panes")
    with pytest.raises(PlanError, match="different partition counts"):
        plan(pipeline, partitions={"one": 2, "other": 3})


def test_a_window_behind_a_merge_needs_one_type_of_key() -> None:
    pipeline, merged = two_merged(keys=(str, int))
    merged.window(tumbling(SECOND), count(), id="window").send_to("out")
    with pytest.raises(PlanError, match="without one key type"):
        plan(pipeline)


# partition_by


def by_letter(on_error: Any = None) -> Pipeline:
    pipeline = Pipeline("p", **({} if on_error is None else {"on_error": on_error}))
    words = pipeline.stream("in", value=str)
    words.partition_by(lambda word: word[0] if word else None, id="by", key_type=str).send_to("out")  # type: ignore[arg-type, return-value]
    return pipeline


def test_messages_whose_key_is_none_meet_in_the_first_partition() -> None:
    with PipelineDriver(by_letter(), partitions={"in": 3}) as driver:
        for partition in (1, 2):
            driver.send("in", "", partition=partition)
        assert [len(driver.records.partition("out", number)) for number in range(3)] == [2, 0, 0]


def test_a_window_and_a_join_refuse_messages_without_key() -> None:
    pipeline = Pipeline("p", on_error=skip())
    one, other = (pipeline.stream(name, value=str, key=str) for name in ("one", "other"))
    one.window(tumbling(SECOND), count(), id="window").send_to("panes")
    one.join(other, lambda left, right: f"{left}{right}", id="join", within=SECOND).send_to("rows")
    with PipelineDriver(pipeline) as driver:
        driver.send("other", "b")
        assert driver.report().failed == {"join": 1}
        driver.send("one", "a")
        assert sum(driver.end().failed.values()) == 2


def test_a_key_of_another_type_is_an_error_of_its_message() -> None:
    pipeline = Pipeline("p", on_error=skip())
    key: Any = len
    pipeline.stream("in", value=str).partition_by(key, id="by", key_type=str).send_to("out")
    with PipelineDriver(pipeline) as driver:
        driver.send("in", "tea")
        assert driver.report().failed == {"by": 1}


def test_messages_of_one_key_and_task_stay_in_order_behind_a_border() -> None:
    words = ["tea", "toast", "coffee", "trout", "cake"]
    with PipelineDriver(by_letter(), partitions={"in": 2}) as driver:
        driver.records.send("in", [(None, word.encode(), 0, ()) for word in words], partition=1)
        assert [word for word in shown(driver) if word[0] == "t"] == ["tea", "toast", "trout"]


def test_a_window_behind_a_border_waits_for_all_tasks_before_it() -> None:
    pipeline = Pipeline("p")
    keyed = pipeline.stream("in", value=str).partition_by(itself, id="by", key_type=str)
    keyed.window(tumbling(SECOND), count(), id="window").send_to("out")
    with PipelineDriver(pipeline, partitions={"in": 2}) as driver:
        driver.send("in", "a", timestamp=0, partition=0)
        driver.send("in", "a", timestamp=5000, partition=0)
        assert shown(driver) == []
        driver.send("in", "b", timestamp=5000, partition=1)
        assert [pane.value for pane in shown(driver)] == [1]


# send_to, sink


def test_send_to_writes_under_the_key_it_is_told_or_the_one_there_is() -> None:
    pipeline = Pipeline("p")
    source = pipeline.stream("in", value=str, key=str)
    source.send_to("same")
    source.send_to("other", key=lambda word: len(word))
    with PipelineDriver(pipeline) as driver:
        driver.send("in", "tea", key="k", timestamp=7, headers=HEADERS)
        assert driver.records.read("same") == [(b"k", b"tea", 7, HEADERS)]
        assert driver.records.read("other") == [((3).to_bytes(8, "big"), b"tea", 7, HEADERS)]


def test_messages_without_key_keep_to_the_partition_of_their_task() -> None:
    with PipelineDriver(one_way(itself), partitions={"in": 2, "out": 2}) as driver:
        for word in ("a", "b"):
            driver.send("in", word, partition=1)
        assert [len(driver.records.partition("out", number)) for number in range(2)] == [0, 2]


def test_an_output_that_does_not_exist_has_as_many_partitions_as_there_are_tasks() -> None:
    assert plan(one_way(itself), partitions={"in": 3}).stream("out").partitions == 3
    settings = Settings(output_partitions=5)
    assert plan(one_way(itself), partitions={"in": 3}, settings=settings).stream("out").partitions == 5


def test_a_value_that_cannot_be_written_is_an_error_of_its_message() -> None:
    pipeline = Pipeline("p", on_error=skip())
    pipeline.stream("in", value=str).map(lambda _: object()).send_to("out")
    with PipelineDriver(pipeline) as driver:
        driver.send("in", "tea")
        assert driver.report().failed == {"send_to-3": 1}


class Shelf:
    """A sink that notes what is done with it."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def open(self) -> None:
        self.told.append("open")

    def write(self, messages: Sequence[Message[Any]]) -> None:
        if any(message.value == "bad" for message in messages):
            raise OSError("no room")
        self.told.append([(message.key, message.value) for message in messages])

    def flush(self) -> None:
        self.told.append("flush")

    def close(self) -> None:
        self.told.append("close")


def sunk(shelf: Shelf) -> Pipeline:
    pipeline = Pipeline("p", on_error=skip())
    pipeline.stream("in", value=str, key=str).sink(shelf, id="shelf")
    return pipeline


def test_a_sink_is_opened_written_in_batches_flushed_by_commits_and_closed() -> None:
    shelf = Shelf()
    with PipelineDriver(sunk(shelf), commits="timed") as driver:
        driver.records.send("in", [(b"k", b"tea", 0, ()), (None, None, 0, ())])
        assert shelf.told == ["open", [("k", "tea"), (None, None)]]
        driver.commit()
        assert shelf.told[2:] == ["flush"]
    assert shelf.told[-1] == "close"


def test_what_a_sink_raises_ends_the_run_under_every_policy() -> None:
    with PipelineDriver(sunk(Shelf())) as driver, pytest.raises(SystemProblem, match="no room"):
        driver.send("in", "bad")


def test_a_sink_is_given_again_what_was_not_committed() -> None:
    shelf = Shelf()
    with PipelineDriver(sunk(shelf), commits="timed") as driver:
        driver.send("in", "tea", key="k")
        driver.crash()
        driver.restart()
        assert shelf.told.count([("k", "tea")]) == 2
