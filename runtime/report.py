"""What a run tells: how far it is, and what it did."""

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


class Progress(Struct, frozen=True, kw_only=True):
    """How far a run is at one moment.

    `phase` is a word for what it is doing: "restoring" state, "running" or "done"; `read` and `written` count messages
    since the start; `lag` is how many messages are still to be read, None where nobody knows; `watermark` is the least
    of all tasks in ms since epoch, None before there is one; `in_flight` counts asynchronous calls under way, and on
    Spark the messages of the batch under way. `memory` is what the process holds, in bytes, and `process` its id, where
    metrics are served. `facts` are all that is measured, one by one, as metrics show it. `warnings` are those of
    `Report`, so far, and `keyless` its counts.

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
    memory: int | None = None
    process: int | None = None
    pipeline: str = ""
    engine: str = ""
    container: str = "0"
    facts: tuple[Sample, ...] = ()
    keyless: dict[str, int] = {}
    warnings: dict[str, str] = {}


OnProgress = Callable[[Progress], None]


class Report(Struct, frozen=True, kw_only=True):
    """What a run did. Counts are of messages, since the run started: `read` and `written` by stream; `late` are those
    that came too late, by operator; `failed` those skipped or set aside as dead letters, by operator; `keyless` those
    without a key, which a table cannot keep, by table. `checkpoints` counts the commits of tasks, on Spark the batches.
    `restored` counts the records of changelogs that were read to bring state up before it began, which took
    `restore_seconds`. `warnings` are what looked wrong about times of messages, and topics that were given
    partitions, by what each is about: see the guides to windows and to Kafka.

    The counts are of this process alone, of several containers of their last processes. `resumed` says that it went on
    from checkpoints of earlier ones; `restarts` is how often a supervisor has started containers again.

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
    warnings: dict[str, str] = {}


def sums(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Counts added up, by name.

    >>> sums([{"in": 1}, {"in": 2, "users": 3}])
    {'in': 3, 'users': 3}
    """
    total: Counter[str] = Counter()
    for part in parts:
        total.update(part)
    return dict(total)
