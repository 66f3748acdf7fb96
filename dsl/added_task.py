"""What `Pipeline.task` adds: the operator of a stream task."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Literal, get_args

from . import operators as ops
from .async_stream_task import AsyncStreamTask, begins
from .errors import PipelineError
from .keyed_stream import KeyedStream, ProcessedStream
from .operators.calls import AsyncCall
from .operators.graph import ONE_PIPELINE, OperatorGraph
from .side_output import TaskStream
from .stream import MessageStream
from .task_checks import check_by_key, check_exclusive, check_window, checked_task
from .validation import millis, one_of, operator_id, require

StateOf = Literal["key", "task"]
"""What a stream task keeps state for: each key, or each task of the run."""


def add_task(
    graph: OperatorGraph,
    id: str,
    factory: Any,
    inputs: Any,
    window: timedelta | None,
    state: StateOf | None,
    exclusive: bool,
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
    fields["exclusive"] = check_exclusive(what, sample, exclusive)
    tails = tuple(stream._tail for stream in streams)
    if isinstance(sample, AsyncStreamTask):
        tails = (_add_calls(what, graph, id, sample, tails, by_key=by_key),)
    tail = graph.add(ops.Task, id=id, inputs=tails, **fields)
    return ProcessedStream(graph, tail) if by_key else TaskStream(graph, tail)


def _add_calls(
    what: str,
    graph: OperatorGraph,
    id: str,
    sample: AsyncStreamTask[Any, Any, Any],
    tails: tuple[str, ...],
    *,
    by_key: bool,
) -> str:
    """Add the operator that makes the calls of an asynchronous stream task."""
    remedy = "merge(...) them before"
    require(len(tails) == 1, PipelineError, f"{what}: several inputs=, and an AsyncStreamTask", "one stream", remedy)
    fn: Any = sample.begin if begins(sample) else sample.process
    call = AsyncCall(
        fn=fn,
        max_in_flight=sample.max_in_flight,
        order="key" if by_key else "none",
        timeout=millis(f"{what}: timeout", sample.timeout),
        retry=None,
    )
    name = f"{operator_id(id)}-calls"
    return graph.add(ops.TaskCall, id=name, inputs=tails, task=id, call=call, sample=sample, by_key=by_key)


def _checked_inputs(what: str, graph: OperatorGraph, inputs: Any) -> Sequence[MessageStream[Any]]:
    streams: Any = (inputs,) if isinstance(inputs, MessageStream) else inputs
    good = isinstance(streams, Sequence) and not isinstance(streams, str | bytes) and bool(streams)
    remedy = "pass one, such as pipeline.stream(...), or a list of them"
    require(good, PipelineError, f"{what}: inputs={inputs!r}", "a stream, or several", remedy)
    checked: list[Any] = list(streams)
    for stream in checked:
        good = isinstance(stream, MessageStream) and stream._graph is graph
        require(good, PipelineError, f"{what}: inputs= has {stream!r}", "streams of the same pipeline", ONE_PIPELINE)
    twice = len({stream._tail for stream in checked}) < len(checked)
    require(not twice, PipelineError, f"{what}: a stream is twice among inputs=", "each stream once", "leave one out")
    return checked
