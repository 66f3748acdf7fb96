"""The side outputs of a processor or of a stream task, and the streams that have such."""

from typing import Any, Generic, TypeVar

from . import operators as ops
from .errors import PipelineError
from .operators.graph import OperatorGraph
from .processor import Tag, tags_of
from .stream import MessageStream
from .validation import explain, require

U = TypeVar("U")
V = TypeVar("V")


def side_output(graph: OperatorGraph, operator: ops.Operator, tag: Tag[Any]) -> str:
    """The id of the operator that passes on what another one emits under a tag of its class, which is added where there
    is none yet. Raises PipelineError for an operator, or a tag, without such an output."""
    remedy = "call .tagged on what .process returned, or .task, before anything else"
    wrong = f"tagged on {operator.kind} {operator.id!r}"
    handler = operator.handler
    require(handler is not None, PipelineError, wrong, "the output of a processor or a stream task", remedy)
    known = tags_of(handler)
    if not isinstance(tag, Tag) or known.get(tag.name) != tag:
        owner = type(handler).__name__
        listed = ", ".join(map(repr, known)) or "none"
        wrong = f"tagged got {tag!r}, which is no tag of {owner}"
        remedy = f"declare it as an attribute of {owner}"
        raise PipelineError(explain(wrong, f"one of its tags: {listed}", remedy))
    for other in graph.of(ops.Side):
        if other.inputs == (operator.id,) and other.tag == tag:
            return other.id
    return graph.add(ops.Side, inputs=(operator.id,), tag=tag)


class TaskStream(MessageStream[V], Generic[V]):
    """The main output of a stream task with state by task; `tagged` gives its side outputs.

    >>> class Pass(StreamTask[bytes | None, str, str]):
    ...     def process(
    ...         self, envelope: Envelope[bytes | None, str], collector: Collector[str], coordinator: TaskCoordinator
    ...     ) -> None:
    ...         collector.send(envelope.value)
    >>> pipeline = Pipeline("passed")
    >>> pipeline.task(Pass, pipeline.stream("words", value=str), id="pass")
    TaskStream(task pass)
    """

    __slots__ = ()

    def tagged(self, tag: Tag[U]) -> MessageStream[U]:
        """What the stream task emits under a tag of its class; nobody reads what is emitted under another."""
        return MessageStream(self._graph, side_output(self._graph, self.operator, tag))
