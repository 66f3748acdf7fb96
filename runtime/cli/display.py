"""Shows the progress and the report of a run: a live line on a terminal, a line every few seconds elsewhere."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, TextIO

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from ...dsl.text import plural
from ..report import OnProgress, Progress, Report
from .printing import print_if_read

PLAIN_EVERY = 5.0
"""Seconds of a run between two lines where stderr is no terminal."""


class Rate:
    """Messages read per second since the last call."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._read = 0

    def of(self, progress: Progress) -> float:
        """Messages read per second between the progress of the last call and this one."""
        passed, read = progress.seconds - self._seconds, progress.read - self._read
        self._seconds, self._read = progress.seconds, progress.read
        return read / passed if passed > 0 else 0.0


def moment(watermark: int) -> str:
    """A time in ms since epoch, as date and time.

    >>> moment(1_431_857_103_000)
    '2015-05-17 10:05:03Z'
    """
    try:
        return f"{datetime.fromtimestamp(watermark / 1000, UTC):%Y-%m-%d %H:%M:%S}Z"
    except (OverflowError, ValueError, OSError):  # the end of time, at the end of the input
        return "end"


def one_line(progress: Progress, rate: float) -> str:
    """The progress of a run on one line; `rate` is in messages per second.

    >>> one_line(Progress(phase="running", seconds=2.0, read=3000, written=20, lag=500), 1500)
    'running  2 s  read 3,000 (1,500/s)  written 20  lag 500'
    """
    if progress.phase == "restoring":
        return _restoring({fact.metric: fact.value for fact in progress.facts}, progress.seconds)
    parts = [progress.phase, f"{progress.seconds:.0f} s", f"read {progress.read:,} ({rate:,.0f}/s)"]
    parts.append(f"written {progress.written:,}")
    if progress.lag is not None:
        parts.append(f"lag {progress.lag:,}")
    if progress.watermark is not None:
        parts.append(f"watermark {moment(progress.watermark)}")
    if progress.in_flight:
        parts.append(f"in flight {progress.in_flight:,}")
    if progress.batch_tasks:
        parts.append(f"tasks {progress.batch_tasks_done:,} of {progress.batch_tasks:,}")
    return "  ".join(parts)


def _restoring(facts: Mapping[str, Any], seconds: float) -> str:
    done, left = int(facts["restored_records"]), int(facts["restore_remaining_records"])
    rate = per_second(done, facts["restore_seconds"])
    return f"restoring  {seconds:.0f} s  state: {plural(done, 'record')} ({rate})  {left:,} to go"


def per_second(count: int, seconds: float) -> str:
    """A count in a time, as text: so many per second.

    >>> per_second(3000, 2.0), per_second(3, 0.0)
    ('1,500/s', '0/s')
    """
    return f"{count / seconds if seconds > 0 else 0:,.0f}/s"


@contextmanager
def showing(*, quiet: bool, stream: TextIO | None = None) -> Iterator[OnProgress | None]:
    """The function that a run calls with its progress; None with `quiet`. It prints to `stream`, stderr by default, and
    prints nothing while nobody reads that."""
    if quiet:
        yield None
    elif (out := stream or sys.stderr).isatty():
        with _live(out) as show:
            yield show
    else:
        yield _plain(lambda line: print_if_read(line, out))


@contextmanager
def _live(stream: TextIO) -> Iterator[OnProgress]:
    rate = Rate()
    spinner = Spinner("dots", text="starting")
    with Live(spinner, console=Console(file=stream), refresh_per_second=8, transient=True):
        yield lambda progress: spinner.update(text=Text(one_line(progress, rate.of(progress))))


def _plain(show: Callable[[str], object]) -> OnProgress:
    rate = Rate()
    last = 0.0

    def on_progress(progress: Progress) -> None:
        nonlocal last
        if progress.seconds - last >= PLAIN_EVERY:
            last = progress.seconds
            show(one_line(progress, rate.of(progress)))

    return on_progress


def summary(report: Report, labels: Mapping[str, str] | None = None) -> str:
    """The report of a run as text: a line for the run, and one for each stream or operator that it counted. `labels`
    are the labels of operators by id.

    >>> print(summary(Report(pipeline="words", engine="local", seconds=2.0, read={"lines": 3000}, written={"out": 20})))
    words on local: 2.0 s, 0 checkpoints
      read     lines  3,000
      written  out       20
    """
    head = f"{report.pipeline} on {report.engine}: {report.seconds:.1f} s, {plural(report.checkpoints, 'checkpoint')}"
    if report.restored:
        rate = per_second(report.restored, report.restore_seconds)
        restored = f"{plural(report.restored, 'record')} of state in {report.restore_seconds:.1f} s ({rate})"
        head += f"\n  restored {restored}"
    if report.restarts:
        times = plural(report.restarts, "time")
        head += f"\n  counts lack what containers did before they were started again ({times})"
    elif report.resumed:
        head += "\n  continued from checkpoints: counts are of this process alone"
    counts = {kind: getattr(report, kind) for kind in ("read", "written", "late", "failed", "keyless")}
    by_operator = {kind: labels or {} for kind in ("late", "failed", "keyless")}
    rows = [
        # A stream may have the name of an operator's id, as the output and the window of the guide have.
        (what, by_operator.get(what, {}).get(name, str(name)), f"{count:,}")
        for what, by_name in counts.items()
        for name, count in by_name.items()
    ]
    names = max((len(name) for _, name, _ in rows), default=0)
    digits = max((len(count) for _, _, count in rows), default=0)
    counted = (f"  {what:<7}  {name:<{names}}  {count:>{digits}}" for what, name, count in rows)
    return "\n".join(
        [head, *counted, *(f"  warning  {text.partition(chr(10))[0]}" for text in report.warnings.values())]
    )
