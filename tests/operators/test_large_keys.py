"""A key that is too large for state is an error of its message, at each operator that keeps state by key."""

from collections.abc import Callable, Iterable
from datetime import timedelta

import pytest

from engines.targets import append, contents
from explained import assert_explains, error_of
from fluvial.dsl import (
    Context,
    KeyedProcessor,
    KeyedStream,
    Message,
    MessageError,
    Pipeline,
    ValueState,
    count,
    dead_letter,
    session,
    tumbling,
)
from fluvial.runtime import run
from fluvial.runtime.kernel.state_cache import LARGEST_KEY
from fluvial.runtime.systems import MemorySystem

Texts = KeyedStream[str, str]
SECOND = timedelta(seconds=1)


class Counter(KeyedProcessor[str, str, int]):
    seen = ValueState(int, default=0)

    def on_message(self, message: Message[str], context: Context[str]) -> Iterable[int]:  # noqa: ARG002
        self.seen.value += 1
        yield self.seen.value


def joined(left: str | None, right: str | None) -> str:
    return f"{left}{right}"


KEEPS: dict[str, Callable[[Texts, Texts], object]] = {
    "tumbling": lambda one, _: one.window(tumbling(SECOND), count(), id="op").map(str).send_to("out"),
    "session": lambda one, _: one.window(session(SECOND), count(), id="op").map(str).send_to("out"),
    "join": lambda one, other: one.join(other, joined, id="op", within=SECOND).send_to("out"),
    "latest": lambda one, other: one.join(other, joined, id="op", within=SECOND, retain="latest").send_to("out"),
    "deduplicate": lambda one, _: one.deduplicate(SECOND, id="op").send_to("out"),
    "process": lambda one, _: one.process(Counter(), id="op").send_to("out"),
}


def pipeline_of(keep: str) -> Pipeline:
    pipeline = Pipeline("large-keys", on_error=dead_letter())
    other = pipeline.stream("other", key=str, value=str)
    KEEPS[keep](pipeline.stream("in", key=str, value=str), other)
    other.send_to("copied")
    return pipeline


@pytest.mark.parametrize("keep", KEEPS)
@pytest.mark.parametrize(("length", "failed"), [(LARGEST_KEY // 2, 0), (LARGEST_KEY + 1, 1)])
def test_a_key_that_is_too_large_fails_alone(keep: str, length: int, failed: int) -> None:
    system = MemorySystem()
    for stream in ("in", "other"):
        system.admin().create(stream, 1)
    append(system, "in", 0, [(b"k" * length, b"a", 1, ()), (b"short", b"b", 1, ())])
    append(system, "other", 0, [(b"short", b"c", 1, ())])
    report = run(pipeline_of(keep), system=system, until="end")
    assert sum(report.failed.values()) == failed
    assert report.written["out"] > 0
    assert len(contents(system, "large-keys-dead-letters")) == failed


def test_the_error_says_which_key_is_allowed() -> None:
    system = MemorySystem()
    system.admin().create("in", 1)
    append(system, "in", 0, [(b"k" * (LARGEST_KEY + 1), b"a", 1, ())])
    pipeline = Pipeline("large-keys")
    pipeline.stream("in", key=str, value=str).window(tumbling(SECOND), count(), id="op").map(str).send_to("out")
    error = error_of(lambda: run(pipeline, system=system, until="end"), MessageError)
    place = test_the_error_says_which_key_is_allowed
    assert_explains(error, "a key of 524,289 bytes is too large for state", place, "524,288 bytes", "partition_by", 5)
