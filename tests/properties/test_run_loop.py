"""The run loop whatever comes when: a stream task whose calls end as the test says, between messages of two priorities,
commits, ticks of its window, crashes and the end.

What must hold: messages begin in their order, the urgent ones first, within the bound of calls, and as soon as there is
room; a method runs alone, and sees all that has counted; a checkpoint ends before the first message that has not
landed, and what is to be read is what was committed."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from fluvial.dsl import (
    AsyncCollector,
    AsyncStreamTask,
    Collector,
    Envelope,
    Pipeline,
    TaskCoordinator,
    ValueState,
    skip,
)
from fluvial.planner import Settings
from fluvial.runtime.local.checkpoints.checkpoint import decode
from fluvial.runtime.testing import PipelineDriver
from generators.how_many import examples

Place = tuple[str, int]
TICK = timedelta(seconds=10)
MOST_WAITING = 2
"""Batches of a stream that wait; a task reads no more of it."""


class Story:
    """What has happened since the last start, as the task tells it, and what has counted for ever."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.sent: dict[str, list[str]] = {"usual": [], "urgent": []}
        self.begun: dict[str, int] = {"usual": 0, "urgent": 0}
        self.calls: dict[Place, asyncio.Future[None]] = {}
        self.landed: set[Place] = set()
        self.counted: set[Place] = set()
        self.ticks = self.ends = self.overtaken = 0
        self.wrong: list[str] = []
        self._inside = False

    def must(self, good: bool, rule: str) -> None:
        """Note a rule that is broken. What is raised here would be the error of a message, and be skipped."""
        if not good:
            self.wrong.append(rule)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """No method is called while another one runs."""
        self.must(not self._inside, "one method at a time")
        self._inside = True
        yield
        self._inside = False

    def begin(self, place: Place) -> asyncio.Future[None]:
        stream, offset = place
        self.must(offset == self.begun[stream], "in their order")
        if stream == "usual" and self.begun["urgent"] < len(self.sent["urgent"]):
            self.overtaken += 1
        # As many as may be in flight may wait for it, behind those that are.
        self.must(self.overtaken <= self.most, "the urgent ones first")
        self.must(len(self.calls) < self.most, "within the bound")
        self.begun[stream] += 1
        self.calls[place] = asyncio.get_running_loop().create_future()
        return self.calls[place]

    def prefix(self, stream: str) -> int:
        """The offset of the first message that has not landed."""
        return next(offset for offset in range(len(self.sent[stream]) + 1) if (stream, offset) not in self.landed)

    def successes(self, places: set[Place]) -> set[Place]:
        return {(stream, offset) for stream, offset in places if self.sent[stream][offset] != "fail"}

    def restart(self, offsets: dict[str, int]) -> None:
        """A crash: all is forgotten that no checkpoint has."""
        self.calls = {}
        self.begun, self.overtaken = dict(offsets), 0
        self.landed = {(stream, offset) for stream in offsets for offset in range(offsets[stream])}
        self.counted = self.successes(self.landed)


def pipeline_of(story: Story, *, stateful: bool) -> Pipeline:
    class Scripted(AsyncStreamTask[Any, str, str]):
        """Tells the story, and waits for the test in each call."""

        max_in_flight = story.most
        timeout = timedelta(days=1)  # however often the clock ticks

        async def process(
            self, envelope: Envelope[Any, str], collector: AsyncCollector[str], coordinator: TaskCoordinator
        ) -> None:
            assert envelope.stream is not None
            assert envelope.offset is not None
            place = envelope.stream, envelope.offset
            await story.begin(place)
            collector.apply(self.add, place, collector)
            if envelope.value == "commit":
                coordinator.commit()
            if envelope.value == "fail":
                raise ValueError(envelope.value)

        def add(self, place: Place, collector: AsyncCollector[str]) -> None:
            with story.alone():
                story.counted.add(place)
                self.count()
                collector.send("{} {}".format(*place))

        def count(self) -> None:
            """Without state nothing is counted."""

        def window(self, collector: Collector[str], coordinator: TaskCoordinator) -> None:
            del collector, coordinator
            with story.alone():
                self.check()
                story.ticks += 1

        def check(self) -> None:
            """Without state there is nothing to see."""

        def on_end_of_stream(self, collector: Collector[str], coordinator: TaskCoordinator) -> None:
            del coordinator
            with story.alone():
                story.must(not story.calls, "the end comes last")
                story.ends += 1
                collector.send("end")

    class Counting(Scripted):
        """The same, with a state."""

        all = ValueState(int, 0)

        def count(self) -> None:
            self.all.value += 1

        def check(self) -> None:
            story.must(self.all.value == len(story.counted), "it sees all that has counted, and nothing else")

    pipeline = Pipeline("story", on_error=skip())
    usual, urgent = (pipeline.stream(name, value=str, priority=int(name == "urgent")) for name in story.sent)
    kind = Counting if stateful else Scripted
    pipeline.task(kind, usual.merge(urgent), id="x", window=TICK).send_to("out", value=str)
    return pipeline


class RunLoop(RuleBasedStateMachine):
    """A story, told one event at a time."""

    driver: PipelineDriver
    story: Story

    @initialize(most=st.integers(1, 3), stateful=st.booleans(), turn=st.sampled_from([None, 1, 2]))
    def start(self, most: int, stateful: bool, turn: int | None) -> None:
        self.story, self.stateful = Story(most), stateful
        given = Settings(commit_interval=timedelta(days=1), turn_messages=turn)
        pipeline = pipeline_of(self.story, stateful=stateful)
        self.driver = PipelineDriver(pipeline, commits="timed", settings=given)
        self.kept = {"usual": 0, "urgent": 0}

    def waiting(self, stream: str) -> int:
        return len(self.story.sent[stream]) - self.story.begun[stream]

    @precondition(lambda self: self.waiting("usual") + self.waiting("urgent") < MOST_WAITING)
    @rule(stream=st.sampled_from(["usual", "urgent"]), words=st.lists(st.sampled_from(["word", "commit", "fail"])))
    def send(self, stream: str, words: list[str]) -> None:
        if not self.waiting("urgent"):
            self.story.overtaken = 0
        self.story.sent[stream] += words
        self.driver.records.send(stream, [(None, word.encode(), 0, ()) for word in words])

    @precondition(lambda self: self.story.calls)
    @rule(data=st.data())
    def end_call(self, data: st.DataObject) -> None:
        self.end_calls([data.draw(st.sampled_from(sorted(self.story.calls)))])

    @precondition(lambda self: len(self.story.calls) > 1)
    @rule()
    def end_calls_at_once(self) -> None:
        self.end_calls(sorted(self.story.calls))

    def end_calls(self, places: list[Place]) -> None:
        for place in places:
            self.story.calls.pop(place).set_result(None)
            self.story.landed.add(place)
        self.driver.advance(timedelta(0))

    @rule()
    def tick(self) -> None:
        before = self.story.ticks
        self.driver.advance(TICK)
        draining = bool(self.driver._container and self.driver._container._draining)
        assert self.story.ticks - before == int(not draining), "once, and not while a commit waits"

    @rule()
    def commit(self) -> None:
        self.driver.commit()
        if not (self.stateful and self.story.calls):
            assert self.offsets() == {stream: self.story.prefix(stream) for stream in self.story.sent}

    @rule()
    def crash(self) -> None:
        kept = self.offsets()
        self.driver.crash()
        self.story.restart(kept)
        self.driver.restart()

    def offsets(self) -> dict[str, int]:
        """Those of the last checkpoint."""
        kept = self.driver._admin.checkpoints("story").get("usual/0")
        found = decode(kept, "usual/0").offsets if kept else {}
        return {stream: found.get(stream, 0) for stream in self.story.sent}

    @invariant()
    def no_rule_is_broken(self) -> None:
        assert not hasattr(self, "story") or self.story.wrong == []

    @invariant()
    def no_permit_of_a_call_is_free_while_messages_wait(self) -> None:
        if hasattr(self, "driver") and self.driver._container is not None and not self.driver._container._draining:
            waits = self.waiting("usual") + self.waiting("urgent")
            assert not waits or len(self.story.calls) == self.story.most

    @invariant()
    def the_checkpoint_ends_before_what_has_not_landed(self) -> None:
        if hasattr(self, "driver"):
            offsets = self.offsets()
            for stream, offset in offsets.items():
                assert self.kept[stream] <= offset <= self.story.prefix(stream), "it never goes back"
            self.kept = offsets

    @invariant()
    def what_is_read_was_committed(self) -> None:
        if hasattr(self, "driver"):
            self.compare(self.offsets())

    def compare(self, offsets: dict[str, int]) -> None:
        """All that is before the offsets is there, with state once, and nothing that has not landed."""
        found = Counter(message.value for message in self.driver.read("out"))
        before = {(stream, offset) for stream, end in offsets.items() for offset in range(end)}
        wanted = {"{} {}".format(*place) for place in self.story.successes(before)}
        assert wanted <= found.keys()
        if self.stateful:
            assert +found == Counter(wanted)

    def teardown(self) -> None:
        if not hasattr(self, "driver"):
            return
        while self.story.calls:
            self.end_calls(sorted(self.story.calls))
        assert self.story.begun == {stream: len(words) for stream, words in self.story.sent.items()}
        self.driver.end()
        assert (self.story.wrong, self.story.ends) == ([], 1)
        found = Counter(message.value for message in self.driver.read("out"))
        assert found.pop("end") == 1
        places = {(stream, offset) for stream, words in self.story.sent.items() for offset in range(len(words))}
        wanted = {"{} {}".format(*place) for place in self.story.successes(places)}
        assert found.keys() == wanted
        assert not self.stateful or set(found.values()) <= {1}
        self.driver.close()


TestRunLoop = RunLoop.TestCase
TestRunLoop.settings = settings(max_examples=examples(120), stateful_step_count=30, deadline=None)
