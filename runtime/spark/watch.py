"""Looking after queries while they run: how far they are, and what they have done."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress

import msgspec

from ...planner.plan import Plan
from ..metrics.timing import Timing
from ..report import Fact, OnProgress, Progress, Report
from ..systems.contract import Admin
from .facts import count_facts, source_facts
from .log_source import LogOffsets
from .query import Part
from .tally import Tally, tally_of

PROGRESS_SECONDS = 1.0


class Watch:
    """Tells progress about once a second, and hears the wish to stop."""

    def __init__(
        self,
        plan: Plan,
        parts: Sequence[Part],
        admin: Admin,
        started: float,
        progress: OnProgress | None,
        stop: Callable[[], bool],
    ) -> None:
        self._plan, self._parts, self._admin = plan, parts, admin
        self._started, self._progress = started, progress
        self._before, self._batches_before = self._tally(), self._batches()
        self._timing = Timing()
        self._timed = {part.group: max(_numbers(part, "commits"), default=-1) for part in parts}
        self._next = started + PROGRESS_SECONDS
        self.stop = stop

    def tell(self) -> None:
        """Tell progress, if it is time to."""
        now = time.monotonic()
        if self._progress is not None and now >= self._next:
            self._next = now + PROGRESS_SECONDS
            self._progress(self._look(now, "running"))

    def done(self) -> None:
        """Tell how it ended."""
        if self._progress is not None:
            self._progress(self._look(time.monotonic(), "done"))

    def _look(self, now: float, phase: str) -> Progress:
        tally = self._tally()
        counts = tally.since(self._before)
        ends = {name: self._admin.ends(name) for part in self._parts for name in part.sources}
        done, planned = (
            {name: offsets for part in self._parts for name, offsets in _reached(part, kind).items()}
            for kind in ("commits", "offsets")
        )
        self._time_batches()
        return Progress(
            phase=phase,
            seconds=now - self._started,
            read=sum(counts.get("read", {}).values()),
            written=sum(counts.get("written", {}).values()),
            lag=sum(max(0, sum(ends[name]) - sum(done[name])) for name in ends),
            watermark=min(tally.watermarks.values(), default=None),
            in_flight=sum(map(sum, planned.values())) - sum(map(sum, done.values())),
            pipeline=self._plan.name,
            engine="spark",
            facts=(
                *source_facts(self._plan, done, planned, ends),
                *count_facts(self._plan, counts, tally.watermarks),
                Fact("commits", self._batches() - self._batches_before, ("", "")),
                Fact("batch_seconds", self._timing.spread),
                Fact("uptime_seconds", now - self._started),
            ),
        )

    def _time_batches(self) -> None:
        """Take note of what the batches took that are done since the last look: from when they were planned."""
        for part in self._parts:
            new = [number for number in _numbers(part, "commits") if number > self._timed[part.group]]
            for number in new:
                with suppress(FileNotFoundError):  # Spark keeps the last hundred
                    began, ended = (_written(part, kind, number) for kind in ("offsets", "commits"))
                    self._timing.add(max(0.0, ended - began))
            self._timed[part.group] = max(new, default=self._timed[part.group])

    def report(self) -> Report:
        """What was done since the start."""
        counts = self._tally().since(self._before)
        names = [stream.name for stream in self._plan.streams] + [operator.id for operator in self._plan.operators]
        order = {name: index for index, name in reversed(list(enumerate(names)))}
        read, written, late, failed = (
            {name: found[name] for name in sorted(found, key=lambda name: order.get(name, len(order))) if found[name]}
            for found in (counts.get(kind, {}) for kind in ("read", "written", "late", "failed"))
        )
        return Report(
            pipeline=self._plan.name,
            engine="spark",
            seconds=time.monotonic() - self._started,
            read=read,
            written=written,
            late=late,
            failed=failed,
            checkpoints=self._batches() - self._batches_before,
        )

    def _batches(self) -> int:
        """How many batches are done, in all runs."""
        return sum(max(_numbers(part, "commits"), default=-1) + 1 for part in self._parts)

    def _tally(self) -> Tally:
        found = Tally()
        for part in self._parts:
            found.add(tally_of(self._admin.checkpoints(part.group)))
        return found


def _reached(part: Part, kind: str) -> dict[str, list[int]]:
    """How far the sources were read in the last batch that is planned ("offsets") or done ("commits")."""
    batches = _numbers(part, kind)
    if not batches:
        return part.starts
    # Spark's offset log: a version, a line of metadata, and a line for each source, of which there is one.
    told = (part.folder / "spark" / "offsets" / str(max(batches))).read_text().splitlines()[-1]
    return msgspec.json.decode(told, type=LogOffsets).streams


def _written(part: Part, kind: str, number: int) -> float:
    """When a batch was planned or done."""
    return (part.folder / "spark" / kind / str(number)).stat().st_mtime


def _numbers(part: Part, kind: str) -> list[int]:
    return [int(file.name) for file in (part.folder / "spark" / kind).glob("[0-9]*")]
