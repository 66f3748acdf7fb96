"""Tables of a pipeline: the latest row of each key, to look up, to join and to follow."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from . import operators as ops
from .errors import PipelineError
from .operators.graph import OperatorGraph
from .operators.join import checked_tables
from .validation import require
from .verb_calls import explained_attribute, no_such_verb

if TYPE_CHECKING:
    from .keyed_stream import KeyedStream

K = TypeVar("K")
V = TypeVar("V")
U = TypeVar("U")
W = TypeVar("W")


class Table(Generic[K, V]):
    """Rows by key. Made by `Pipeline.table`, or by `join` of two tables; immutable, as streams are.

    Streams look rows up with `stream.join(table, ...)`, and fill a table with `stream.send_to(table)`.

    >>> Pipeline("p").table("users", key=str, value=str)
    Table(users)
    """

    __slots__ = ("_graph", "_tail")

    def __init__(self, graph: OperatorGraph, tail: str) -> None:
        self._graph = graph
        self._tail = tail

    @property
    def operator(self) -> ops.Operator:
        """The operator that keeps the rows.

        >>> Pipeline("p").table("users", key=str, value=str).operator.kind
        'table'
        """
        return self._graph[self._tail]

    @overload
    def join(
        self, other: "Table[K, W]", fn: Callable[[V, W], U | None], *, id: str, how: Literal["inner"] = "inner"
    ) -> "Table[K, U]": ...
    @overload
    def join(
        self, other: "Table[K, W]", fn: Callable[[V, W | None], U | None], *, id: str, how: Literal["left"]
    ) -> "Table[K, U]": ...
    @overload
    def join(
        self, other: "Table[K, W]", fn: Callable[[V | None, W | None], U | None], *, id: str, how: Literal["outer"]
    ) -> "Table[K, U]": ...
    def join(
        self, other: "Table[K, W]", fn: Callable[[Any, Any], U | None], *, id: str, how: ops.How = "inner"
    ) -> "Table[K, U]":
        """The table of `fn(left, right)` for the rows that this table, the left one, and another have for a key.

        With `how="inner"` both must have a row, with "left" the left one, with "outer" one of them; `fn` gets None for
        the row that is missing. It is called when either row changes; None deletes the joined row. What `fn` returns
        is kept, so its type must be known: annotate it.

        >>> pipeline = Pipeline("people")
        >>> names, towns = (pipeline.table(name, key=str, value=str) for name in ("names", "towns"))
        >>> def both(name: str, town: str | None) -> str:
        ...     return f"{name} of {town or 'nowhere'}"
        >>> names.join(towns, both, id="people", how="left").changes().send_to("people")
        >>> with PipelineDriver(pipeline) as driver:
        ...     driver.send("names", "Ada", key="a1")
        ...     driver.send("towns", "London", key="a1")
        ...     [message.value for message in driver.read("people")]
        ['Ada of nowhere', 'Ada of London']
        """
        what = f"join {id!r}"
        good = isinstance(other, Table) and other._graph is self._graph
        require(good, PipelineError, f"{what} got {other!r}", "a table of the same pipeline", "join a stream with it")
        wrong = f"{what} joins a table with itself"
        require(other._tail != self._tail, PipelineError, wrong, "two tables", "look up the one table")
        fields = checked_tables(what, fn, how)
        return Table(self._graph, self._graph.add(ops.JoinTables, id=id, inputs=(self._tail, other._tail), **fields))

    def changes(self) -> "KeyedStream[K, V | None]":
        """Each change of a row as a message: its new value, or None where the row is deleted.

        A change has the timestamp and headers of the message that brought it. To delete a row that is not there changes
        nothing; to write a row again as it is counts as a change. A table that the pipeline fills itself has no changes
        to follow: use the stream that is sent to it.

        >>> pipeline = Pipeline("renamed")
        >>> pipeline.table("names", key=str, value=str).changes().send_to("renamed")
        >>> with PipelineDriver(pipeline) as driver:
        ...     driver.send("names", "Ada", key="a1")
        ...     driver.send("names", None, key="a1")
        ...     [message.value for message in driver.read("renamed")]
        ['Ada', None]
        """
        changes: KeyedStream[K, V | None] = self._graph.keyed_stream(self._graph, self._tail)
        return changes

    if not TYPE_CHECKING:  # type checkers would take any attribute for known

        def __getattr__(self, name: str) -> Any:
            raise no_such_verb(self, name, dir(type(self)), "its .changes() is a stream, which has other verbs")

        def __getattribute__(self, name: str) -> Any:
            attribute = object.__getattribute__(self, name)
            return attribute if name.startswith("_") else explained_attribute(attribute)

    def __repr__(self) -> str:
        return f"Table({self._tail})"


def check_put(table: Table[Any, Any], graph: OperatorGraph, keyed: bool, key: object, value: object) -> None:
    """Refuse to send to a table what gives it no rows of its own: see `MessageStream.send_to`."""
    what = f"send_to table {table._tail!r}"
    require(
        table._graph is graph,
        PipelineError,
        f"{what} of another pipeline",
        "a table of this pipeline",
        "make both with one Pipeline",
    )
    wrong = f"{what}: {'the stream has no key' if key is None else 'key='}"
    remedy = "call .partition_by(fn, id=..., key_type=str) before, for rows lie where the messages of their keys do"
    require(keyed and key is None, PipelineError, wrong, "a stream with the keys of the table", remedy)
    require(value is None, PipelineError, f"{what}: value=", "rows of the type that the table has", "leave it out")
    good = isinstance(table.operator, ops.TableOf)
    require(
        good,
        PipelineError,
        f"{what}, which is joined of two",
        "a table that Pipeline.table has made",
        "send to one of the two tables",
    )
