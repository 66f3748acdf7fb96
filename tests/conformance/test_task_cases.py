"""Conformance cases about stream tasks: state by key on every engine, and on the local one the loop, requests and ends
of Samza's low-level API. Overruled: a clean end commits all tasks (R05), so does an end of input (R10), and a commit
may have more than the message that asked for it (C06), for what is behind it counts whole, too."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from threading import Barrier, Thread
from typing import Any

import pytest

from engines.conformance import Conformance, check, on_targets
from fluvial.dsl import (
    AsyncCollector,
    AsyncStreamTask,
    Collector,
    Envelope,
    MapState,
    MessageError,
    Pipeline,
    StreamTask,
    Tag,
    TaskCallback,
    TaskCoordinator,
    UsageError,
    ValueState,
    skip,
)
from fluvial.dsl.message import Record
from fluvial.runtime.testing import PipelineDriver

SECOND = timedelta(seconds=1)
Words = Envelope[str, str]
AnyEnvelope = Envelope[Any, str]


class Counting(StreamTask[str, str, str]):
    """Counts the words of each key, and tells of each third one aside."""

    third = Tag("third", str)
    words = MapState(str, int)
    all = ValueState(int, 0)

    def process(self, envelope: Words, collector: Collector[str], coordinator: TaskCoordinator) -> None:
        del coordinator
        self.all.value += 1
        self.words[envelope.value] = self.words.get(envelope.value, 0) + 1
        collector.send(f"{envelope.key} {envelope.value} {self.words[envelope.value]} of {self.all.value}")
        if self.all.value % 3 == 0:
            collector.send(f"{envelope.input} {envelope.stream}", to=self.third)


class Failing(StreamTask[str, str, str]):
    """Fails behind its changes, where a message says so."""

    all = ValueState(int, 0)

    def process(self, envelope: Words, collector: Collector[str], coordinator: TaskCoordinator) -> None:
        del coordinator
        self.all.value += 1
        collector.send(f"{self.all.value}")
        if envelope.value == "wrong":
            raise ValueError(envelope.value)


def counted() -> Pipeline:
    pipeline = Pipeline("counted")
    counts = pipeline.task(Counting, pipeline.stream("in", key=str, value=str), id="count")
    counts.send_to("out", value=str)
    counts.tagged(Counting.third).send_to("third", value=str)
    return pipeline


def between() -> Pipeline:
    """A stream task behind a border, of two inputs, and an operator behind it."""
    pipeline = Pipeline("between")
    one = pipeline.stream("in", value=str).partition_by(lambda word: word[0], id="by-letter", key_type=str)
    two = pipeline.stream("more", value=str).partition_by(lambda word: word[0], id="more-by-letter", key_type=str)
    pipeline.task(Counting, [one, two], id="count").map(str.upper).send_to("out", value=str)
    return pipeline


def failing() -> Pipeline:
    pipeline = Pipeline("failing", on_error=skip())
    pipeline.task(Failing, pipeline.stream("in", key=str, value=str), id="fail").send_to("out", value=str)
    return pipeline


def rows(*messages: tuple[str, str]) -> list[Record]:
    return [(key.encode(), value.encode(), at, ()) for at, (key, value) in enumerate(messages)]


def out(*lines: str) -> list[bytes]:
    return [line.encode() for line in lines]


CASES = [
    Conformance(
        "TASK-state-by-key",
        counted,
        {"in": [rows(("a", "x"), ("b", "x"), ("a", "y"), ("a", "x"))]},
        {"out": out("a x 1 of 1", "b x 1 of 1", "a y 1 of 2", "a x 2 of 3"), "third": out("0 in")},
        {},
    ),
    Conformance(
        "TASK-between-operators",
        between,
        {"in": [rows(("", "tea"), ("", "tip"))], "more": [rows(("", "ale"))]},
        {"out": out("T TEA 1 OF 1", "T TIP 1 OF 2", "A ALE 1 OF 1")},
        {},
    ),
    Conformance(
        "TASK-whole-or-not-at-all",
        failing,
        {"in": [rows(("a", "x"), ("a", "wrong"), ("a", "y"))]},
        {"out": out("1", "2")},
        {},
    ),
]


# The oracle knows no stream tasks.
ON_ENGINES = [one for one in on_targets(CASES, {"TASK-state-by-key"}) if one.values[1] != "oracle"]


@pytest.mark.parametrize(("case", "target"), ON_ENGINES)
def test_a_case_on_a_target(case: Conformance, target: str, request: Any) -> None:
    check(case, target, request)


class Scripted(StreamTask[Any, str, str]):
    """Does what a message says, and tells of each call in `calls`."""

    def __init__(self, calls: list[str]) -> None:
        self.calls = calls
        self.name = ""

    def init(self, context: Any) -> None:
        self.name = context.name

    def process(self, envelope: AnyEnvelope, collector: Collector[str], coordinator: TaskCoordinator) -> None:
        self.calls.append(f"{self.name} {envelope.value}")
        collector.send(envelope.value)
        for verb in envelope.value.split():
            if verb.startswith("commit"):
                coordinator.commit("all" if verb.endswith("all") else "task")
            if verb.startswith("shutdown"):
                coordinator.shutdown("all" if verb.endswith("all") else "task")
            if verb == "fail":
                raise ValueError(verb)


class Listening(Scripted):
    """Tells of ends, too."""

    def on_end_of_stream(self, collector: Collector[str], coordinator: TaskCoordinator) -> None:
        self.calls.append(f"{self.name} end")
        collector.send("end")
        coordinator.commit()

    def on_drain(self, collector: Collector[str], coordinator: TaskCoordinator) -> None:
        del coordinator
        self.calls.append(f"{self.name} drain")
        collector.send("drain")


class FourWindows(StreamTask[Any, str, str]):
    """Votes for the end in its fourth window."""

    windows = ValueState(int, 0)

    def process(self, envelope: AnyEnvelope, collector: Collector[str], coordinator: TaskCoordinator) -> None:
        """Nothing comes."""

    def window(self, collector: Collector[str], coordinator: TaskCoordinator) -> None:
        self.windows.value += 1
        collector.send(f"{self.windows.value}")
        if self.windows.value == 4:
            coordinator.shutdown()


def scripted(calls: list[str], kind: type[Scripted] = Scripted, *streams: str) -> Pipeline:
    pipeline = Pipeline("scripted")
    inputs = [pipeline.stream(name, value=str) for name in streams or ("in",)]
    pipeline.task(lambda: kind(calls), inputs, id="x").send_to("out", value=str)
    return pipeline


def texts(*values: str) -> Sequence[Record]:
    return [(None, value.encode(), 0, ()) for value in values]


def committed(driver: PipelineDriver) -> set[str]:
    return {message.value for message in driver.read("out")}


def test_r04_windows_are_called_by_the_clock() -> None:
    pipeline = Pipeline("p")
    pipeline.task(FourWindows, pipeline.stream("in", value=str), id="x", window=SECOND).send_to("out", value=str)
    with PipelineDriver(pipeline) as driver:
        assert committed(driver) == set()  # none at the start
        driver.advance(3 * SECOND)
        assert committed(driver) == {"1", "2", "3"}
        driver.advance(10 * SECOND)
        assert committed(driver) == {"1", "2", "3", "4"}
        assert driver.shut_down


@pytest.mark.parametrize(
    ("asked", "at_once"), [("commit", {"commit"}), ("commit-all", {"commit-all", "other"})], ids=["R05", "R06"]
)
def test_commits_of_one_task_or_of_all(asked: str, at_once: set[str]) -> None:
    with PipelineDriver(scripted([]), partitions=2, commits="timed") as driver:
        driver.records.send("in", texts("other"), partition=1)
        driver.records.send("in", texts(asked), partition=0)
        assert committed(driver) == at_once


def test_r05_a_shutdown_ends_the_run_behind_the_message_that_asks() -> None:
    calls = list[str]()
    with PipelineDriver(scripted(calls), partitions=2, commits="timed") as driver:
        driver.records.send("in", texts("other"), partition=1)
        driver.records.send("in", texts("commit shutdown-all", "not processed"), partition=0)
        assert driver.shut_down
        assert committed(driver) == {"other", "commit shutdown-all"}  # a clean end commits all tasks
        driver.restart()
        assert calls[-1] == "in/0 not processed"


def test_r07_the_run_ends_once_all_have_voted() -> None:
    with PipelineDriver(scripted([]), partitions=2) as driver:
        driver.records.send("in", texts("shutdown"), partition=0)
        assert not driver.shut_down
        driver.records.send("in", texts("shutdown"), partition=1)
        assert driver.shut_down


def test_r08_each_task_is_told_of_its_end_once() -> None:
    calls = list[str]()
    with PipelineDriver(scripted(calls, Listening, "a", "b"), partitions=2) as driver:
        for stream in ("a", "b"):
            for partition in (0, 1):
                driver.records.send(stream, texts(stream), partition=partition)
        driver.end()
    assert sorted(calls) == ["a/0 a", "a/0 b", "a/0 end", "a/1 a", "a/1 b", "a/1 end"]
    assert [calls.index("a/0 end"), calls.index("a/1 end")] > [1, 1]


def test_r10_an_end_of_input_commits_whether_asked_or_not() -> None:
    for kind, last in ((Listening, {"end"}), (Scripted, set[str]())):
        with PipelineDriver(scripted([], kind), commits="timed") as driver:
            driver.records.send("in", texts("word"))
            driver.end()
            assert committed(driver) == {"word"} | last


def test_r12_a_drain_is_told_in_place_of_an_end() -> None:
    calls = list[str]()
    with PipelineDriver(scripted(calls, Listening)) as driver:
        driver.end(drained=True)
        assert committed(driver) == {"drain"}
    assert calls == ["in/0 drain"]


def test_c06_a_message_that_fails_asks_for_nothing() -> None:
    with PipelineDriver(scripted([]), commits="timed") as driver:
        with pytest.raises(MessageError):
            driver.records.send("in", texts("word", "shutdown-all commit fail"))
        assert committed(driver) == set()


def test_c09_requests_of_three_tasks() -> None:
    with PipelineDriver(scripted([]), partitions=3, commits="timed") as driver:
        driver.records.send("in", texts("b"), partition=1)
        for partition in (0, 2):
            driver.records.send("in", texts(f"commit {partition}"), partition=partition)
        assert committed(driver) == {"commit 0", "commit 2"}
        driver.records.send("in", texts("commit-all"), partition=0)
        assert committed(driver) == {"commit 0", "commit 2", "b", "commit-all"}
        for partition in (0, 1):
            driver.records.send("in", texts("shutdown"), partition=partition)
            assert not driver.shut_down
        driver.records.send("in", texts("shutdown"), partition=2)
        assert driver.shut_down


class Sleeping(AsyncStreamTask[Any, str, str]):
    """Takes as many seconds as a message says, and then does what it says, in the order in which calls end."""

    counted = ValueState(int, 0)

    async def process(
        self, envelope: AnyEnvelope, collector: AsyncCollector[str], coordinator: TaskCoordinator
    ) -> None:
        seconds, *verbs = envelope.value.split()
        await asyncio.sleep(int(seconds))
        collector.apply(self.count, envelope.value, collector)
        if "commit" in verbs:
            coordinator.commit()
        if "shutdown" in verbs:
            coordinator.shutdown()
        if "fail" in verbs:
            raise ValueError(envelope.value)

    def count(self, value: str, collector: AsyncCollector[str]) -> None:
        self.counted.value += 1
        collector.send(f"{self.counted.value} {value}")


def sleeping() -> Pipeline:
    pipeline = Pipeline("sleeping", on_error=skip())
    pipeline.task(Sleeping, pipeline.stream("in", value=str), id="x").send_to("out", value=str)
    return pipeline


def test_c06_a_request_counts_once_all_before_it_have_landed() -> None:
    with PipelineDriver(sleeping(), commits="timed") as driver:
        driver.records.send("in", texts("3", "2 commit", "1 shutdown"))
        driver.advance(2 * SECOND)
        assert (committed(driver), driver.shut_down) == (set(), False)
        driver.advance(SECOND)
        assert driver.shut_down  # behind the commit that was asked for before it
        assert committed(driver) == {"1 1 shutdown", "2 2 commit", "3 3"}


def test_a_request_counts_while_messages_behind_it_are_in_flight() -> None:
    with PipelineDriver(sleeping(), commits="timed") as driver:
        driver.records.send("in", texts("1 shutdown", "9"))
        driver.advance(SECOND)
        assert driver.shut_down


def test_a_message_whose_call_fails_counts_for_nothing() -> None:
    with PipelineDriver(sleeping()) as driver:
        driver.records.send("in", texts("1", "2 shutdown fail", "3"))
        driver.advance(3 * SECOND)
        assert (committed(driver), driver.shut_down) == ({"1 1", "2 3"}, False)


def test_what_was_in_flight_is_called_again_after_a_crash() -> None:
    with PipelineDriver(sleeping(), commits="timed") as driver:
        driver.records.send("in", texts("1", "9", "2"))
        driver.advance(3 * SECOND)
        driver.restart()
        driver.advance(9 * SECOND)
        driver.commit()
        assert committed(driver) == {"1 1", "2 2", "3 9"}


def told(calls: list[BaseException | None]) -> TaskCallback:
    return TaskCallback(calls.append)


def test_c01_a_callback_tells_of_success_or_failure() -> None:
    calls, error = list[BaseException | None](), ValueError("no")
    told(calls).complete()
    told(calls).fail(error)
    assert calls == [None, error]


def test_c02_a_second_call_is_refused() -> None:
    calls = list[BaseException | None]()
    callback = told(calls)
    callback.complete()
    for again in (callback.complete, lambda: callback.fail(ValueError("no"))):
        with pytest.raises(UsageError, match="reported as done"):
            again()
    assert calls == [None]


def test_c03_of_two_threads_one_is_first() -> None:
    calls, refused, both = list[BaseException | None](), list[UsageError](), Barrier(2)
    callback = told(calls)

    def complete() -> None:
        both.wait()
        try:
            callback.complete()
        except UsageError as error:
            refused.append(error)

    threads = [Thread(target=complete) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (calls, len(refused)) == ([None], 1)
