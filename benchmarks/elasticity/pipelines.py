"""The pipelines that are measured, in processes of their own: a function is given its job, or finds it around it."""

import time
from collections.abc import Iterable
from hashlib import shake_128

from msgspec import Struct

from benchmarks.job import Job
from benchmarks.pipelines import w1
from benchmarks.sources import PARTITIONS
from fluvial.dsl import Context, KeyedProcessor, Message, Pipeline, ValueState

__all__ = ["busy", "counted", "held", "slow", "w1"]

WORK = 200_000
"""Nanoseconds of processor time that `busy` takes for a message."""

KEPT = 1_000
"""Bytes that `held` keeps for a key."""

FILLING = -1
"""The number of a message that only fills the state."""


class Numbered(Struct, frozen=True, gc=False):
    """A message, with when it was produced, in ms since epoch."""

    number: int
    produced: int


class Answer(Struct, frozen=True, gc=False):
    """What a message comes to: `seen` are the messages of its key so far, `right` says whether the state was."""

    number: int
    produced: int
    task: int
    seen: int
    right: bool


def key_of(number: int) -> bytes:
    """The key of a number."""
    return b"%d" % number


def task_of(key: str) -> int:
    """The partition, and so the task, that messages of a key are put into."""
    return int(key) % PARTITIONS


def content(key: str) -> str:
    """What is kept for a key: no two are alike, and none is made much smaller by compression."""
    return shake_128(key.encode()).hexdigest(KEPT // 2)


class Hold(KeyedProcessor[str, Numbered, Answer]):
    """Keeps much for each key, and tells whether it is there."""

    kept = ValueState(str, "")

    def on_message(self, message: Message[Numbered], context: Context[str]) -> Iterable[Answer]:
        """Fill the state of a key, or look at it."""
        numbered, wanted = message.value, content(context.key)
        if numbered.number == FILLING:
            self.kept.value = wanted
            return
        right = self.kept.value == wanted
        self.kept.value = wanted
        yield Answer(numbered.number, numbered.produced, task_of(context.key), 0, right)


class CountNumbered(KeyedProcessor[str, Numbered, Answer]):
    """Tells how many messages of its key there have been."""

    count = ValueState(int, 0)

    def on_message(self, message: Message[Numbered], context: Context[str]) -> Iterable[Answer]:
        """Count one more."""
        self.count.value = seen = self.count.value + 1
        yield Answer(message.value.number, message.value.produced, task_of(context.key), seen, True)


def held(job: Job | None = None) -> Pipeline:
    """A state of many bytes for each key."""
    return _processed(Hold(), job or Job.given())


def counted(job: Job | None = None) -> Pipeline:
    """A state of a number for each key."""
    return _processed(CountNumbered(), job or Job.given())


def _processed(processor: KeyedProcessor[str, Numbered, Answer], job: Job) -> Pipeline:
    pipeline = Pipeline(job.name)
    pipeline.stream(job.input, key=str, value=Numbered).process(processor, id="kept").send_to(job.output)
    return pipeline


def worked(value: bytes) -> bytes:
    """The value and when it was done, in ns since epoch, after a time in which this thread has the processor."""
    until = time.thread_time_ns() + WORK
    while time.thread_time_ns() < until:
        pass
    return b"%b %d" % (value, time.time_ns())


def busy(job: Job | None = None) -> Pipeline:
    """A function that computes."""
    job = job or Job.given()
    pipeline = Pipeline(job.name)
    pipeline.stream(job.input, key=str, value=bytes).map(worked).send_to(job.output)
    return pipeline


def blocking(value: bytes) -> bytes:
    """The value, after a millisecond."""
    time.sleep(0.001)
    return value


def slow(job: Job | None = None) -> Pipeline:
    """A function that blocks."""
    job = job or Job.given()
    pipeline = Pipeline(job.name)
    pipeline.stream(job.input, key=str, value=bytes).map(blocking).send_to(job.output)
    return pipeline
