"""What `Pipeline.task` adds: the operator of a stream task."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Literal, get_args

from . import operators as ops
from .errors import PipelineError
from .keyed_stream import KeyedStream, ProcessedStream
from .operators.graph import OperatorGraph
from .side_output import TaskStream
from .stream import ONE_PIPELINE, MessageStream
from .stream_task import check_by_key, check_window, checked_task
from .validation import one_of, require

StateOf = Literal["key", "task"]
"""What a stream task keeps state for: each key, or each task of the run."""


def add_task(
    graph: OperatorGraph, id: str, factory: Any, inputs: Any, window: timedelta | None, state: StateOf | None
) -> ProcessedStream[Any, Any] | TaskStream[Any]:
    """Add the operator of a stream task; raises PipelineError for arguments that make none."""
    what = f"task {id!r}"
    streams = _checked_inputs(what, graph, inputs)
    keyed = all(isinstance(stream, KeyedStream) for stream in streams)
    if state is not None:
        one_of(f"{what}: state", state, get_args(StateOf))
    by_key = keyed if state is None else state == "key"
    remedy = 'give the streams key=, or call .partition_by(...); or write state="task"'
    require(keyed or not by_key, PipelineError, f'{what}: state="key"', "keyed streams as inputs=", remedy)
    sample = checked_task(what, factory)
    if by_key:
        check_by_key(what, sample)
    fields = {"factory": factory, "sample": sample, "by_key": by_key, "window": check_window(what, sample, window)}
    tail = graph.add(ops.Task, id=id, inputs=tuple(stream._tail for stream in streams), **fields)
    return ProcessedStream(graph, tail) if by_key else TaskStream(graph, tail)


def _checked_inputs(what: str, graph: OperatorGraph, inputs: Any) -> Sequence[MessageStream[Any]]:
    streams = (inputs,) if isinstance(inputs, MessageStream) else inputs
    good = isinstance(streams, Sequence) and not isinstance(streams, str | bytes) and bool(streams)
    remedy = "pass one, such as pipeline.stream(...), or a list of them"
    require(good, PipelineError, f"{what}: inputs={inputs!r}", "a stream, or several", remedy)
    for stream in streams:
        good = isinstance(stream, MessageStream) and stream._graph is graph
        require(good, PipelineError, f"{what}: inputs= has {stream!r}", "streams of the same pipeline", ONE_PIPELINE)
    twice = len({stream._tail for stream in streams}) < len(streams)
    require(not twice, PipelineError, f"{what}: a stream is twice among inputs=", "each stream once", "leave one out")
    return list(streams)
