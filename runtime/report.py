"""What a run reports: its `Progress` while it runs, and a `Report` at its end."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct, field


class Histogram(Struct, frozen=True, array_like=True, gc=False):
    """The distribution of values. `counts` has a number for each bucket, which ends at a bound of the metric; the last
    bucket has no bound. `total` is the sum of the values."""

    counts: tuple[int, ...]
    total: float


class Sample(Struct, frozen=True, array_like=True, gc=False):
    """One value of a metric of `metrics.definitions`. `labels` are the values of its labels, in their order."""

    metric: str
    value: float | Histogram
    labels: tuple[str, ...] = ()


class HotKey(Struct, frozen=True, gc=False):
    """A key that has much of what a task reads of a stream. `key` is shown as JSON. `share` is the fraction that it has
    at least of the messages of late, of those of the task's key bucket; it is estimated from a sample."""

    task: str
    stream: str
    key: str
    share: float


class Progress(Struct, frozen=True, kw_only=True):
    """How far a run is at one moment.

    `phase` is "restoring", "running" or "done". `read` and `written` count messages since the start. `lag` is the
    number of messages still to be read, None if it is unknown. `watermark` is the least of all tasks, in ms since
    epoch, None before there is one. `in_flight` counts the asynchronous calls in flight, on Spark the messages of the
    present batch. `batch_tasks_done` of `batch_tasks` tasks of the present batch are done, of those jobs that Spark has
    begun for it: 0 of 0 between two batches, None on the local engine and on Spark Connect. `memory` is that of the
    process in bytes, and `process` its id, if metrics are served. `facts` are the samples of all metrics. `warnings`
    and `hot_keys` are those of `Report`, so far, and `keyless` its counts. `containers` is the number that the run is
    to have, 0 where that does not change, and `generation` counts its changes. `sizing` is what an autosizer has
    decided last, and why; empty without one.

    >>> def show(progress: Progress) -> None:
    ...     print(f"{progress.phase}: {progress.read} read after {progress.seconds:.0f} s")
    >>> show(Progress(phase="running", seconds=2.0, read=3000, written=20))
    running: 3000 read after 2 s
    """

    phase: str
    seconds: float
    read: int
    written: int
    lag: int | None = None
    watermark: int | None = None
    in_flight: int = 0
    batch_tasks_done: int | None = None
    batch_tasks: int | None = None
    memory: int | None = None
    process: int | None = None
    pipeline: str = ""
    engine: str = ""
    container: str = "0"
    facts: tuple[Sample, ...] = ()
    hot_keys: tuple[HotKey, ...] = ()
    keyless: dict[str, int] = {}
    warnings: dict[str, str] = {}
    generation: int = 0
    containers: int = 0
    sizing: str = ""


OnProgress = Callable[[Progress], None]


class Report(Struct, frozen=True, kw_only=True):
    """The results of a run. Counts are of messages since the start of the run: `read` and `written` by stream; `late`
    are those that came too late, by operator; `failed` those that were skipped or became dead letters, by operator;
    `keyless` those without a key, which a table cannot store, by table. `checkpoints` counts the commits of tasks, on
    Spark the batches. `restored` counts the records of changelogs that were read to restore state before the run, which
    took `restore_seconds`. `warnings` are about timestamps that look wrong, and topics that got more partitions, by
    subject: see the guides to windows and to Kafka. `hot_keys` are the keys with most of the messages of a task, the
    hottest first, where tasks are split by key: see the guide to elasticity.

    The counts are of this process; with several containers of their last processes. `resumed` says whether the run
    resumed from checkpoints; `restarts` counts the restarts of containers by a supervisor. One that was `drained` has
    ended since it was told to, with nothing left inside; one that is `shut_down` since its stream tasks asked for it.

    >>> pipeline = Pipeline("copy")
    >>> pipeline.stream("words", value=str).send_to("copies")
    >>> with PipelineDriver(pipeline) as driver:
    ...     driver.send("words", "tea")
    ...     report = driver.end()
    >>> report.read, report.written
    ({'words': 1}, {'copies': 1})
    """

    pipeline: str
    engine: str
    seconds: float
    read: dict[str, int] = field(default_factory=dict)
    written: dict[str, int] = field(default_factory=dict)
    late: dict[str, int] = field(default_factory=dict)
    failed: dict[str, int] = field(default_factory=dict)
    keyless: dict[str, int] = field(default_factory=dict)
    checkpoints: int = 0
    restored: int = 0
    restore_seconds: float = 0.0
    resumed: bool = False
    restarts: int = 0
    drained: bool = False
    shut_down: bool = False
    warnings: dict[str, str] = {}
    hot_keys: tuple[HotKey, ...] = ()


def hottest_first(keys: Iterable[HotKey]) -> tuple[HotKey, ...]:
    """Hot keys by their share, the largest first.

    >>> [key.key for key in hottest_first([HotKey("in/0-0-2", "in", "1", 0.2), HotKey("in/0-1-2", "in", "2", 0.7)])]
    ['2', '1']
    """
    return tuple(sorted(keys, key=lambda one: (-one.share, one.task, one.stream, one.key)))


def sums(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Counts added up, by name.

    >>> sums([{"in": 1}, {"in": 2, "users": 3}])
    {'in': 3, 'users': 3}
    """
    total: Counter[str] = Counter()
    for part in parts:
        total.update(part)
    return dict(total)
