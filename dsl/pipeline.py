"""Pipelines: what a user writes; a name, and a graph of operators that grows as streams are used."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar, overload

from . import operators as ops
from .checks import explain, function, millis, operator_id, require, stream_name
from .declared import checked_key, checked_value
from .errors import PipelineError
from .origin import here
from .policy import ErrorPolicy, fail
from .processed import ProcessedStream
from .serde import Serde
from .stream import KeyedStream, MessageStream

if TYPE_CHECKING:
    import networkx as nx

K = TypeVar("K")
V = TypeVar("V")


class Pipeline:
    """A named graph of operators.

    `on_error` says what happens to a message that fails: `fail()`, `skip()` or `dead_letter()`.

    >>> pipeline = Pipeline("shout")
    >>> pipeline.stream("words", value=str).map(str.upper).send_to("loud")
    >>> [operator.id for operator in pipeline.operators]
    ['stream-1', 'map-2', 'send_to-3']
    """

    def __init__(self, name: str, *, on_error: ErrorPolicy = fail()) -> None:  # noqa: B008 - frozen
        self.name = operator_id(name)
        good = isinstance(on_error, ErrorPolicy)
        require(good, PipelineError, f"on_error={on_error!r}", "fail(), skip() or dead_letter()")
        self.on_error = on_error
        self.origin = here()
        self._operators: dict[str, ops.Operator] = {}

    @overload
    def stream(
        self,
        name: str,
        *,
        value: type[V] | Serde[V],
        key: None = None,
        timestamp: Callable[[V], int] | None = None,
        out_of_order: timedelta = ...,
        bootstrap: bool = ...,
    ) -> MessageStream[V]: ...
    @overload
    def stream(
        self,
        name: str,
        *,
        value: type[V] | Serde[V],
        key: type[K] | Serde[K],
        timestamp: Callable[[V], int] | None = None,
        out_of_order: timedelta = ...,
        bootstrap: bool = ...,
    ) -> KeyedStream[K, V]: ...
    def stream(
        self,
        name: str,
        *,
        value: Any,
        key: Any = None,
        timestamp: Callable[[Any], int] | None = None,
        out_of_order: timedelta = timedelta(0),
        bootstrap: bool = False,
    ) -> MessageStream[Any]:
        """Read the stream `name`; with `key=` its records are taken to be partitioned by that key.

        `value` is a type (JSON through msgspec; `bytes` and `str` raw) or a Serde. `timestamp(value)` gives the event
        time in ms since epoch; without it the record's own timestamp counts. Messages may come up to `out_of_order`
        behind the latest of their partition without being late.

        A `bootstrap` stream comes first: at each start a task processes what it holds by then, before it processes
        anything of its other inputs. It holds back no stage behind a `partition_by`.

        >>> pipeline = Pipeline("p")
        >>> pipeline.stream("readings", value=dict[str, float], key=str, out_of_order=timedelta(seconds=5))
        KeyedStream(stream-1)
        """
        stream_name(name)
        require(
            isinstance(bootstrap, bool), PipelineError, f"stream {name!r}: bootstrap={bootstrap!r}", "True or False"
        )
        if timestamp is not None:
            function(f"stream {name!r}: timestamp", timestamp)
        fields: dict[str, Any] = {
            "stream": name,
            "value": checked_value(f"stream {name!r}", value),
            "key": None if key is None else checked_key(f"stream {name!r}", key),
            "timestamp": timestamp,
            "out_of_order": millis(f"stream {name!r}: out_of_order", out_of_order),
            "bootstrap": bootstrap,
        }
        same = next((op for op in self._operators.values() if isinstance(op, ops.Source) and op.stream == name), None)
        if same is not None:
            wrong = f"stream {name!r} is read twice, first at {same.origin}"
            raise PipelineError(explain(wrong, "one handle per stream", "keep the handle and use it in both places"))
        tail = self._add(ops.Source, id=None, inputs=(), **fields)
        return MessageStream(self, tail) if key is None else KeyedStream(self, tail)

    @property
    def operators(self) -> tuple[ops.Operator, ...]:
        """All operators, in the order in which they were written; inputs come before what reads them."""
        return tuple(self._operators.values())

    def operator(self, id: str) -> ops.Operator:
        """The operator of that id; KeyError if there is none."""
        return self._operators[id]

    @property
    def graph(self) -> "nx.MultiDiGraph[str]":
        """The operators as a networkx graph: nodes are ids with the record as `operator`, edges follow the messages."""
        import networkx as nx  # noqa: PLC0415 - costs more to load than all the rest

        graph: nx.MultiDiGraph[str] = nx.MultiDiGraph(name=self.name)
        for operator in self._operators.values():
            graph.add_node(operator.id, operator=operator)
            graph.add_edges_from((source, operator.id) for source in operator.inputs)
        return graph

    def _add(self, make: type[ops.Operator], *, id: str | None = None, **fields: Any) -> str:
        number = len(self._operators) + 1
        known: Mapping[str, ops.Operator] = self._operators
        name = operator_id(id) if id is not None else f"{make.kind}-{number}"
        if name in known:
            wrong = f"id {name!r} is used twice in pipeline {self.name!r}, first by {known[name].kind}"
            remedy = "choose another id: it names topics, stores and checkpoints"
            raise PipelineError(explain(f"{wrong} at {known[name].origin}", "a unique id", remedy))
        self._operators[name] = make(id=name, origin=here(), **fields)
        return name

    def _processed(self, tail: str) -> ProcessedStream[Any, Any]:
        return ProcessedStream(self, tail)

    def __repr__(self) -> str:
        return f"Pipeline({self.name!r}, {len(self._operators)} operators)"
