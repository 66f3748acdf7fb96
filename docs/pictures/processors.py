"""Scenes of process, task and split: devices that go quiet, and numbers by size."""

from collections.abc import Callable, Iterable, Mapping

from docs.pictures.playing import MINUTE, SECOND, Sent, played
from fluvial.dsl import (
    Collector,
    Context,
    Envelope,
    KeyedProcessor,
    Message,
    Pipeline,
    StreamTask,
    TaskCoordinator,
    Timer,
    ValueState,
)
from fluvial.runtime.testing import draw_run

_PATIENCE = 5 * MINUTE


class _Watch(KeyedProcessor[str, str, str]):
    """Tells who has not been heard of for five minutes."""

    readings = ValueState(int, 0)

    def on_message(self, message: Message[str], context: Context[str]) -> Iterable[str]:
        self.readings.value += 1
        context.timers.set("quiet", message.timestamp + _PATIENCE)
        return ()

    def on_timer(self, timer: Timer, context: Context[str]) -> Iterable[str]:
        del timer, context  # any timer of the key at hand
        yield f"quiet after {self.readings.value}"


def processed() -> str:
    """A timer a device: each reading puts it off, and it rings when none has come."""
    pipeline = Pipeline("watch")
    pipeline.stream("readings", key=str, value=str).process(_Watch(), id="watch").send_to("quiet")
    sent: list[Sent] = [
        ("readings", "oven", "80°", 1 * MINUTE),
        ("readings", "hall", "20°", 2 * MINUTE),
        ("readings", "oven", "82°", 4 * MINUTE),
        ("readings", "oven", "81°", 8 * MINUTE),
        ("readings", "hall", "21°", 12 * MINUTE),
    ]
    return draw_run(played(pipeline, sent), intervals={"readings": _due}, interval_legend="until its timer is due")


def _due(reading: Message[str]) -> tuple[int, int]:
    return reading.timestamp, reading.timestamp + _PATIENCE


def _is_small(number: int) -> bool:
    return number < 10


def parted() -> str:
    """Numbers go to the first branch whose predicate holds."""
    pipeline = Pipeline("sizes")
    small, large = pipeline.stream("numbers", value=int).split(_is_small)
    small.send_to("small")
    large.send_to("large")
    sent: list[Sent] = [("numbers", None, number, 2 * at * SECOND) for at, number in enumerate((7, 42, 3, 15), 1)]
    return draw_run(played(pipeline, sent), by="stream")


class _Pairs(StreamTask[str, str, str]):
    """Tells each second order of a customer with the one before."""

    last = ValueState(str)

    def process(self, envelope: Envelope[str, str], collector: Collector[str], coordinator: TaskCoordinator) -> None:
        del coordinator
        if self.last.value is None:
            self.last.value = envelope.value
        else:
            collector.send(f"{self.last.value}, {envelope.value}")
            self.last.clear()


def handed() -> str:
    """What a stream task sends, by what it keeps for a key."""
    pipeline = Pipeline("pairs")
    pipeline.task(_Pairs, pipeline.stream("orders", key=str, value=str), id="pairs").send_to("pairs")
    sent: list[Sent] = [
        ("orders", "ann", "tea", 1 * MINUTE),
        ("orders", "bob", "ale", 2 * MINUTE),
        ("orders", "ann", "milk", 4 * MINUTE),
        ("orders", "bob", "rum", 6 * MINUTE),
    ]
    return draw_run(played(pipeline, sent))


SCENES: Mapping[str, Callable[[], str]] = {"process": processed, "split": parted, "task": handed}
