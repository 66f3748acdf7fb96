"""Stream tasks whatever comes: each message counts once, whole or not at all, across crashes, commits and failures, and
a shutdown is behind the message that asked for it."""

import asyncio
from collections import Counter
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fluvial.dsl import (
    AsyncCollector,
    AsyncStreamTask,
    Collector,
    Envelope,
    ListState,
    Pipeline,
    StreamTask,
    TaskCoordinator,
    ValueState,
    skip,
)
from fluvial.runtime.testing import PipelineDriver
from generators.how_many import examples

Word = Envelope[Any, str]
VERBS = ("word", "fail", "commit", "commit-all", "shutdown-all")


class Numbering(StreamTask[Any, str, str]):
    """Numbers messages by a state, and does what they say; a failing one fails behind its changes."""

    count = ValueState(int, 0)
    offsets = ListState(int)

    def process(self, envelope: Word, collector: Collector[str], coordinator: TaskCoordinator) -> None:
        self.count.value += 1
        if envelope.offset is not None:
            self.offsets.append(envelope.offset)
        collector.send(f"{envelope.partition} {self.count.value} {envelope.offset}")
        if envelope.value.startswith("commit"):
            coordinator.commit("all" if envelope.value.endswith("all") else "task")
        if envelope.value == "shutdown-all":
            coordinator.shutdown("all")
        if envelope.value == "fail":
            coordinator.shutdown("all")
            raise ValueError(envelope.value)
        assert len(self.offsets) == self.count.value


async def passed(word: str) -> list[str]:
    return [word]


def numbered(*, calls: bool) -> Pipeline:
    pipeline = Pipeline("numbered", on_error=skip())
    words = pipeline.stream("in", value=str)
    source = words.async_flat_map(passed, id="passed", order="input") if calls else words
    pipeline.task(Numbering, source, id="number").send_to("out", value=str)
    return pipeline


BATCHES = st.lists(
    st.tuples(st.integers(0, 1), st.lists(st.sampled_from(VERBS), max_size=5), st.booleans()), max_size=5
)


@settings(max_examples=examples(40), deadline=None)
@given(BATCHES, st.booleans())
def test_each_message_counts_once_and_whole(batches: list[tuple[int, list[str], bool]], calls: bool) -> None:
    sent: dict[int, list[str]] = {0: [], 1: []}
    with PipelineDriver(numbered(calls=calls), partitions=2, commits="timed") as driver:
        for partition, words, crashes in batches:
            while driver.shut_down:
                driver.restart()
            driver.records.send("in", [(None, word.encode(), 0, ()) for word in words], partition=partition)
            sent[partition] += words
            if crashes:
                driver.restart()
        while driver.shut_down:
            driver.restart()
        driver.commit()
        found = Counter(message.value for message in driver.read("out"))
    wanted = Counter[str]()
    for partition, words in sent.items():
        right = [offset for offset, word in enumerate(words) if word != "fail"]
        wanted.update(f"{partition} {number} {offset}" for number, offset in enumerate(right, 1))
    assert found == wanted


@settings(max_examples=examples(20), deadline=None)
@given(st.lists(st.sampled_from(VERBS[:2]), max_size=4), st.lists(st.sampled_from(VERBS), max_size=4))
def test_nothing_is_processed_behind_a_shutdown(before: list[str], behind: list[str]) -> None:
    with PipelineDriver(numbered(calls=False), commits="timed") as driver:
        words = [*before, "shutdown-all", *behind]
        driver.records.send("in", [(None, word.encode(), 0, ()) for word in words])
        assert driver.shut_down
        seen = [int(message.value.split()[2]) for message in driver.read("out")]
    assert seen == [offset for offset, word in enumerate([*before, "shutdown-all"]) if word != "fail"]


class Counted(AsyncStreamTask[Any, str, str]):
    """Counts messages, in whatever order their calls end, and does what they say."""

    count = ValueState(int, 0)
    offsets = ListState(int)

    async def process(self, envelope: Word, collector: AsyncCollector[str], coordinator: TaskCoordinator) -> None:
        await asyncio.sleep(0)
        collector.apply(self.add, envelope, collector)
        if envelope.value.startswith("commit"):
            coordinator.commit("all" if envelope.value.endswith("all") else "task")
        if envelope.value == "fail":
            coordinator.shutdown("all")
            raise ValueError(envelope.value)

    def add(self, envelope: Word, collector: AsyncCollector[str]) -> None:
        self.count.value += 1
        self.offsets.append(envelope.offset or 0)
        assert len(self.offsets) == self.count.value
        collector.send(f"{self.count.value} {envelope.offset}")


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(st.tuples(st.lists(st.sampled_from(VERBS[:4]), max_size=5), st.booleans()), max_size=4), st.randoms())
def test_messages_in_flight_count_once_each_whatever_call_ends_first(
    batches: list[tuple[list[str], bool]], random: Random
) -> None:
    pipeline, sent = Pipeline("counted", on_error=skip()), list[str]()
    pipeline.task(Counted, pipeline.stream("in", value=str), id="x").send_to("out", value=str)
    with PipelineDriver(pipeline, commits="timed", async_results=lambda ready: random.randrange(len(ready))) as driver:
        for words, crashes in batches:
            driver.records.send("in", [(None, word.encode(), 0, ()) for word in words])
            sent += words
            if crashes:
                driver.restart()
        driver.end()
        assert not driver.shut_down
        found = [tuple(map(int, message.value.split())) for message in driver.read("out")]
    assert sorted(number for number, _ in found) == list(range(1, len(found) + 1))
    assert sorted(offset for _, offset in found) == [at for at, word in enumerate(sent) if word != "fail"]
