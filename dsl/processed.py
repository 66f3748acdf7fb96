"""What comes out of a processor: its main output as a stream, and its side outputs by tag."""

from typing import Any, Generic, TypeVar

from . import operators as ops
from .errors import PipelineError
from .keyed_stream import KeyedStream
from .processor import Tag, tags_of
from .validation import explain, require

K = TypeVar("K")
V = TypeVar("V")
U = TypeVar("U")


class ProcessedStream(KeyedStream[K, V], Generic[K, V]):
    """The main output of a processor; `tagged` gives its side outputs.

    >>> class Halves(KeyedProcessor[str, int, int]):
    ...     odd = Tag("odd", int)
    ...     def on_message(
    ...         self, message: Message[int], context: Context[str]
    ...     ) -> Iterable[int | Tagged[int]]:
    ...         number = message.value
    ...         yield self.odd(number) if number % 2 else number // 2
    >>> pipeline = Pipeline("halves")
    >>> halves = pipeline.stream("numbers", key=str, value=int).process(Halves(), id="halves")
    >>> halves.send_to("halves")
    >>> halves.tagged(Halves.odd).send_to("odd")
    >>> with PipelineDriver(pipeline) as driver:
    ...     for number in (4, 5):
    ...         driver.send("numbers", number, key="a")
    ...     [[message.value for message in driver.read(name)] for name in ("halves", "odd")]
    [[2], [5]]
    """

    __slots__ = ()

    def tagged(self, tag: Tag[U]) -> KeyedStream[K, U]:
        """What the processor emits under a tag of its class; nobody reads what is emitted under another."""
        operator: Any = self.operator
        remedy = "call .tagged on what .process returned, before anything else"
        wrong = f"tagged on {operator.kind} {operator.id!r}"
        require(isinstance(operator, ops.Process), PipelineError, wrong, "the output of a processor", remedy)
        known = tags_of(operator.processor)
        if not isinstance(tag, Tag) or known.get(tag.name) != tag:
            owner = type(operator.processor).__name__
            listed = ", ".join(map(repr, known)) or "none"
            wrong = f"tagged got {tag!r}, which is no tag of {owner}"
            remedy = f"declare it as an attribute of {owner}"
            raise PipelineError(explain(wrong, f"one of its tags: {listed}", remedy))
        for other in self._pipeline.operators:
            if isinstance(other, ops.Side) and other.inputs == (operator.id,) and other.tag == tag:
                return KeyedStream(self._pipeline, other.id)
        return KeyedStream(self._pipeline, self._add(ops.Side, tag=tag))
