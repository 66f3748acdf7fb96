"""A record that its stream does not take is an error of its message, wherever it is made, and nothing of it stays."""

from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

import pytest

from engines.limited import LimitedMemory
from engines.targets import append, contents
from explained import assert_explains, error_of
from fluvial.dsl import (
    Context,
    ErrorPolicy,
    KeyedProcessor,
    KeyedStream,
    Message,
    MessageError,
    Pane,
    Pipeline,
    Tag,
    Tagged,
    collect,
    count,
    dead_letter,
    fail,
    skip,
    tumbling,
)
from fluvial.dsl.message import Record
from fluvial.runtime import Report, run

LIMIT = 200
TEN = tumbling(timedelta(milliseconds=10))
Texts = KeyedStream[str, str]
Build = Callable[[Texts], object]


def grown(text: str) -> str:
    """`b300` becomes three hundred of b."""
    return text[0] * int(text[1:])


def initial(text: str) -> str:
    return text[0]


def text_length(text: str) -> int:
    return len(text)


def first_of(pane: Pane[str, list[str]]) -> str:
    return pane.value[0]


def with_header(message: Message[str]) -> Message[str]:
    return Message(message.key, message.value[:1], message.timestamp, (("text", message.value.encode()),))


async def at_once(text: str) -> list[str]:
    return [text]


class Aside(KeyedProcessor[str, str, str]):
    """Passes on beside its outputs what it is given."""

    aside = Tag("aside", str)

    def on_message(self, message: Message[str], context: Context[str]) -> Iterable[Tagged[str]]:
        del context
        yield self.aside(message.value)


def sent(texts: Texts) -> None:
    texts.send_to("out")


def sent_with_a_large_key(texts: Texts) -> None:
    texts.map(initial).send_to("out", key=lambda text: text * (300 if text == "b" else 1))


def sent_with_a_large_header(texts: Texts) -> None:
    texts.map_messages(with_header).send_to("out", value=str)


def sent_behind_a_call(texts: Texts) -> None:
    texts.async_flat_map(at_once, id="call").send_to("out")


def sent_behind_a_border(texts: Texts) -> None:
    texts.partition_by(initial, id="by", key_type=str, value=str).send_to("out")


def handed_on(texts: Texts) -> None:
    texts.partition_by(initial, id="to", key_type=str, value=str).map(text_length).send_to("lengths")


def handed_on_behind_a_call(texts: Texts) -> None:
    texts.async_flat_map(at_once, id="call").partition_by(initial, id="to", key_type=str, value=str).send_to("texts")


def spread(texts: Texts) -> None:
    texts.broadcast(id="to", value=str).map(text_length).send_to("lengths")


def fired(texts: Texts) -> None:
    texts.window(TEN, collect(), id="w").map(first_of).send_to("out")


def sent_aside(texts: Texts) -> None:
    texts.process(Aside(), id="aside").tagged(Aside.aside).send_to("out")


BUILDS: tuple[Build, ...] = (
    sent,
    sent_with_a_large_key,
    sent_with_a_large_header,
    sent_behind_a_call,
    sent_behind_a_border,
    handed_on,
    handed_on_behind_a_call,
    spread,
    fired,
    sent_aside,
)


def built(build: Build, on_error: ErrorPolicy) -> Pipeline:
    pipeline = Pipeline("p", on_error=on_error)
    build(pipeline.stream("in", value=str, key=str).map(grown))
    return pipeline


def running(pipeline: Pipeline, *texts: str) -> tuple[LimitedMemory, Callable[[], Report]]:
    """A run over these texts, each with a key of its own, and the system in which `out` and `p-to` are limited."""
    system = LimitedMemory({"out": LIMIT, "p-to": LIMIT + 64, "late": LIMIT})
    system.admin().create("in", 1)
    records: list[Record] = [(b"k%d" % i, text.encode(), i, ()) for i, text in enumerate(texts)]
    append(system, "in", 0, records)
    return system, lambda: run(pipeline, system=system, until="end")


@pytest.mark.parametrize("build", BUILDS)
def test_under_skip_it_is_left_out_and_counted(build: Build) -> None:
    system, start = running(built(build, skip()), "a5", "b300", "c7")
    report = start()
    assert sum(report.failed.values()) == 1
    (last,) = (name for name in ("out", "lengths", "texts") if name in system.admin().streams())
    assert report.written[last] == 2


@pytest.mark.parametrize("build", BUILDS)
def test_under_dead_letter_it_is_set_aside_with_its_size(build: Build) -> None:
    system, start = running(built(build, dead_letter()), "a5", "b300", "c7")
    start()
    ((key, _, _, headers),) = contents(system, "p-dead-letters")
    told = dict(headers)
    assert key in (b"k1", b"b")  # behind a border it is the key that is given there
    assert told["fluvial-error"].startswith(b"its record for the stream ")
    assert b"more than the stream takes" in told["fluvial-error"]


@pytest.mark.parametrize("build", BUILDS)
def test_under_fail_the_run_ends_as_for_any_message(build: Build) -> None:
    system, start = running(built(build, fail()), "a5", "b300", "c7")
    raised = error_of(start, MessageError)
    assert raised.exit_code == 5
    expected = f"a record of {LIMIT} bytes at most" if "out" in system.admin().streams() else "a record of 2"
    assert_explains(raised, "its record for the stream ", None, expected, "make the value smaller, or raise it")


def test_a_record_as_large_as_the_limit_is_written() -> None:
    system, start = running(built(sent, fail()), f"a{LIMIT - 2}")  # with its key
    start()
    assert [len(key or b"") + len(value or b"") for key, value, _, _ in contents(system, "out")] == [LIMIT]


def test_of_a_message_with_several_outputs_none_is_written() -> None:
    pipeline = Pipeline("p", on_error=skip())
    texts = pipeline.stream("in", value=str, key=str).map(grown)
    texts.send_to("all")
    texts.map(text_length).send_to("lengths")
    texts.send_to("out")
    system, start = running(pipeline, "a5", "b300")
    assert start().failed == {"send_to-6": 1}
    assert [len(contents(system, stream)) for stream in ("all", "lengths", "out")] == [1, 1, 1]


def test_a_late_message_that_its_stream_does_not_take_has_failed() -> None:
    pipeline = Pipeline("p", on_error=skip())
    texts = pipeline.stream("in", value=str, key=str).map(grown).filter(lambda _: True)
    texts.window(TEN, count(), id="w", late_to="late").map(lambda pane: pane.value).send_to("counts", value=int)
    system, _ = running(pipeline)
    append(system, "in", 0, [(b"k", text, time, ()) for text, time in ((b"a1", 50), (b"b300", 2), (b"c2", 3))])
    report = run(pipeline, system=system, until="end")
    assert report.failed == {"w": 1}
    assert [value for _, value, _, _ in contents(system, "late")] == [b"cc"]


def test_a_change_of_a_table_is_checked_where_it_is_written() -> None:
    pipeline = Pipeline("p", on_error=skip())
    pipeline.table("in", key=str, value=str).changes().send_to("out", value=str | None)
    system, start = running(pipeline, "a" * 5, "b" * 300)
    report = start()
    assert sum(report.failed.values()) == 1
    assert len(contents(system, "out")) == 1


def test_a_value_that_is_none_has_no_size() -> None:
    pipeline = Pipeline("p")
    nothing: Any = pipeline.stream("in", value=str, key=str).map(lambda _: None)
    nothing.send_to("out", value=str)
    system, start = running(pipeline, "a5")
    start()
    assert [value for _, value, _, _ in contents(system, "out")] == [None]
