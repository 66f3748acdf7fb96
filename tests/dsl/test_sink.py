"""What is taken for a sink: an object with four methods that have done their work when they return."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from explained import assert_explains, error_of
from fluvial.dsl import BatchPart, Message, Pipeline, PipelineError


class Prices:
    """A sink as a user writes it."""

    def open(self) -> None:
        pass

    def write(self, messages: Sequence[Message[int]]) -> None:
        pass

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass


class WithoutFlush(Prices):
    flush: Any = None


class InParts(Prices):
    def begin(self, part: BatchPart) -> None:
        del part


class OddPart(Prices):
    begin = 3


class AsynchronousPart(Prices):
    async def begin(self, part: BatchPart) -> None:
        del part


class NoPart(Prices):
    def begin(self) -> None:
        pass


class Asynchronous(Prices):
    async def flush(self) -> None:  # type: ignore[override]
        pass


class Lazy(Prices):
    def write(self, messages: Sequence[Message[int]]) -> Iterator[None]:  # type: ignore[override]
        del messages
        yield


class OneByOne(Prices):
    def write(self) -> None:  # type: ignore[override]
        pass


def into(sink: Any) -> None:
    Pipeline("p").stream("in", value=int).sink(sink, id="s")


def test_an_object_with_the_four_methods_is_a_sink() -> None:
    into(Prices())
    into(InParts())


@pytest.mark.parametrize(
    ("sink", "wrong", "expected", "remedy"),
    [
        (object(), "object has no open, write, flush, close", "open, write, flush and close", "may be empty"),
        (WithoutFlush(), "WithoutFlush has no flush", "open, write, flush and close", "may be empty"),
        (Asynchronous(), "Asynchronous are asynchronous: flush", "done their work", "only open and close may be"),
        (AsynchronousPart(), "AsynchronousPart are asynchronous: begin", "done their work", "only open and close"),
        (OddPart(), "OddPart.begin=3", "a function of a BatchPart", "make it a method"),
        (Lazy(), "Lazy are generators: write", "done their work", "leave out yield"),
    ],
)
def test_what_is_no_sink_is_refused_with_what_it_lacks(sink: Any, wrong: str, expected: str, remedy: str) -> None:
    error = error_of(lambda: into(sink), PipelineError)
    assert_explains(error, wrong, None, expected, remedy)


def test_a_method_that_cannot_take_the_messages_is_refused() -> None:
    assert "OneByOne.write" in str(error_of(lambda: into(OneByOne()), PipelineError))
    assert "NoPart.begin" in str(error_of(lambda: into(NoPart()), PipelineError))
