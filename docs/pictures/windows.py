"""Scenes of window: each assigner, and triggers."""

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any

from docs.pictures.playing import MINUTE, SECOND, Sent, played
from fluvial.dsl import Aggregate, Pipeline, after_count, collect, count, hopping, repeat, session, tumbling, unbounded
from fluvial.dsl.windows.assigners import Assigner
from fluvial.runtime.testing import PipelineDriver, Recorder, draw_run


def _windowed(assigner: Assigner, aggregate: Aggregate[Any, Any], sent: Iterable[Sent], **options: Any) -> str:
    pipeline = Pipeline("clicks")
    clicks = pipeline.stream("clicks", key=str, value=str)
    clicks.window(assigner, aggregate, id="window", **options).send_to("panes")
    return draw_run(played(pipeline, sent))


def _clicks(unit: int, *clicks: tuple[str, str, int]) -> list[Sent]:
    return [("clicks", key, value, at * unit) for key, value, at in clicks]


def tumbled() -> str:
    """A message of a window that has fired comes too late."""
    sent = _clicks(
        SECOND, ("ann", "a", 2), ("bob", "b", 6), ("ann", "c", 8), ("ann", "d", 13), ("bob", "e", 4), ("ann", "f", 17)
    )
    return _windowed(tumbling(timedelta(seconds=10)), collect(), sent)


def hopped() -> str:
    """A message lies in each window that it falls into."""
    sent = _clicks(SECOND, ("ann", "a", 7), ("ann", "b", 12), ("ann", "c", 21))
    return _windowed(hopping(timedelta(seconds=10), every=timedelta(seconds=5)), collect(), sent)


def in_sessions() -> str:
    """A late message, within the lateness, makes two sessions one."""
    sent = _clicks(
        MINUTE,
        ("ann", "a", 2),
        ("ann", "b", 18),
        ("bob", "c", 21),
        ("ann", "d", 47),
        ("bob", "e", 52),
        ("ann", "f", 33),
    )
    return _windowed(session(timedelta(minutes=20)), collect(), sent, lateness=timedelta(minutes=30))


def for_ever() -> str:
    """A running count."""
    sent = _clicks(SECOND, ("ann", "a", 1), ("bob", "b", 3), ("ann", "c", 6), ("ann", "d", 8))
    return _windowed(unbounded(), count(), sent, trigger=repeat(after_count(1)))


def clocked() -> str:
    """Windows of the clock: a message belongs to the time at which it comes."""
    pipeline = Pipeline("clicks")
    clicks = pipeline.stream("clicks", key=str, value=str)
    clicks.window(tumbling(timedelta(seconds=10)), collect(), id="window", time="processing").send_to("panes")
    with PipelineDriver(pipeline) as driver:
        recorder = Recorder(driver)
        for key, value, pause in (("ann", "a", 2), ("bob", "b", 4), ("ann", "c", 2), ("ann", "d", 5)):
            recorder.advance(timedelta(seconds=pause))
            recorder.send("clicks", value, key=key, timestamp=0)
        recorder.advance(timedelta(seconds=10))
        return draw_run(recorder.recording)


def triggered() -> str:
    """Panes before, at and after the end of a window."""
    sent = _clicks(
        SECOND,
        ("ann", "a", 1),
        ("ann", "b", 4),
        ("ann", "c", 7),
        ("ann", "d", 12),
        ("ann", "e", 9),
        ("ann", "f", 16),
        ("ann", "g", 3),
    )
    options = {"trigger": repeat(after_count(2)), "lateness": timedelta(seconds=5)}
    return _windowed(tumbling(timedelta(seconds=10)), collect(), sent, **options)


SCENES: Mapping[str, Callable[[], str]] = {
    "window-tumbling": tumbled,
    "window-hopping": hopped,
    "window-session": in_sessions,
    "window-unbounded": for_ever,
    "window-triggers": triggered,
    "window-clock": clocked,
}
