"""The table of metrics: names, kinds, labels and meanings. Engines report samples of these names."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

MetricKind = Literal["counter", "gauge", "histogram"]

PREFIX = "fluvial_"
COMMON = ("pipeline", "container")
"""Labels that every metric has before its own."""

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Bounds of the buckets for the time of a commit or a batch."""


@dataclass(frozen=True, slots=True)
class MetricDefinition:
    """One metric. `name` has no prefix, and no `_total` for a counter; it ends with the base unit if there is one.
    `engines` report the metric. `bounds` are the bucket bounds of a histogram."""

    name: str
    kind: MetricKind
    labels: tuple[str, ...]
    engines: tuple[str, ...]
    meaning: str
    bounds: tuple[float, ...] = ()

    @property
    def shown(self) -> str:
        """The name as Prometheus shows it."""
        return f"{PREFIX}{self.name}{'_total' if self.kind == 'counter' else ''}"


_RUN = ()
_TASK = ("stage", "task")
_STREAM = (*_TASK, "stream")
_PARTITION = (*_TASK, "stream", "partition")
_OPERATOR = (*_TASK, "operator")
_REASON = (*_OPERATOR, "reason")
_LIMIT = ("limit",)
_BREAKER = ("breaker",)
_FUNCTION = ("function",)
_AMOUNT = (*_LIMIT, "amount")
_BOTH = ("local", "spark")
_LOCAL = ("local",)
_SPARK = ("spark",)

METRICS: tuple[MetricDefinition, ...] = (
    MetricDefinition("tasks", "gauge", _RUN, _LOCAL, "Tasks of the container."),
    MetricDefinition(
        "container_messages_read",
        "counter",
        ("stream", "partition"),
        _LOCAL,
        "Records read from a stream, each once for all tasks of the container.",
    ),
    MetricDefinition(
        "messages_read", "counter", _PARTITION, _LOCAL, "Records read from a stream, control messages included."
    ),
    MetricDefinition(
        "messages_discarded",
        "counter",
        _PARTITION,
        _LOCAL,
        "Messages of other key buckets, which the task did not decode; with elasticity alone.",
    ),
    MetricDefinition(
        "key_bucket_seconds",
        "counter",
        _RUN,
        _LOCAL,
        "Time in which the key buckets of messages were computed; with elasticity alone.",
    ),
    MetricDefinition(
        "messages_queued", "gauge", _PARTITION, _LOCAL, "Records that were read and wait to be processed."
    ),
    MetricDefinition(
        "messages_processed", "counter", _PARTITION, _BOTH, "Messages of a stream that the operators were given."
    ),
    MetricDefinition(
        "messages_in_flight",
        "gauge",
        _TASK,
        _BOTH,
        "Messages in flight: in asynchronous calls, or in a batch of Spark.",
    ),
    MetricDefinition("calls_in_flight", "gauge", _OPERATOR, _LOCAL, "Asynchronous calls in flight."),
    MetricDefinition(
        "most_calls_in_flight", "gauge", _OPERATOR, _LOCAL, "Asynchronous calls that may be in flight at once."
    ),
    MetricDefinition(
        "calls_at_once", "gauge", _OPERATOR, _LOCAL, "Calls that may run at once at present, where that is adaptive."
    ),
    MetricDefinition("hedges", "counter", _OPERATOR, _LOCAL, "Second calls beside others that took long."),
    MetricDefinition(
        "limit_waiting_calls", "gauge", _LIMIT, _LOCAL, "Calls that wait for a limit; they are among those in flight."
    ),
    MetricDefinition("limit_wait_seconds", "counter", _LIMIT, _LOCAL, "For how long calls have waited, added up."),
    MetricDefinition(
        "limit_holds", "gauge", _LIMIT, _LOCAL, "1 while calls wait for a limit, or messages are not taken, else 0."
    ),
    MetricDefinition(
        "limit_used",
        "gauge",
        _AMOUNT,
        _LOCAL,
        "Calls, tokens or budget that the container has used, as settled so far.",
    ),
    MetricDefinition(
        "limit_share",
        "gauge",
        _AMOUNT,
        _LOCAL,
        "What the container may use of a limit at present: of its calls or tokens per span, or of its budget.",
    ),
    MetricDefinition("breaker_open", "gauge", _BREAKER, _LOCAL, "1 while calls are left off by a breaker, else 0."),
    MetricDefinition(
        "breaker_openings", "counter", _BREAKER, _LOCAL, "How often a breaker has begun to leave calls off."
    ),
    MetricDefinition(
        "pool_permits",
        "gauge",
        _FUNCTION,
        _LOCAL,
        "Calls of a plain function that may be made at once: one for each thread or process.",
    ),
    MetricDefinition(
        "pool_permits_taken", "gauge", _FUNCTION, _LOCAL, "Of these, those that calls have, or are about to have."
    ),
    MetricDefinition(
        "pool_waiting_calls",
        "gauge",
        _FUNCTION,
        _LOCAL,
        "Calls that wait for a thread or a process; they are among those in flight.",
    ),
    MetricDefinition(
        "journal_answers", "counter", _OPERATOR, _LOCAL, "Calls that were not made, since a journal had their results."
    ),
    MetricDefinition("journal_entries", "counter", _OPERATOR, _LOCAL, "Calls whose results were written to a journal."),
    MetricDefinition(
        "task_busy_seconds",
        "counter",
        _TASK,
        _LOCAL,
        "Time in which a task processed messages, functions that block included.",
    ),
    MetricDefinition(
        "messages_written", "counter", _STREAM, _BOTH, "Messages written to a stream, or to the sink of that name."
    ),
    MetricDefinition("operator_messages", "counter", _OPERATOR, _BOTH, "Messages that an operator was given."),
    MetricDefinition("lag_messages", "gauge", _PARTITION, _BOTH, "Messages of a stream that are still to be read."),
    MetricDefinition("late_messages", "counter", _OPERATOR, _BOTH, "Messages too late for their operator."),
    MetricDefinition("failed_messages", "counter", _OPERATOR, _BOTH, "Messages and panes that an operator failed on."),
    MetricDefinition(
        "dead_letters", "counter", _OPERATOR, _BOTH, "Failed messages and panes that were written as dead letters."
    ),
    MetricDefinition(
        "dropped_messages", "counter", _REASON, _BOTH, "Messages dropped: late without late_to, skipped, or keyless."
    ),
    MetricDefinition(
        "watermark_timestamp_seconds", "gauge", _PARTITION, _BOTH, "The watermark of an input, in event time."
    ),
    MetricDefinition(
        "committed_offset", "gauge", _PARTITION, _BOTH, "The offset from which a restart would read an input."
    ),
    MetricDefinition("commits", "counter", _TASK, _BOTH, "Commits that changed something; on Spark, batches."),
    MetricDefinition(
        "commit_seconds", "histogram", _RUN, _LOCAL, "Duration of a commit, of one task or several.", SECONDS
    ),
    MetricDefinition("batch_seconds", "histogram", _RUN, _SPARK, "Duration of a batch.", SECONDS),
    MetricDefinition(
        "batch_tasks", "gauge", _RUN, _SPARK, "Tasks of the present batch, of the jobs that Spark has begun for it."
    ),
    MetricDefinition("batch_tasks_done", "gauge", _RUN, _SPARK, "Those of them that are done."),
    MetricDefinition("staged_bytes", "gauge", _TASK, _LOCAL, "Bytes of output that wait for a commit."),
    MetricDefinition(
        "restored_records", "counter", _RUN, _LOCAL, "Records of changelogs that were read to restore state."
    ),
    MetricDefinition(
        "restore_remaining_records",
        "gauge",
        _RUN,
        _LOCAL,
        "Offsets of changelogs that are still to be read to restore state.",
    ),
    MetricDefinition("restore_seconds", "gauge", _RUN, _LOCAL, "Time that restoring state has taken so far, or took."),
    MetricDefinition(
        "elasticity_change_seconds",
        "gauge",
        _RUN,
        _LOCAL,
        "Time that checkpoints and state took to be split or merged before the run; where that was done.",
    ),
    MetricDefinition(
        "autosizer_containers",
        "gauge",
        _RUN,
        _LOCAL,
        "Containers that the autosizer has decided on.",
    ),
    MetricDefinition(
        "autosizer_elasticity",
        "gauge",
        ("stage",),
        _LOCAL,
        "Key buckets of each task of a stage that the autosizer has decided on.",
    ),
    MetricDefinition("uptime_seconds", "gauge", _RUN, _BOTH, "Time since the run began."),
    MetricDefinition("event_loop_busy_seconds", "counter", _RUN, _LOCAL, "Time in which the event loop was busy."),
    MetricDefinition("processor_seconds", "counter", _RUN, _LOCAL, "Processor time that the process took in the run."),
)

BY_NAME: Mapping[str, MetricDefinition] = {metric.name: metric for metric in METRICS}
