"""The overview of a run, as tables."""

from collections.abc import Iterable, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ...dsl.text import plural
from ..report import HotKey
from .display import moment
from .top_overview import BreakerRow, ContainerRow, InputRow, KeyBucketRow, LimitRow, OperatorRow, OutputRow, Overview

UNKNOWN = "-"
MOST_HOT = 10
"""Key buckets and hot keys that are shown; there may be thousands."""


def screen(seen: Overview) -> RenderableType:
    """A run as tables: its containers, its inputs and outputs, its operators; where tasks are split by key, the hottest
    key buckets and keys."""
    head = f"{seen.pipeline} on {seen.engine}: {plural(len(seen.containers), 'container')}"
    titles = "container, process, phase, seconds, commits, commit time, in flight, busy, memory"
    tasks = any(row.batch_tasks is not None for row in seen.containers)  # on Spark alone
    shown = Group(
        Text(head, style="bold"),
        _table(titles + ", tasks" * tasks, (_container(row)[: None if tasks else -1] for row in seen.containers)),
        _table("input, partitions, processed, per second, queued, lag, watermark", map(_input, seen.inputs)),
        _table("output, written, per second", map(_output, seen.outputs)),
        _table("operator, messages, per second, late, failed", map(_operator, seen.operators)),
    )
    if seen.sizing:
        shown.renderables.insert(1, Text(f"autosizer: {seen.sizing}"))
    if seen.limits:
        columns = "limit, amount, used, per second, calls waiting, containers at the limit"
        shown.renderables.append(_table(columns, map(_limit, seen.limits)))
    if seen.breakers:
        shown.renderables.append(_table("breaker, containers at rest, rests so far", map(_breaker, seen.breakers)))
    if seen.key_buckets:
        buckets = seen.key_buckets[:MOST_HOT]
        of_all = f" ({len(buckets)} of {len(seen.key_buckets)})" * (len(buckets) < len(seen.key_buckets))
        shown.renderables.append(
            _table(f"key bucket{of_all}, container, share, per second, queued, lag", map(_key_bucket, buckets))
        )
    if seen.hot_keys:
        shown.renderables.append(_table("hot key, stream, key bucket, share", map(_hot_key, seen.hot_keys[:MOST_HOT])))
    return shown


def _container(row: ContainerRow) -> Sequence[str]:
    took = UNKNOWN if row.commit_seconds is None else f"{1000 * row.commit_seconds:,.1f} ms"
    busy = UNKNOWN if row.busy is None else f"{row.busy:.0%}"
    memory = UNKNOWN if row.memory is None else f"{row.memory / (1 << 20):,.0f} MiB"
    process = UNKNOWN if row.process is None else str(row.process)
    numbers = (f"{row.seconds:,.0f}", f"{row.commits:,}", took, f"{row.in_flight:,}")
    tasks = f"{row.batch_tasks_done:,} of {row.batch_tasks:,}" if row.batch_tasks else UNKNOWN
    return row.container, process, row.phase, *numbers, busy, memory, tasks


def _input(row: InputRow) -> Sequence[str]:
    lag = UNKNOWN if row.lag is None else f"{row.lag:,}"
    watermark = UNKNOWN if row.watermark is None else moment(row.watermark)
    numbers = (f"{row.partitions:,}", f"{row.processed:,}", f"{row.per_second:,.0f}", f"{row.queued:,}")
    return row.stream, *numbers, lag, watermark


def _output(row: OutputRow) -> Sequence[str]:
    return row.stream, f"{row.written:,}", f"{row.per_second:,.0f}"


def _operator(row: OperatorRow) -> Sequence[str]:
    return row.label, f"{row.messages:,}", f"{row.per_second:,.0f}", f"{row.late:,}", f"{row.failed:,}"


def _limit(row: LimitRow) -> Sequence[str]:
    return row.limit, row.amount, f"{row.used:,.6g}", f"{row.per_second:,.1f}", f"{row.waiting:,}", f"{row.at_limit:,}"


def _breaker(row: BreakerRow) -> Sequence[str]:
    return row.breaker, f"{row.open:,}", f"{row.openings:,}"


def _key_bucket(row: KeyBucketRow) -> Sequence[str]:
    share = UNKNOWN if row.share is None else f"{row.share:.0%}"
    lag = UNKNOWN if row.lag is None else f"{row.lag:,}"
    return row.task, row.container, share, f"{row.per_second:,.0f}", f"{row.queued:,}", lag


def _hot_key(row: HotKey) -> Sequence[str]:
    return row.key, row.stream, row.task, f"{row.share:.0%}"


def _table(titles: str, rows: Iterable[Sequence[str]]) -> RenderableType:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for index, title in enumerate(titles.split(", ")):
        words = title in ("phase", "watermark", "stream", "key bucket", "amount")
        # A key may be long: where the screen is narrow it takes several lines, and what is said of it stays.
        table.add_column(title, justify="left" if index == 0 or words else "right", no_wrap=title != "hot key")
    for row in rows:
        table.add_row(*map(Text, row))
    return Group(Text(), table)
