"""What a user writes: pipelines, their streams of messages, and the operators between them.

Comes in: names, types and functions of the user. Goes out: a `Pipeline`, a graph of frozen operators that does not run.
Read `stream` first (the verbs), then `operators` (the records that they add) and `keyed_stream`."""

from .adaptive import Adaptive
from .async_stream_task import AsyncCollector, AsyncStreamTask, TaskCallback
from .breaker import Breaker
from .error_policy import ErrorPolicy, Retry, dead_letter, fail, skip
from .errors import (
    ContainerFailed,
    FluvialError,
    MessageError,
    MissingExtraError,
    NoProgressError,
    PipelineError,
    PlanError,
    SystemProblem,
    TakenOver,
    UnsupportedError,
    UsageError,
)
from .keyed_state import ClockTimers, ListState, MapState, ValueState
from .keyed_stream import KeyedStream, ProcessedStream
from .limit import BudgetExhausted, Limit
from .message import Headers, Message, Pane, Window
from .pipeline import Pipeline
from .pooled_function import PooledFunction, in_processes, in_threads
from .processor import Context, KeyedProcessor, Tag, Tagged, Timer
from .remote_table import Batch, Cache, RemoteTable
from .resource import Resource, resource
from .serde import FLOAT64, INT64, Serde, msgpack
from .side_output import TaskStream
from .sink import BatchPart, Sink
from .stream import MessageStream
from .stream_task import Collector, Envelope, StreamTask, TaskContext, TaskCoordinator
from .table import Table
from .windows.aggregates import Aggregate, aggregate, collect, count, maximum, mean, minimum, reduce, total
from .windows.assigners import hopping, session, tumbling, unbounded
from .windows.triggers import Trigger, after, after_count, any_of, repeat

__all__ = [
    "FLOAT64",
    "INT64",
    "Adaptive",
    "Aggregate",
    "AsyncCollector",
    "AsyncStreamTask",
    "Batch",
    "BatchPart",
    "Breaker",
    "BudgetExhausted",
    "Cache",
    "ClockTimers",
    "Collector",
    "ContainerFailed",
    "Context",
    "Envelope",
    "ErrorPolicy",
    "FluvialError",
    "Headers",
    "KeyedProcessor",
    "KeyedStream",
    "Limit",
    "ListState",
    "MapState",
    "Message",
    "MessageError",
    "MessageStream",
    "MissingExtraError",
    "NoProgressError",
    "Pane",
    "Pipeline",
    "PipelineError",
    "PlanError",
    "PooledFunction",
    "ProcessedStream",
    "RemoteTable",
    "Resource",
    "Retry",
    "Serde",
    "Sink",
    "StreamTask",
    "SystemProblem",
    "Table",
    "Tag",
    "Tagged",
    "TakenOver",
    "TaskCallback",
    "TaskContext",
    "TaskCoordinator",
    "TaskStream",
    "Timer",
    "Trigger",
    "UnsupportedError",
    "UsageError",
    "ValueState",
    "Window",
    "after",
    "after_count",
    "aggregate",
    "any_of",
    "collect",
    "count",
    "dead_letter",
    "fail",
    "hopping",
    "in_processes",
    "in_threads",
    "maximum",
    "mean",
    "minimum",
    "msgpack",
    "reduce",
    "repeat",
    "resource",
    "session",
    "skip",
    "total",
    "tumbling",
    "unbounded",
]
