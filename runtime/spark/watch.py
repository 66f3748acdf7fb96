"""Looking after queries while they run: how far they are, and what they have done."""

import time
from collections.abc import Callable, Sequence

from ...planner.plan import Plan
from ..report import OnProgress, Progress, Report
from .connection import Connection
from .noted import DONE, PLANNED, batches, reached
from .part import Part
from .tally import Tally

PROGRESS_SECONDS = 1.0


class Watch:
    """Tells progress about once a second, and hears the wish to stop."""

    def __init__(
        self,
        plan: Plan,
        parts: Sequence[Part],
        connection: Connection,
        started: float,
        progress: OnProgress | None,
        stop: Callable[[], bool],
    ) -> None:
        self._plan, self._parts, self._connection = plan, parts, connection
        self._admin = connection.system.admin()
        self._started, self._progress = started, progress
        self._before, self._batches_before = self._tally(), self._batches()
        self._next = started + PROGRESS_SECONDS
        self.stop = stop

    def tell(self) -> None:
        """Tell progress, if it is time to."""
        now = time.monotonic()
        if self._progress is not None and now >= self._next:
            self._next = now + PROGRESS_SECONDS
            self._progress(self._look(now))

    def _look(self, now: float) -> Progress:
        tally = self._tally()
        counts = tally.since(self._before)
        ends = sum(sum(self._admin.ends(name)) for part in self._parts for name in part.sources)
        done, planned = (sum(self._reached(part, kind) for part in self._parts) for kind in (DONE, PLANNED))
        return Progress(
            phase="running",
            seconds=now - self._started,
            read=sum(counts.get("read", {}).values()),
            written=sum(counts.get("written", {}).values()),
            lag=max(0, ends - done),
            watermark=min(tally.watermarks.values(), default=None),
            in_flight=planned - done,
        )

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
        return sum(max(batches(part.checkpoint, DONE), default=-1) + 1 for part in self._parts)

    def _tally(self) -> Tally:
        found = Tally()
        for part in self._parts:
            found.add(self._connection.tally(part))
        return found

    def _reached(self, part: Part, kind: str) -> int:
        """How many messages of the sources lie behind the last batch that is planned, or done."""
        told = reached(part.checkpoint, kind)
        offsets = part.starts if told is None else self._connection.offsets(told)
        return sum(map(sum, offsets.values()))
