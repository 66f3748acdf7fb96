"""The graph of operators that a pipeline grows, node by node, as its streams are used."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import PipelineError
from ..origin import here
from ..validation import explain, not_found, operator_id
from .base import NAMELESS, Operator
from .calls import AsyncCall
from .labels import line_of

if TYPE_CHECKING:
    import networkx as nx

Kind = TypeVar("Kind", bound=Operator)

ONE_PIPELINE = "make both with one Pipeline; what another one writes is read with pipeline.stream(...)"
"""What to do about streams of two pipelines."""


class OperatorGraph:
    """Operators by id, in the order in which they were written: inputs come before what reads them.

    `name` is the pipeline's. Streams and tables hold the graph, and add to it. `keyed_stream` is the class of streams
    with a key: the pipeline says it, for streams without a key and tables, which lead to such streams, are what that
    class is made of, and cannot import it.
    """

    def __init__(self, name: str, keyed_stream: "Callable[[OperatorGraph, str], Any]") -> None:
        self.name = name
        self.keyed_stream = keyed_stream
        self._operators: dict[str, Operator] = {}
        self._added = 0
        self._alike: dict[tuple[str, str], list[str]] = {}  # ids by what they would be called, and where

    def add(self, kind: type[Operator], *, id: Any = NAMELESS, **fields: Any) -> str:
        """Add an operator, and return its id. Raises PipelineError where the id is used."""
        # Operators with ids count, too: to give one an id must not renumber those behind it.
        self._added += 1
        name = f"{kind.kind}-{self._added}" if id is NAMELESS else operator_id(id)
        if name in self._operators:
            first = self._operators[name]
            wrong = f"id {name!r} is used twice in pipeline {self.name!r}, first by {first.kind} at {first.origin}"
            remedy = "choose another id: it names topics, stores and checkpoints"
            raise PipelineError(explain(wrong, "a unique id", remedy))
        self._operators[name] = kind(id=name, origin=here(), **fields)
        self._number_alike(name)
        return name

    def _number_alike(self, id: str) -> None:
        """Number a new operator and those of its line that read alike."""
        operator = self._operators[id]
        alike = self._alike.setdefault((operator.plain_label, line_of(operator.origin)), [])
        alike.append(id)
        # The first is numbered only now, for alone it needs no number.
        if len(alike) == 2:
            self.put(replace(self._operators[alike[0]], number_on_line=1))
        if len(alike) > 1:
            self.put(replace(operator, number_on_line=len(alike)))

    def put(self, operator: Operator) -> None:
        """Put an operator in the place of the one that has its id, or behind all others."""
        self._operators[operator.id] = operator

    def with_own_names(self, call: AsyncCall) -> AsyncCall:
        """A call. Raises PipelineError where another limit or breaker has the name of one of the call's: they would
        look alike where they are shown."""
        calls = [operator.async_call for operator in self._operators.values() if operator.async_call is not None]
        for kind, one, others in (
            ("limit", call.limit, [other.limit for other in calls]),
            ("breaker", call.breaker, [other.breaker for other in calls]),
        ):
            if one is not None and any(
                other is not None and other.name == one.name and other != one for other in others
            ):
                wrong = f"two {kind}s of pipeline {self.name!r} are named {one.name!r}"
                remedy = f"make one {kind.title()}, and pass it to all operators that share it; or choose another name"
                raise PipelineError(explain(wrong, f"one {kind} of each name", remedy))
        return call

    def check_new_stream(self, name: str) -> None:
        """Raise PipelineError where a stream is read already."""
        # A table that the pipeline fills has no source any more; its name is taken all the same.
        readers = [operator for operator in self if operator.is_table or operator.reads is not None]
        first = next((operator for operator in readers if operator.name == name), None)
        if first is not None:
            wrong = f"stream {name!r} is read twice, first at {first.origin}"
            remedy = "keep the handle and use it in both places; a table has .changes()"
            raise PipelineError(explain(wrong, "one handle per stream or table", remedy))

    def fill(self, table: str) -> None:
        """Note that the pipeline itself fills a table, which then reads no stream."""
        filled = self._operators[table]
        for source in filled.inputs:
            del self._operators[source]
        self.put(replace(filled, inputs=()))

    def __getitem__(self, id: str) -> Operator:
        try:
            return self._operators[id]
        except KeyError:
            problem = not_found(f"pipeline {self.name!r}", "operator", id, self._operators)
            raise PipelineError(problem) from None

    def __iter__(self) -> Iterator[Operator]:
        return iter(self._operators.values())

    def __len__(self) -> int:
        return len(self._operators)

    def of(self, kind: type[Kind]) -> tuple[Kind, ...]:
        """All operators of a kind, or of a kind derived from it, in the order in which they were written."""
        return tuple(operator for operator in self if isinstance(operator, kind))

    def to_networkx(self) -> "nx.MultiDiGraph[str]":
        """The operators as a networkx graph: nodes are ids with the record as `operator`, edges follow the messages."""
        import networkx as nx  # noqa: PLC0415 - costs more to load than all the rest

        graph: nx.MultiDiGraph[str] = nx.MultiDiGraph(name=self.name)
        for operator in self:
            graph.add_node(operator.id, operator=operator)
            graph.add_edges_from((source, operator.id) for source in operator.inputs)
        return graph
