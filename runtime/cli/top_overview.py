"""The overview of a run as data: the progress of its containers, added up by stream and by operator."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ...planner.task_assignment import TaskId
from ..metrics.definitions import BY_NAME
from ..metrics.samples import lags_by_stream, samples_of
from ..report import Histogram, HotKey, Progress, hottest_first


class ContainerRow(Struct, frozen=True, kw_only=True):
    """One container. `process` is the id of its process, `memory` is in bytes. `busy` is the fraction of time in
    which its event loop was busy, since the overview before; `commit_seconds` is the mean duration of a commit. On
    Spark `batch_tasks_done` of `batch_tasks` tasks of the present batch are done. None if not known."""

    container: str
    phase: str
    seconds: float
    commits: int
    in_flight: int
    commit_seconds: float | None
    busy: float | None
    memory: int | None
    process: int | None = None
    batch_tasks_done: int | None = None
    batch_tasks: int | None = None


class InputRow(Struct, frozen=True, kw_only=True):
    """One stream that is read, with messages `processed` and `per_second`; `watermark` is the least of its partitions,
    in ms since epoch. `queued` messages wait in tasks, and `lag` messages are still to be read."""

    stream: str
    partitions: int
    processed: int
    per_second: float
    queued: int
    lag: int | None
    watermark: int | None


class OutputRow(Struct, frozen=True, kw_only=True):
    """One stream or sink that is written to."""

    stream: str
    written: int
    per_second: float


class OperatorRow(Struct, frozen=True, kw_only=True):
    """One operator: its id, its label, and the messages that it was given."""

    operator: str
    label: str
    messages: int
    per_second: float
    late: int
    failed: int


class KeyBucketRow(Struct, frozen=True, kw_only=True):
    """One key bucket of a task, in the container that has it. `share` is the fraction that it has of the messages that
    all key buckets of the task process, as `per_second`; None where there are none. `queued` and `lag` as in
    `InputRow`."""

    task: str
    container: str
    share: float | None
    processed: int
    per_second: float
    queued: int
    lag: int | None


class LimitRow(Struct, frozen=True, kw_only=True):
    """One amount of a limit: calls, tokens or budget. What all containers have `used` of it since their starts, and
    `per_second`; `waiting` calls wait for the limit now; `at_limit` containers let none begin, or take no message for
    one."""

    limit: str
    amount: str
    used: float
    per_second: float
    waiting: int
    at_limit: int


class BreakerRow(Struct, frozen=True, kw_only=True):
    """One breaker: in so many containers calls are left off now, and so often that has begun since their starts."""

    breaker: str
    open: int
    openings: int


class Overview(Struct, frozen=True, kw_only=True):
    """A run at one moment. Rates are since the overview before, or since the start if there was none. Where tasks are
    split by key, `key_buckets` and `hot_keys` have the hottest first. `sizing` is what an autosizer has
    decided last."""

    pipeline: str
    engine: str
    containers: tuple[ContainerRow, ...]
    inputs: tuple[InputRow, ...]
    outputs: tuple[OutputRow, ...]
    operators: tuple[OperatorRow, ...]
    key_buckets: tuple[KeyBucketRow, ...] = ()
    hot_keys: tuple[HotKey, ...] = ()
    sizing: str = ""
    limits: tuple[LimitRow, ...] = ()
    breakers: tuple[BreakerRow, ...] = ()


def overview(
    now: Sequence[Progress], before: Sequence[Progress] = (), labels: Mapping[str, str] | None = None
) -> Overview:
    """The overview of a run, from the progress of its containers (at least one), and from that of the overview before.
    `labels` are the labels of operators by id."""
    then = {progress.container: progress for progress in before}
    return Overview(
        pipeline=now[0].pipeline,
        engine=now[0].engine,
        containers=tuple(_container(progress, then.get(progress.container)) for progress in now),
        inputs=tuple(_inputs(now, before)),
        outputs=tuple(_outputs(now, before)),
        operators=tuple(_operators(now, before, labels or {})),
        key_buckets=tuple(sorted(_key_buckets(now, before), key=lambda row: (-row.per_second, -row.processed))),
        hot_keys=hottest_first(key for progress in now for key in progress.hot_keys),
        sizing=max(now, key=lambda progress: progress.generation).sizing,
        limits=tuple(_limits(now, before)),
        breakers=tuple(_breakers(now)),
    )


def _container(progress: Progress, before: Progress | None) -> ContainerRow:
    spread = next(
        (sample.value for sample in progress.facts if isinstance(sample.value, Histogram)), Histogram((), 0.0)
    )
    busy = _rates([progress], [before] if before else [], "event_loop_busy_seconds")
    return ContainerRow(
        container=progress.container,
        phase=progress.phase,
        seconds=progress.seconds,
        commits=int(_sums([progress], "commits").get("", 0)),
        in_flight=progress.in_flight,
        commit_seconds=spread.total / sum(spread.counts) if any(spread.counts) else None,
        busy=min(1.0, busy[""]) if busy else None,
        memory=progress.memory,
        process=progress.process,
        batch_tasks_done=progress.batch_tasks_done,
        batch_tasks=progress.batch_tasks,
    )


def _inputs(now: Sequence[Progress], before: Sequence[Progress]) -> Iterator[InputRow]:
    queued, lags, partitions = _sums(now, "messages_queued", "stream"), lags_by_stream(now), _partitions(now)
    marks = _grouped(now, "watermark_timestamp_seconds", "stream")
    rates = _rates(now, before, "messages_processed", "stream")
    for name, numbers in _grouped(now, "messages_processed", "stream").items():
        yield InputRow(
            stream=name,
            partitions=len(partitions[name]),
            processed=int(sum(numbers)),
            per_second=rates[name],
            queued=int(queued.get(name, 0)),
            lag=lags.get(name),
            watermark=round(min(marks[name]) * 1000) if name in marks else None,
        )


def _partitions(containers: Sequence[Progress]) -> dict[str, set[str]]:
    """The partitions of each stream that is read: of one where they are not known, as on Spark."""
    partitions: dict[str, set[str]] = {}
    for _, _, stream, partition in (sample.labels for sample in samples_of(containers, "messages_processed")):
        partitions.setdefault(stream, set()).add(partition)
    return partitions


def _outputs(now: Sequence[Progress], before: Sequence[Progress]) -> Iterator[OutputRow]:
    rates = _rates(now, before, "messages_written", "stream")
    for name, number in _sums(now, "messages_written", "stream").items():
        yield OutputRow(stream=name, written=int(number), per_second=rates[name])


def _operators(now: Sequence[Progress], before: Sequence[Progress], labels: Mapping[str, str]) -> Iterator[OperatorRow]:
    late, failed = _sums(now, "late_messages", "operator"), _sums(now, "failed_messages", "operator")
    rates = _rates(now, before, "operator_messages", "operator")
    for name, number in _sums(now, "operator_messages", "operator").items():
        yield OperatorRow(
            operator=name,
            label=labels.get(name, name),
            messages=int(number),
            per_second=rates[name],
            late=int(late.get(name, 0)),
            failed=int(failed.get(name, 0)),
        )


def _limits(now: Sequence[Progress], before: Sequence[Progress]) -> Iterator[LimitRow]:
    waiting = _sums(now, "limit_waiting_calls", "limit")
    at_limit = _sums(now, "limit_holds", "limit")
    for name, calls in waiting.items():
        used, rates = (
            _sums(_only(now, name), "limit_used", "amount"),
            _rates(_only(now, name), _only(before, name), "limit_used", "amount"),
        )
        for amount, number in used.items():
            yield LimitRow(
                limit=name,
                amount=amount,
                used=number,
                per_second=rates[amount],
                waiting=int(calls),
                at_limit=int(at_limit.get(name, 0)),
            )


def _breakers(now: Sequence[Progress]) -> Iterator[BreakerRow]:
    openings = _sums(now, "breaker_openings", "breaker")
    for name, number in _sums(now, "breaker_open", "breaker").items():
        yield BreakerRow(breaker=name, open=int(number), openings=int(openings.get(name, 0)))


def _only(containers: Sequence[Progress], limit: str) -> list[Progress]:
    """The progress of containers with the samples of one limit alone."""
    kept = [tuple(one for one in samples_of([each], "limit_used") if one.labels[0] == limit) for each in containers]
    return [replace(each, facts=facts) for each, facts in zip(containers, kept, strict=True)]


def _key_buckets(now: Sequence[Progress], before: Sequence[Progress]) -> Iterator[KeyBucketRow]:
    processed, rates = _sums(now, "messages_processed", "task"), _rates(now, before, "messages_processed", "task")
    queued, lags = _sums(now, "messages_queued", "task"), _sums(now, "lag_messages", "task")
    owners = {sample.labels[1]: one.container for one in now for sample in samples_of([one], "messages_processed")}
    tasks = {name: TaskId.parse(name) for name in processed if name}  # on Spark they have no names
    whole: dict[tuple[str, int], float] = {}
    for name, task in tasks.items():
        unsplit = (task.stage, task.number)
        whole[unsplit] = whole.get(unsplit, 0) + rates[name]
    for name, task in tasks.items():
        if task.elasticity > 1:
            of_all = whole[(task.stage, task.number)]
            yield KeyBucketRow(
                task=name,
                container=owners[name],
                share=rates[name] / of_all if of_all > 0 else None,
                processed=int(processed[name]),
                per_second=rates[name],
                queued=int(queued.get(name, 0)),
                lag=int(lags[name]) if name in lags else None,
            )


def _rates(
    now: Sequence[Progress], before: Sequence[Progress], metric: str, label: str | None = None
) -> dict[str, float]:
    """The growth of a metric per second, by the values of a label. A container that is new or was restarted counts from
    its start."""
    then = {progress.container: progress for progress in before}
    rates: dict[str, float] = {}
    for progress in now:
        last = then.get(progress.container)
        if last is None or last.seconds > progress.seconds:
            seconds, earlier = progress.seconds, dict[str, float]()
        else:
            seconds, earlier = progress.seconds - last.seconds, _sums([last], metric, label)
        for name, number in _sums([progress], metric, label).items():
            grown = (number - earlier.get(name, 0)) / seconds if seconds > 0 else 0.0
            rates[name] = rates.get(name, 0) + grown
    return rates


def _sums(containers: Sequence[Progress], metric: str, label: str | None = None) -> dict[str, float]:
    return {name: sum(numbers) for name, numbers in _grouped(containers, metric, label).items()}


def _grouped(containers: Sequence[Progress], metric: str, label: str | None = None) -> dict[str, list[float]]:
    """The values of a metric, by the values of one of its labels; without `label` all under the empty text."""
    index = None if label is None else BY_NAME[metric].labels.index(label)
    values: dict[str, list[float]] = {}
    for sample in samples_of(containers, metric):
        if not isinstance(sample.value, Histogram):
            values.setdefault("" if index is None else sample.labels[index], []).append(sample.value)
    return values
