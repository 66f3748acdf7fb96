"""Pipelines with a large state: a window of many keys, and a join that waits for as many."""

from collections.abc import Callable, Mapping
from datetime import timedelta

from fluvial.dsl import INT64, Pane, Pipeline, count, tumbling

HOUR = timedelta(hours=1)
OTHERS = "-others"
"""Behind the name of a stream: the right side of the join."""


def counted(pane: Pane[str, int]) -> int:
    """How often a key came."""
    return pane.value


def window(source: str, output: str) -> Pipeline:
    """How often each key comes in an hour."""
    pipeline = Pipeline(output)
    numbers = pipeline.stream(source, key=str, value=INT64)
    numbers.window(tumbling(HOUR), count(), id="window").map(counted).send_to(output, value=INT64)
    return pipeline


def both(left: int | None, right: int | None) -> int:
    """The sum; -1 for a number that has no other."""
    return -1 if left is None or right is None else left + right


def join(source: str, output: str) -> Pipeline:
    """Each number with the one of the same key on the other side, within an hour; or alone."""
    pipeline = Pipeline(output)
    left = pipeline.stream(source, key=str, value=INT64)
    right = pipeline.stream(source + OTHERS, key=str, value=INT64)
    left.join(right, both, within=HOUR, how="left", id="join").send_to(output, value=INT64)
    return pipeline


PIPELINES: Mapping[str, Callable[[str, str], Pipeline]] = {"window": window, "join": join}
