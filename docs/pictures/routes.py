"""Scenes of operators that lead messages elsewhere: merge, partition_by, send_to, sink."""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from docs.pictures.playing import SECOND, Sent, played
from fluvial.dsl import Message, Pipeline
from fluvial.runtime.testing import PipelineDriver, Recorder, draw_run


def merged() -> str:
    """Two streams become one."""
    pipeline = Pipeline("drinks")
    tea, coffee = (pipeline.stream(name, value=str) for name in ("tea", "coffee"))
    tea.merge(coffee).send_to("drinks")
    cups = [("tea", "assam", 1), ("coffee", "latte", 3), ("tea", "sencha", 5), ("coffee", "mocha", 8)]
    sent: list[Sent] = [(stream, None, cup, at * SECOND) for stream, cup, at in cups]
    return draw_run(played(pipeline, sent), by="stream")


def partitioned() -> str:
    """Clicks of a user meet in one partition."""
    pipeline = Pipeline("visits")
    clicks = pipeline.stream("clicks", value=str)
    clicks.partition_by(lambda user: user, id="by-user", key_type=str).send_to("sorted")
    with PipelineDriver(pipeline, partitions={"clicks": 2}) as driver:
        recorder = Recorder(driver)
        for at, (user, partition) in enumerate([("ann", 0), ("cleo", 0), ("cleo", 1), ("ann", 1), ("bob", 0)], start=1):
            recorder.send("clicks", user, timestamp=2 * at * SECOND, partition=partition)
        recorder.end()
    return draw_run(recorder.recording, by="stream", streams=("clicks", "visits-by-user"))


def broadcast() -> str:
    """Every task of the next stage has every rule."""
    pipeline = Pipeline("known")
    rules = pipeline.stream("rules", value=str).broadcast(id="rules")
    pipeline.stream("words", key=str, value=str).merge(rules).send_to("seen")
    told: list[Sent] = [("rules", None, "no tea", 2 * SECOND), ("rules", None, "no milk", 6 * SECOND)]
    recording = played(pipeline, told, partitions={"rules": 1, "words": 3})
    return draw_run(recording, by="stream", streams=("rules", "known-rules"))


def sent() -> str:
    """Each price goes to the partition of its key."""
    pipeline = Pipeline("prices")
    pipeline.stream("offers", value=dict[str, int]).flat_map(dict[str, int].items).send_to("prices", key=_item)
    offers: list[Sent] = [("offers", None, {name: price}, at * SECOND) for name, price, at in _OFFERS]
    return draw_run(played(pipeline, offers, partitions={"offers": 1, "prices": 2}), by="stream")


_OFFERS = (("tea", 3, 1), ("milk", 2, 4), ("cake", 5, 6), ("tea", 4, 9))


def _item(offer: tuple[str, int]) -> str:
    return offer[0]


class _Kept:
    """A sink that holds what it is given until it is flushed."""

    def __init__(self) -> None:
        self.safe: list[Message[Any]] = []
        self._held: list[Message[Any]] = []

    def write(self, messages: Sequence[Message[Any]]) -> None:
        self._held.extend(messages)

    def flush(self) -> None:
        self.safe += self._held
        self._held.clear()

    def open(self) -> None:
        pass

    close = open


def sunk() -> str:
    """What a sink was given is safe once it is flushed, at each commit."""
    pipeline, kept = Pipeline("prices"), _Kept()
    pipeline.stream("prices", value=int).sink(kept, id="archive")
    with PipelineDriver(pipeline, commits="timed") as driver:
        recorder = Recorder(driver, sinks={"archive": kept.safe})
        for price in (3, 4, 5, 2):
            recorder.advance(timedelta(milliseconds=400), every=timedelta(milliseconds=100))
            recorder.send("prices", price)
        recorder.advance(timedelta(seconds=1), every=timedelta(milliseconds=100))
    return draw_run(recorder.recording, by="stream", across="clock")


SCENES: Mapping[str, Callable[[], str]] = {
    "merge": merged,
    "partition_by": partitioned,
    "broadcast": broadcast,
    "send_to": sent,
    "sink": sunk,
}
