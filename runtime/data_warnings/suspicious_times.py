"""Warns once in a run of timestamps that look wrong, such as seconds in place of ms, from the figures of metrics."""

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime

from ...dsl import operators as ops
from ...dsl.pipeline import Pipeline
from ...dsl.validation import explain
from ...planner.plan import Plan
from ..process.clock import wall_clock
from ..systems.provisioning import table_streams
from .warnings_by_subject import warn_once

LOGGER = "fluvial.times"
"""Where the warnings are logged."""

FIRST_LIKELY = 315_532_800_000
"""1980 in ms since epoch. A timestamp in seconds, taken for ms, lies in 1970."""
# Microseconds taken for ms lie far beyond, and dates that are planned, such as of bookings, mostly within.
YEAR_MS = 365 * 86_400_000
# In seconds. Shorter spans would warn of bursts that nobody can do anything about.
MINUTE = 60.0
MOST_LATE = 0.1
"""A larger share of late messages at an operator, within a minute, is seldom intended."""
FEWEST = 10
"""Of fewer messages the share says little."""

NumberByName = Mapping[str, int]

_log = logging.getLogger(LOGGER)


class SuspiciousTimes:
    """The `warnings` of one run about timestamps, by subject. Call `check` about once a second."""

    def __init__(
        self,
        plan: Plan,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], int] = wall_clock,
        stamped: Collection[str] = (),
    ) -> None:
        """The streams in `stamped` need no timestamp= to have times of their own."""
        self.warnings: dict[str, str] = {}
        self._pipeline = plan.pipeline
        self._clock, self._wall = clock, wall
        self._since, self._given, self._late = clock(), dict[str, int](), dict[str, int]()
        by_time = [one for one in plan.pipeline.operators if one.meets_by_time and one.time_domain == "event"]
        timed, tables = _leading_to(plan.pipeline, by_time), table_streams(plan)
        sources = [source for source in plan.pipeline.sources if source.stream not in tables]
        self._sources = {op.stream: op for op in sources if op.timestamp is not None or op.id in timed}
        windowed = _leading_to(plan.pipeline, [one for one in by_time if one.kind == "window"])
        for source in plan.pipeline.sources:
            if source.timestamp is None and source.id in windowed and source.stream not in stamped:
                self._warn_of_missing_timestamp(source, windowed[source.id])

    def check(self, highs: NumberByName, given: NumberByName, late: NumberByName) -> None:
        """Check the largest timestamp of each source, in ms since epoch, and by operator how many messages it was given
        since the run began and how many of them were late."""
        for stream, high in highs.items():
            if stream in self._sources:
                self._check_timestamp(self._sources[stream], high)
        if self._clock() - self._since >= MINUTE:
            self._check_late(given, late)

    def finish(self, highs: NumberByName, given: NumberByName, late: NumberByName) -> None:
        """Check once more at the end of the run, also the late messages of the last, incomplete minute."""
        self.check(highs, given, late)
        self._check_late(given, late)

    def _check_timestamp(self, source: ops.Source, high: int) -> None:
        wrong, which = None, f"stream {source.stream!r}"
        if high < FIRST_LIKELY:
            wrong = f"the times of {which} lie before 1980: the latest is {high}, which is {_date(high)}"
        elif high > self._wall() + YEAR_MS:
            wrong = f"times of {which} are more than a year ahead: the latest is {high}, which is {_date(high)}"
            wrong += f", and the clock of this machine shows {_date(int(self._wall()))}"
        if wrong is not None:
            remedy = (
                "let timestamp= return ms: seconds are to be multiplied by 1000, microseconds divided; or set the clock"
            )
            text = explain(wrong, "ms since epoch", remedy, source.origin)
            warn_once(self.warnings, f"times of {source.stream}", text, _log)

    def _check_late(self, given: NumberByName, late: NumberByName) -> None:
        for id, number in late.items():
            more, of = number - self._late.get(id, 0), given.get(id, 0) - self._given.get(id, 0)
            if of >= FEWEST and more > MOST_LATE * of:
                operator = self._pipeline.operator(id)
                wrong = f"{operator.label}: {more:,} of {of:,} messages were late within a minute"
                remedy = "allow for more disorder with out_of_order= of the stream, lateness= of the window, or within="
                text = explain(wrong, "a tenth at most", remedy, operator.origin)
                warn_once(self.warnings, f"late at {id}", text, _log)
        self._since, self._given, self._late = self._clock(), dict(given), dict(late)

    def _warn_of_missing_timestamp(self, source: ops.Source, window: ops.Operator) -> None:
        wrong = f"{window.label} goes by event time, and stream {source.stream!r} has no timestamp="
        wrong += ": the times of its messages are those that they were written with"
        expected = "messages written with the times of events, as produce --timestamp-field does"
        remedy = 'nothing if they are; else give the stream timestamp=, or the window time="processing"'
        text = explain(wrong, expected, remedy, source.origin)
        warn_once(self.warnings, f"timestamp of {source.stream}", text, _log)


def _leading_to(pipeline: Pipeline, ends: Iterable[ops.Operator]) -> dict[str, ops.Operator]:
    """The operators upstream of some operators, each with the first of these that it leads to."""
    ends_by_operator: dict[str, ops.Operator] = {}
    for end in ends:
        waiting = list(end.fed_by)
        while waiting:
            id = waiting.pop()
            if id not in ends_by_operator:
                ends_by_operator[id] = end
                waiting.extend(pipeline.operator(id).fed_by)
    return ends_by_operator


def _date(time: int) -> str:
    try:
        return f"{datetime.fromtimestamp(time / 1000, UTC):%Y-%m-%d}"
    except (OverflowError, ValueError, OSError):
        return "in no year that has a date"
