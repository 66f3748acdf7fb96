"""Wrong processors, states, tags and splits: each error names the user's line, and says what to write instead."""

from collections.abc import AsyncIterator, Iterable
from datetime import timedelta
from typing import Any

import pytest

from explained import assert_explains, error_of
from fluvial.dsl import (
    ClockTimers,
    Context,
    KeyedProcessor,
    KeyedStream,
    ListState,
    MapState,
    Message,
    MessageStream,
    Pipeline,
    PipelineError,
    ProcessedStream,
    Serde,
    Tag,
    UsageError,
    ValueState,
)

Word = Message[str]
Here = Context[str]


class Good(KeyedProcessor[str, str, int]):
    count = ValueState(int, 0)
    long = Tag("long", str)

    def on_message(self, message: Word, context: Here) -> Iterable[int]:  # noqa: ARG002
        return [len(message.value)]


class Derived(Good):
    more = ValueState(str)


class Silent(KeyedProcessor[str, str, int]):
    pass


class Asynchronous(Good):
    async def on_message(self, message: Word, context: Here) -> AsyncIterator[int]:  # type: ignore[override]  # noqa: ARG002
        yield 1


class OfInstance(Good):
    def __init__(self) -> None:
        self.own = ListState(int)


class Shared(Good):
    again = Good.count


class Twice(Good):
    longer = Tag("long", int)


def keyed() -> KeyedStream[str, str]:
    return Pipeline("p").stream("words", key=str, value=str)


def processed() -> ProcessedStream[str, int]:
    return keyed().process(Good(), id="good")


anything: Any = keyed
of_processed: Any = processed
any_class: Any = ValueState
UNKEPT: Any = Pipeline.stream
"""Nothing that msgspec could decode."""

CASES = [
    (
        lambda: anything().process(Good, id="g"),
        "process 'g' got the class Good",
        "a KeyedProcessor",
        "instance: Good()",
    ),
    (lambda: anything().process(len, id="g"), "process 'g' got <built-in function len>", "a KeyedProcessor", ""),
    (lambda: keyed().process(Silent(), id="s"), "Silent has no on_message", "a method", "def on_message(self"),
    (lambda: keyed().process(Asynchronous(), id="a"), "on_message is asynchronous", "a plain", "async_flat_map"),
    (
        lambda: keyed().process(OfInstance(), id="o"),
        "own is a ListState of the instance",
        "of the class",
        "not in __init__",
    ),
    (lambda: keyed().process(Shared(), id="s"), "Shared.again is the same state as Shared.count", "of its own", "each"),
    (
        lambda: keyed().process(Twice(), id="t"),
        "long and Twice.longer are both named 'long'",
        "a name for each",
        "rename",
    ),
    (lambda: keyed().process(Good(), id="a b"), "id 'a b'", "letters, digits", ""),
    (
        lambda: getattr(Pipeline("p").stream("s", value=str), "process"),  # noqa: B009 - no checker lets it through
        "process on a stream without a key",
        "a keyed stream",
        "partition_by",
    ),
    (
        lambda: processed().tagged(Tag("other", str)),
        "no tag of Good",
        "one of its tags: 'long'",
        "an attribute of Good",
    ),
    (lambda: of_processed().tagged("long"), "tagged got 'long', which is no tag of Good", "'long'", ""),
    (lambda: processed().filter(bool).tagged(Good.long), "tagged on filter 'filter-3'", "of a processor", "before"),
    (lambda: Tag("a b", str), "tag name 'a b'", "letters, digits", ""),
    (lambda: Tag("a", UNKEPT), "Tag 'a': value=stream cannot be decoded", "a dataclass", ""),
    (lambda: any_class(lambda: 0), "cannot be kept", "a type that msgspec can decode", ""),
    (lambda: ListState(UNKEPT), "ListState(stream): it cannot be kept", "a type that msgspec", ""),
    (lambda: MapState(float, int), "MapState: float is not a type of key", "str, bytes, int", ""),
    (lambda: any_class(int, "x"), "ValueState(int): default 'x': Expected `int`", "a value of that type", ""),
    (
        lambda: any_class(Serde("hex", int, lambda n: b"%x" % n, lambda data: int(data, 16)), "x"),
        "ValueState(int): default 'x'",
        "a value of that type",
        "",
    ),
    (lambda: ValueState(int, ttl=timedelta(0)), "ValueState: ttl is", "at least 1 ms", "timedelta(seconds="),
    (lambda: any_class(int, ttl=5), "ValueState: ttl is 5", "a timedelta", "timedelta(seconds="),
    (lambda: keyed().split(), "split got no predicates", "one function or more", "use filter"),
    (lambda: anything().split(3), "split got 3", "a function", "not its result"),
]


@pytest.mark.parametrize(("place", "wrong", "expected", "remedy"), CASES, ids=[case[1] for case in CASES])
def test_an_error_explains(place: Any, wrong: str, expected: str, remedy: str) -> None:
    assert_explains(error_of(place, PipelineError), wrong, place, expected, remedy)


def test_states_are_inherited() -> None:
    processor = Derived()
    processor.anything = 3  # type: ignore[attr-defined]  # attributes that are no states are free
    keyed().process(processor, id="derived")
    with pytest.raises(UsageError, match=r"Derived\.count is a state, and was assigned 3"):
        processor.count = 3  # type: ignore[assignment]


def test_the_same_side_output_may_be_read_twice() -> None:
    out = processed()
    one, other = out.tagged(Good.long), out.tagged(Good.long)
    assert one.operator is other.operator
    assert isinstance(one, KeyedStream)


def test_a_split_keeps_the_kind_of_its_stream() -> None:
    words = Pipeline("p").stream("words", value=str)
    assert [type(one) for one in words.split(bool, len)] == [MessageStream] * 3
    assert [type(one) for one in keyed().split(bool)] == [KeyedStream] * 2


def test_what_is_kept_has_no_value_where_there_is_no_key() -> None:
    class Timed(Good):
        clock = ClockTimers()

    for name in ("count", "clock"):
        raised = error_of(lambda name=name: getattr(Timed(), name), UsageError)  # type: ignore[misc]
        assert_explains(raised, f"state {name!r} is used outside of on_message", None, "while a message or timer")
