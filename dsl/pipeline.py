"""Pipelines: what a user writes; a name, and a graph of operators that grows as streams are used."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, overload

from . import operators as ops
from .adaptive import Adaptive
from .added_task import StateOf, add_task
from .annotations import TypeForm
from .async_stream_task import AsyncStreamTask
from .breaker import Breaker
from .error_policy import ErrorPolicy, Retry, fail
from .errors import PipelineError
from .functions import timestamp_of
from .keyed_stream import KeyedStream, ProcessedStream
from .limit import Limit
from .operators.calls import MOST_IN_FLIGHT, TIMEOUT
from .operators.graph import OperatorGraph
from .origin import here
from .remote_table import Batch, Cache, CallLimits, RemoteTable, TableOptions, checked_remote
from .resource import Resource
from .serde import Serde, checked_key, checked_value
from .side_output import TaskStream
from .stream import MessageStream
from .stream_task import StreamTask
from .table import Table
from .validation import flag, millis, operator_id, require, stream_name, whole_number
from .verb_calls import explained_attribute, explained_call, no_such_verb

if TYPE_CHECKING:
    import networkx as nx
K = TypeVar("K")
V = TypeVar("V")
R = TypeVar("R")
U = TypeVar("U")


@explained_call
class Pipeline:
    """A named graph of operators.

    `on_error` says what happens to a message that fails: `fail()`, `skip()` or `dead_letter()`.

    >>> pipeline = Pipeline("shout")
    >>> pipeline.stream("words", value=str).map(str.upper).send_to("loud")
    >>> [operator.id for operator in pipeline.operators]
    ['stream-1', 'map-2', 'send_to-3']
    """

    def __init__(self, name: str, *, on_error: ErrorPolicy = fail()) -> None:  # noqa: B008 - frozen
        self.name = operator_id(name, "pipeline name")
        good, wrong = isinstance(on_error, ErrorPolicy), f"on_error={on_error!r}"
        require(good, PipelineError, wrong, "fail(), skip() or dead_letter()", "write on_error=skip()")
        self.on_error = on_error
        self.origin = here()
        self._graph = OperatorGraph(self.name, KeyedStream)

    @overload
    def stream(
        self,
        name: str,
        *,
        value: type[V] | Serde[V],
        key: type[K] | Serde[K],
        timestamp: Callable[[V], int] | None = None,
        out_of_order: timedelta = ...,
        idle_after: timedelta | None = ...,
        bootstrap: bool = ...,
        priority: int = ...,
    ) -> KeyedStream[K, V]: ...
    @overload
    def stream(
        self,
        name: str,
        *,
        value: TypeForm[V],
        key: type[K] | Serde[K],
        timestamp: Callable[[V], int] | None = None,
        out_of_order: timedelta = ...,
        idle_after: timedelta | None = ...,
        bootstrap: bool = ...,
        priority: int = ...,
    ) -> KeyedStream[K, V]: ...
    @overload
    def stream(
        self,
        name: str,
        *,
        value: type[V] | Serde[V],
        key: None = None,
        timestamp: Callable[[V], int] | None = None,
        out_of_order: timedelta = ...,
        idle_after: timedelta | None = ...,
        bootstrap: bool = ...,
        priority: int = ...,
    ) -> MessageStream[V]: ...
    @overload
    def stream(
        self,
        name: str,
        *,
        value: TypeForm[V],
        key: None = None,
        timestamp: Callable[[V], int] | None = None,
        out_of_order: timedelta = ...,
        idle_after: timedelta | None = ...,
        bootstrap: bool = ...,
        priority: int = ...,
    ) -> MessageStream[V]: ...
    def stream(
        self,
        name: str,
        *,
        value: Any,
        key: Any = None,
        timestamp: Callable[[Any], int] | None = None,
        out_of_order: timedelta = timedelta(0),
        idle_after: timedelta | None = None,
        bootstrap: bool = False,
        priority: int = 0,
    ) -> MessageStream[Any]:
        """Read the stream `name`; with `key=` its records are taken to be partitioned by that key.

        `value` is a type (JSON through msgspec; `bytes` and `str` raw) or a Serde. `timestamp(value)` gives the event
        time in ms since epoch; without it the record's own timestamp counts. Messages may come up to `out_of_order`
        behind the latest of their partition without being late.

        A partition that nothing has come to for `idle_after` holds no window back any more; where nothing comes at all
        time goes on with the clock, in steps of `idle_after`. Without it, time waits for each partition.

        A `bootstrap` stream comes first: at each start a task processes what it holds by then, before it processes
        anything of its other inputs. It holds back no stage behind a `partition_by`.

        A task of the local engine processes messages of a lower `priority` only while none of a higher one wait; it may
        be negative. Inputs of the same priority, which is 0, take turns.

        >>> Pipeline("p").stream("readings", value=dict[str, float], key=str, out_of_order=timedelta(seconds=5))
        KeyedStream(stream readings)
        """
        stream_name(name)
        flag(f"stream {name!r}: bootstrap", bootstrap)
        whole_number(f"stream {name!r}: priority", priority)
        if timestamp is not None:
            timestamp_of(f"stream {name!r}: timestamp", timestamp, value)
        fields: dict[str, Any] = {
            "stream": name,
            "value": checked_value(f"stream {name!r}", value),
            "key": None if key is None else checked_key(f"stream {name!r}", key),
            "timestamp": timestamp,
            "out_of_order": millis(f"stream {name!r}: out_of_order", out_of_order),
            "idle_after": None if idle_after is None else millis(f"stream {name!r}: idle_after", idle_after, least=1),
            "bootstrap": bootstrap,
            "priority": priority,
        }
        self._graph.check_new_stream(name)
        tail = self._graph.add(ops.Source, inputs=(), **fields)
        return MessageStream(self._graph, tail) if key is None else KeyedStream(self._graph, tail)

    @overload
    def table(self, name: str, *, key: type[K] | Serde[K], value: type[V] | Serde[V]) -> Table[K, V]: ...
    @overload
    def table(self, name: str, *, key: type[K] | Serde[K], value: TypeForm[V]) -> Table[K, V]: ...
    def table(self, name: str, *, key: type[K] | Serde[K], value: TypeForm[V] | Serde[V]) -> Table[K, V]:
        """The latest row of each key, kept beside the tasks that look it up.

        It reads the stream `name`, which is to be compacted and partitioned by its key: all that the stream holds when
        a run starts comes before any message of other streams, and what comes later changes rows as it goes. A value
        of None deletes a row; a message without key is counted and left out. If a stream of the pipeline is sent to
        the table, it reads no stream, and has the rows that were sent. Its id is its name, with "-" in place of ".".

        >>> pipeline = Pipeline("greetings")
        >>> names = pipeline.table("names", key=str, value=str)
        >>> logins = pipeline.stream("logins", key=str, value=int)
        >>> logins.join(names, lambda login, name: f"Hello {name}", id="greet").send_to("greetings")
        >>> with PipelineDriver(pipeline) as driver:
        ...     driver.send("names", "Ada", key="a1")
        ...     driver.send("logins", 1, key="a1")
        ...     [message.value for message in driver.read("greetings")]
        ['Hello Ada']
        """
        stream_name(name)
        key, value = checked_key(f"table {name!r}", key), checked_value(f"table {name!r}", value)
        # Before the first operator is added: a refused table must leave nothing in the graph.
        self._graph.check_new_stream(name)
        source = self._graph.add(ops.Source, inputs=(), stream=name, value=value, key=key, bootstrap=True)
        fields: dict[str, Any] = {"stream": name, "key": key, "value": value}
        return Table(self._graph, self._graph.add(ops.TableOf, id=ops.table_id(name), inputs=(source,), **fields))

    @overload
    def remote_table(
        self,
        name: str,
        *,
        read: Callable[[K], Awaitable[V | None]],
        write: Callable[[K, V | None], Awaitable[Any]] | None = ...,
        batch: None = None,
        resource: None = None,
        **options: Unpack[TableOptions],
    ) -> RemoteTable[K, V]: ...
    @overload
    def remote_table(
        self,
        name: str,
        *,
        read: Callable[[Sequence[K]], Awaitable[Mapping[K, V]]],
        write: Callable[[Mapping[K, V | None]], Awaitable[Any]] | None = ...,
        batch: Batch,
        resource: None = None,
        **options: Unpack[TableOptions],
    ) -> RemoteTable[K, V]: ...
    @overload
    def remote_table(
        self,
        name: str,
        *,
        read: Callable[[K, R], Awaitable[V | None]],
        write: Callable[[K, V | None, R], Awaitable[Any]] | None = ...,
        batch: None = None,
        resource: Resource[R],
        **options: Unpack[TableOptions],
    ) -> RemoteTable[K, V]: ...
    @overload
    def remote_table(
        self,
        name: str,
        *,
        read: Callable[[Sequence[K], R], Awaitable[Mapping[K, V]]],
        write: Callable[[Mapping[K, V | None], R], Awaitable[Any]] | None = ...,
        batch: Batch,
        resource: Resource[R],
        **options: Unpack[TableOptions],
    ) -> RemoteTable[K, V]: ...
    def remote_table(
        self,
        name: str,
        *,
        read: Callable[..., Awaitable[Any]],
        write: Callable[..., Awaitable[Any]] | None = None,
        max_in_flight: int = MOST_IN_FLIGHT,
        timeout: timedelta = TIMEOUT,
        retry: Retry = Retry(),  # noqa: B008 - frozen
        reads_per_second: float | None = None,
        writes_per_second: float | None = None,
        limit: Limit | None = None,
        breaker: Breaker | None = None,
        concurrency: Adaptive | None = None,
        hedge: timedelta | None = None,
        cache: Cache | None = None,
        batch: Batch | None = None,
        resource: Resource[Any] | None = None,
    ) -> RemoteTable[Any, Any]:
        """A table that is kept elsewhere: streams are joined with it, and written to it, by asynchronous functions.

        `await read(key)` gives a key's row, None where there is none; `await write(key, row)` keeps one, and deletes it
        where the row is None. With `batch=`, `await read(keys)` gives a mapping from those keys that have rows to them,
        and `await write(rows)` takes such a mapping. Functions may be called again after a crash, so `write` must be
        idempotent. With `resource=` each call is given a client as its last argument: see `resource`.

        A task makes up to `max_in_flight` calls at once. Each may take `timeout`; one that fails is made again as
        `retry` says, three times in all if nothing is said, and then is the failure of its message. In each process, a
        container or a worker of Spark's, no more than `reads_per_second` keys are read, repeats included, and
        `writes_per_second` written; `cache=` keeps rows there too. Calls wait for what `limit=` allows: see `Limit`,
        whose functions are given the key, the keys of a batch, or the rows that are written by key. Reads and writes
        alike are left off for a while by `breaker=` when calls fail. With `concurrency=` the number of calls at once
        follows the service, in each process, up to `max_in_flight`. With `hedge=` a read that takes longer is made a
        second time, and the faster one counts; no write is.

        >>> pipeline = Pipeline("named")
        >>> async def fetch(user: str) -> str | None:
        ...     return {"ann": "Ann Lee"}.get(user)
        >>> users = pipeline.remote_table("users", read=fetch, cache=Cache(size=10_000, ttl=timedelta(minutes=5)))
        >>> clicks = pipeline.stream("clicks", key=str, value=str)
        >>> clicks.join(users, lambda url, name: f"{name} saw {url}", id="named").send_to("named")
        >>> with PipelineDriver(pipeline) as driver:
        ...     driver.send("clicks", "/home", key="ann")
        ...     driver.send("clicks", "/home", key="bob")
        ...     [message.value for message in driver.read("named")]
        ['Ann Lee saw /home']

        Source: Apache Samza's remote tables.
        """
        about = limit, breaker, concurrency, hedge
        limits = CallLimits(max_in_flight, timeout, retry, reads_per_second, writes_per_second, *about)
        return checked_remote(operator_id(name, "table name"), read, write, limits, cache, batch, resource)

    @overload
    def task(
        self,
        factory: Callable[[], StreamTask[K, V, U] | AsyncStreamTask[K, V, U]],
        inputs: KeyedStream[K, V] | Sequence[KeyedStream[K, V]],
        *,
        id: str,
        state: Literal["key"] = ...,
    ) -> ProcessedStream[K, U]: ...
    @overload
    def task(
        self,
        factory: Callable[[], StreamTask[Any, V, U] | AsyncStreamTask[Any, V, U]],
        inputs: MessageStream[V] | Sequence[MessageStream[V]],
        *,
        id: str,
        window: timedelta | None = None,
        state: Literal["task"] = ...,
        exclusive: bool = True,
    ) -> TaskStream[U]: ...
    def task(
        self,
        factory: Callable[[], StreamTask[Any, Any, Any] | AsyncStreamTask[Any, Any, Any]],
        inputs: MessageStream[Any] | Sequence[MessageStream[Any]],
        *,
        id: str,
        window: timedelta | None = None,
        state: StateOf | None = None,
        exclusive: bool = True,
    ) -> ProcessedStream[Any, Any] | TaskStream[Any]:
        """Hand the messages of streams to a stream task, the low-level API: see `StreamTask`, `AsyncStreamTask`.

        `factory` makes one for each task of the run: the class, or a function without arguments. `state="key"`, the
        default of keyed streams, keeps state by key; "task" keeps it by task, and then the stage is not elastic. Every
        `window` the method of that name is called; `exclusive` is for what it sends, as for panes: see `KeyedStream`.

        >>> class Count(StreamTask[str, str, int]):
        ...     seen = ValueState(int, 0)
        ...     def process(
        ...         self, envelope: Envelope[str, str], collector: Collector[int], coordinator: TaskCoordinator
        ...     ) -> None:
        ...         self.seen.value += 1
        ...         collector.send(self.seen.value)
        >>> pipeline = Pipeline("counts")
        >>> pipeline.task(Count, pipeline.stream("words", key=str, value=str), id="count").send_to("counts")
        >>> with PipelineDriver(pipeline) as driver:
        ...     driver.send("words", "tea", key="a")
        ...     [message.value for message in driver.read("counts")]
        [1]

        Source: Apache Samza's low-level task API.
        """
        return add_task(self._graph, id, factory, inputs, window, state, exclusive)

    @property
    def operators(self) -> tuple[ops.Operator, ...]:
        """All operators, in the order in which they were written; inputs come before what reads them."""
        return tuple(self._graph)

    @property
    def sources(self) -> tuple[ops.Source, ...]:
        """The operators that read streams, tables' among them, in the order in which they were written."""
        return self._graph.of(ops.Source)

    @property
    def borders(self) -> tuple[ops.Border, ...]:
        """The operators that write intermediate streams, in the order in which they were written."""
        return self._graph.of(ops.Border)

    @property
    def calls(self) -> tuple[ops.AsyncCall, ...]:
        """The asynchronous calls that operators make, in the order in which the operators were written."""
        return tuple(operator.async_call for operator in self._graph if operator.async_call is not None)

    @property
    def sinks(self) -> tuple[ops.SinkTo, ...]:
        """The operators that hand messages to sinks, in the order in which they were written."""
        return self._graph.of(ops.SinkTo)

    def operator(self, id: str) -> ops.Operator:
        """The operator of an id. Raises PipelineError if there is none."""
        return self._graph[id]

    @property
    def graph(self) -> "nx.MultiDiGraph[str]":
        """The operators as a networkx graph: nodes are ids with the record as `operator`, edges follow the messages."""
        return self._graph.to_networkx()

    if not TYPE_CHECKING:  # type checkers would take any attribute for known

        def __getattr__(self, name: str) -> Any:
            raise no_such_verb(self, name, dir(type(self)), "use one of them; verbs are those of its streams")

        def __getattribute__(self, name: str) -> Any:
            attribute = object.__getattribute__(self, name)
            return attribute if name.startswith("_") else explained_attribute(attribute)

    def __repr__(self) -> str:
        return f"Pipeline({self.name!r}, {len(self._graph)} operators)"
