"""Which operators have results that depend on where an end of input falls."""

from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

import pytest

from fluvial.dsl import Context, KeyedProcessor, KeyedStream, Message, Pipeline, Timer, count, tumbling, unbounded
from fluvial.planner import plan
from fluvial.planner.ends_of_input import end_dependences

MINUTE = timedelta(minutes=1)
Words = KeyedStream[str, str]


class Remembering(KeyedProcessor[str, str, str]):
    def on_message(self, message: Message[str], context: Context[str]) -> Iterable[str]:  # noqa: ARG002
        return (message.value,)


class Waiting(Remembering):
    def on_timer(self, timer: Timer, context: Context[str]) -> Iterable[str]:  # noqa: ARG002
        return (timer.name,)


def pair(left: str, right: Any) -> str:
    return f"{left} {right}"


def counted(words: Words, **options: Any) -> KeyedStream[str, Any]:
    return words.window(tumbling(MINUTE), count(), id="w", **options)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda words: counted(words), []),
        (lambda words: counted(words).map(str), []),
        (lambda words: words.window(unbounded(), count(), id="w"), []),
        (lambda words: words.deduplicate(MINUTE, id="d"), []),
        (lambda words: words.process(Remembering(), id="p"), []),
        (lambda words: counted(words, accumulate=False), ["window w"]),
        (lambda words: words.join(words.filter(str.isupper), pair, id="j", within=MINUTE), ["join j"]),
        (lambda words: words.process(Waiting(), id="p"), ["process p"]),
        (lambda words: counted(words).deduplicate(MINUTE, id="d"), ["deduplicate d"]),
        (
            lambda words: (
                counted(words).partition_by(str, id="by", key_type=str).window(tumbling(MINUTE), count(), id="behind")
            ),
            ["window behind"],
        ),
        (
            lambda words: words.process(Waiting(), id="p").window(tumbling(MINUTE), count(), id="w"),
            ["process p", "window w"],
        ),
    ],
)
def test_operators_are_named_where_an_end_parts_their_results(
    make: Callable[[Words], KeyedStream[str, Any]], named: list[str]
) -> None:
    pipeline = Pipeline("p")
    make(pipeline.stream("words", key=str, value=str)).send_to("out")
    found = end_dependences(plan(pipeline))
    assert [one.operator for one in found] == named
    assert all(one.reason and one.origin.file.endswith("test_ends_of_input.py") for one in found)


def test_a_table_that_panes_fill_is_named() -> None:
    pipeline = Pipeline("p")
    words = pipeline.stream("words", key=str, value=str)
    latest = pipeline.table("latest", key=str, value=int)
    counted(words).map(lambda pane: pane.value).send_to(latest)
    words.join(latest, pair, id="j").send_to("out")
    (one,) = end_dependences(plan(pipeline))
    assert (one.operator, one.reason) == (
        "table latest",
        "it keeps state of what window w emits at each end of input",
    )
