"""Scenes of operators that turn each message into others: map, filter, flat_map, map_messages."""

from collections.abc import Callable, Mapping
from typing import Any

from docs.pictures.playing import SECOND, Sent, played
from fluvial.dsl import Message, Pipeline
from fluvial.runtime.testing import draw_run


def mapped() -> str:
    """Each word becomes its length, at the time of the word."""
    pipeline = Pipeline("lengths")
    pipeline.stream("words", value=str).map(len).send_to("lengths")
    return draw_run(played(pipeline, _sent("words", ("tea", 2), ("coffee", 5), ("cocoa", 9))), by="stream")


def filtered() -> str:
    """Large numbers stay."""
    pipeline = Pipeline("large")
    pipeline.stream("numbers", value=int).filter(lambda number: number > 9).send_to("large")
    return draw_run(played(pipeline, _sent("numbers", (7, 1), (12, 4), (3, 6), (40, 9))), by="stream")


def flat_mapped() -> str:
    """A line becomes its words; an empty line becomes nothing."""
    pipeline = Pipeline("words")
    pipeline.stream("lines", value=str).flat_map(str.split).send_to("words")
    return draw_run(played(pipeline, _sent("lines", ("to be", 1), ("", 4), ("or not to be", 7))), by="stream")


def messages_mapped() -> str:
    """Each reading moves to the full ten seconds before it."""

    def rounded(message: Message[int]) -> Message[int]:
        start = message.timestamp - message.timestamp % (10 * SECOND)
        return Message(message.key, message.value, start, message.headers)

    pipeline = Pipeline("rounded")
    pipeline.stream("readings", value=int).map_messages(rounded).send_to("rounded")
    return draw_run(played(pipeline, _sent("readings", (20, 4), (23, 16), (21, 27))), by="stream")


def _sent(stream: str, *messages: tuple[Any, int]) -> list[Sent]:
    """Values and the seconds at which they are sent."""
    return [(stream, None, value, seconds * SECOND) for value, seconds in messages]


SCENES: Mapping[str, Callable[[], str]] = {
    "map": mapped,
    "filter": filtered,
    "flat_map": flat_mapped,
    "map_messages": messages_mapped,
}
