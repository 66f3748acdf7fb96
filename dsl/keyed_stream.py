"""Streams whose messages have a key: what keeps state by key begins here."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any, ClassVar, Generic, Literal, TypeVar, Unpack, overload

from . import operators as ops
from .adaptive import Adaptive
from .annotations import TypeForm
from .breaker import Breaker
from .error_policy import Retry
from .errors import PipelineError
from .limit import Limit
from .message import Pane
from .operators.calls import MOST_IN_FLIGHT, TIMEOUT, CallOptions, CallRules, remote_call
from .operators.deduplicate import checked_deduplicate
from .operators.graph import ONE_PIPELINE
from .operators.join import JoinRules, check_sides, checked_join, checked_lookup
from .operators.process import checked_process
from .operators.window import WindowRules, checked_window
from .processor import KeyedProcessor, Tag
from .remote_table import Batch, RemoteTable
from .resource import Resource
from .serde import Serde
from .side_output import TaskStream, side_output
from .stream import MessageStream
from .table import Table
from .validation import require
from .windows.aggregates import Aggregate
from .windows.assigners import Assigner
from .windows.triggers import Trigger

K = TypeVar("K")
V = TypeVar("V")
U = TypeVar("U")
R = TypeVar("R")
W = TypeVar("W")
A = TypeVar("A")
B = TypeVar("B")


class KeyedStream(MessageStream[V], Generic[K, V]):
    """A stream whose messages have a key and are partitioned by it, so that state can be kept per key.

    >>> clicks = Pipeline("p").stream("clicks", key=str, value=str)
    >>> clicks.map(len).window(tumbling(timedelta(minutes=1)), count(), id="per-minute")
    KeyedStream(window per-minute)
    """

    __slots__ = ()
    _is_keyed: ClassVar[bool] = True

    def map(self, fn: Callable[[V], U]) -> "KeyedStream[K, U]":
        """Turn each value into `fn(value)`; the key stays."""
        return KeyedStream(self._graph, super().map(fn)._tail)

    def flat_map(self, fn: Callable[[V], Iterable[U]]) -> "KeyedStream[K, U]":
        """Turn each value into the values that `fn(value)` gives; the key stays."""
        return KeyedStream(self._graph, super().flat_map(fn)._tail)

    @overload
    def async_flat_map(
        self,
        fn: Callable[[V], Awaitable[Iterable[U]]],
        *,
        id: str,
        batch: None = None,
        resource: None = None,
        **options: Unpack[CallOptions],
    ) -> "KeyedStream[K, U]": ...
    @overload
    def async_flat_map(
        self,
        fn: Callable[[V, R], Awaitable[Iterable[U]]],
        *,
        id: str,
        batch: None = None,
        resource: Resource[R],
        **options: Unpack[CallOptions],
    ) -> "KeyedStream[K, U]": ...
    @overload
    def async_flat_map(
        self,
        fn: Callable[[list[V]], Awaitable[Sequence[Iterable[U] | Exception]]],
        *,
        id: str,
        batch: Batch,
        resource: None = None,
        **options: Unpack[CallOptions],
    ) -> "KeyedStream[K, U]": ...
    @overload
    def async_flat_map(
        self,
        fn: Callable[[list[V], R], Awaitable[Sequence[Iterable[U] | Exception]]],
        *,
        id: str,
        batch: Batch,
        resource: Resource[R],
        **options: Unpack[CallOptions],
    ) -> "KeyedStream[K, U]": ...
    def async_flat_map(
        self,
        fn: Callable[..., Awaitable[Iterable[Any]]],
        *,
        id: str,
        max_in_flight: int = MOST_IN_FLIGHT,
        order: ops.Order = "key",
        timeout: timedelta = TIMEOUT,
        retry: Retry | None = None,
        resource: Resource[Any] | None = None,
        batch: Batch | None = None,
        limit: Limit | None = None,
        breaker: Breaker | None = None,
        concurrency: Adaptive | None = None,
        journal: bool = False,
        result: TypeForm[Any] | Serde[Any] | None = None,
        hedge: timedelta | None = None,
    ) -> "KeyedStream[K, Any]":
        """Turn each value into the values of `await fn(value)`, as on a `MessageStream`; the key stays."""
        about = (limit, breaker, concurrency, journal, result, hedge)
        rules = CallRules(max_in_flight, order, timeout, retry, resource, batch, *about)
        return KeyedStream(self._graph, self._async(fn, id, rules))

    @overload
    def send_to(
        self, name: str, *, key: Callable[[V], Any] | None = None, value: type[V] | Serde[V] | None = None
    ) -> None: ...
    @overload
    def send_to(self, name: str, *, key: Callable[[V], Any] | None = None, value: TypeForm[V]) -> None: ...
    @overload
    def send_to(self, name: Table[K, Any] | RemoteTable[K, Any]) -> None: ...
    def send_to(self, name: Any, *, key: Callable[[V], Any] | None = None, value: Any = None) -> None:
        """Write each message to a stream, as on a `MessageStream`, or to a table with keys of the same type."""
        super().send_to(name, key=key, value=value)

    @overload
    def merge(self, *others: "KeyedStream[K, V]") -> "KeyedStream[K, V]": ...
    @overload
    def merge(self, *others: MessageStream[V]) -> MessageStream[V]: ...
    def merge(self, *others: MessageStream[V]) -> MessageStream[V]:
        """The messages of this stream and the others; keyed if all of them are, with equal partition counts."""
        tail = self._merge(others)
        keyed = all(isinstance(other, KeyedStream) for other in others)
        return KeyedStream[K, V](self._graph, tail) if keyed else MessageStream(self._graph, tail)

    def window(
        self,
        assigner: Assigner,
        aggregate: Aggregate[V, A],
        *,
        id: str,
        trigger: Trigger | None = None,
        late_trigger: Trigger | None = None,
        accumulate: bool = True,
        lateness: timedelta = timedelta(0),
        late_to: str | None = None,
        time: ops.Time = "event",
        combine: bool = True,
        exclusive: bool = True,
    ) -> "KeyedStream[K, Pane[K, A]]":
        """Aggregate the messages of each key and window; emit a pane when the watermark passes the window's end.

        Before that, `trigger` emits panes of kind "early". Within `lateness` after it, `late_trigger` emits panes of
        kind "late", and what it leaves is emitted when that time is over; without it each late message emits one. A
        pane holds all messages of the window, or, with `accumulate=False`, those since its last pane. A message that
        is later still goes to the stream `late_to`, else it is dropped and counted. A pane's timestamp is
        `window.end - 1`, or under `unbounded()` that of its latest message; it has no headers. With `time="processing"`
        a message's time is when it comes, and windows close by the clock: nothing is late.

        Right behind a `partition_by`, messages of a key and window are aggregated before the shuffle where the result
        is the same, so that a key with many messages costs little; the plan shows it. `combine=False` sends each
        message alone.

        What is emitted by time goes through asynchronous calls behind the window at once, up to their `max_in_flight`,
        and the task takes no message until all of it has landed. With `exclusive=False` it takes messages meanwhile:
        for calls whose order among each other does not matter.

        >>> pipeline = Pipeline("busy")
        >>> clicks = pipeline.stream("clicks", key=str, value=str)
        >>> clicks.window(tumbling(timedelta(seconds=1)), count(), id="per-second").send_to("busy")
        >>> with PipelineDriver(pipeline) as driver:
        ...     for at in (0, 999, 1000):
        ...         driver.send("clicks", "/home", key="ann", timestamp=at)
        ...     [(pane.value.window.start, pane.value.value) for pane in driver.read("busy")]
        [(0, 2)]

        Source: Akidau et al., The Dataflow Model (VLDB 2015).
        """
        late = (late_trigger, lateness, late_to)
        rules = WindowRules(f"window {id!r}", assigner, aggregate, trigger, *late, accumulate, time, combine, exclusive)
        return KeyedStream(self._graph, self._add(ops.WindowBy, id=id, **checked_window(rules)))

    @overload
    def join(
        self,
        other: "KeyedStream[K, W]",
        fn: Callable[[V, W], U],
        *,
        id: str,
        within: timedelta,
        how: Literal["inner"] = "inner",
        retain: ops.Retain = "all",
        time: ops.Time = "event",
    ) -> "KeyedStream[K, U]": ...
    @overload
    def join(
        self,
        other: "KeyedStream[K, W]",
        fn: Callable[[V, W | None], U],
        *,
        id: str,
        within: timedelta,
        how: Literal["left"],
        retain: ops.Retain = "all",
        time: ops.Time = "event",
        exclusive: bool = True,
    ) -> "KeyedStream[K, U]": ...
    @overload
    def join(
        self,
        other: "KeyedStream[K, W]",
        fn: Callable[[V | None, W | None], U],
        *,
        id: str,
        within: timedelta,
        how: Literal["outer"],
        retain: ops.Retain = "all",
        time: ops.Time = "event",
        exclusive: bool = True,
    ) -> "KeyedStream[K, U]": ...
    @overload
    def join(
        self,
        other: Table[K, W] | RemoteTable[K, W],
        fn: Callable[[V, W], U],
        *,
        id: str,
        how: Literal["inner"] = "inner",
    ) -> "KeyedStream[K, U]": ...
    @overload
    def join(
        self, other: Table[K, W] | RemoteTable[K, W], fn: Callable[[V, W | None], U], *, id: str, how: Literal["left"]
    ) -> "KeyedStream[K, U]": ...
    def join(
        self,
        other: "KeyedStream[K, W] | Table[K, W] | RemoteTable[K, W]",
        fn: Callable[[Any, Any], U],
        *,
        id: str,
        within: timedelta | None = None,
        how: ops.How = "inner",
        retain: ops.Retain = "all",
        time: ops.Time = "event",
        exclusive: bool = True,
    ) -> "KeyedStream[K, U]":
        """Bring rows of this stream, the left one, and another together: `fn(left, right)` for each two of one key.

        With `retain="all"` they join if their times are at most `within` apart; with "latest" each joins the row of the
        other side that came last, if their times are less than `within` apart. `how="left"` also gives
        `fn(left, None)` for each left row that has joined none when its time is over, "outer" `fn(None, right)` too;
        behind those, time is `within` behind. The result has the later of both times and the left row's headers.
        Rows behind the watermark of both sides are dropped and counted. With `time="processing"` a row's time is when
        it comes. `exclusive=` is for rows that have joined none, as for the panes of a `window`.

        With a table: `fn(value, row)` for the row that the table has for the message's key when it is processed. A
        message without row is left out, or with `how="left"` `fn` gets None. Key, timestamp and headers stay. A remote
        table is read with many calls in flight; results of one key leave in order.

        >>> pipeline = Pipeline("paid")
        >>> orders = pipeline.stream("orders", key=str, value=str)
        >>> payments = pipeline.stream("payments", key=str, value=int)
        >>> def paid(order: str, amount: int) -> str:
        ...     return f"{order} for {amount}"
        >>> orders.join(payments, paid, id="paid", within=timedelta(minutes=10)).send_to("paid")
        >>> with PipelineDriver(pipeline) as driver:
        ...     driver.send("orders", "tea", key="ann", timestamp=0)
        ...     driver.send("payments", 3, key="ann", timestamp=60_000)
        ...     [message.value for message in driver.read("paid")]
        ['tea for 3']

        Source: Apache Samza's joins for `retain="latest"`; Flink's interval joins for "all".
        """
        rules = JoinRules(f"join {id!r}", fn, within, how, retain, time, exclusive)
        if isinstance(other, RemoteTable):
            return self._join_remote(other, id, rules)
        if isinstance(other, Table):
            return self._join_table(other, id, rules)
        return self._join_stream(other, id, rules)

    def _join_remote(self, table: RemoteTable[K, Any], id: str, rules: JoinRules) -> "KeyedStream[K, Any]":
        lookup, call = checked_lookup(rules), self._graph.with_own_names(remote_call(table, table.read))
        fields = {"table": table, "call": call, "joined": lookup["fn"], "how": lookup["how"]}
        return KeyedStream(self._graph, self._add(ops.JoinRemote, id=id, **fields))

    def _join_table(self, table: Table[K, Any], id: str, rules: JoinRules) -> "KeyedStream[K, Any]":
        self._check_same_pipeline(table, rules)
        inputs = self._tail, table._tail
        return KeyedStream(self._graph, self._graph.add(ops.JoinTable, id=id, inputs=inputs, **checked_lookup(rules)))

    def _join_stream(self, other: MessageStream[Any], id: str, rules: JoinRules) -> "KeyedStream[K, Any]":
        self._check_same_pipeline(other, rules)
        check_sides(rules.what, keyed=isinstance(other, KeyedStream), same=other._tail == self._tail)
        inputs = self._tail, other._tail
        return KeyedStream(self._graph, self._graph.add(ops.JoinStreams, id=id, inputs=inputs, **checked_join(rules)))

    def _check_same_pipeline(self, other: Any, rules: JoinRules) -> None:
        good = isinstance(other, MessageStream | Table) and other._graph is self._graph
        require(
            good, PipelineError, f"{rules.what} got {other!r}", "a stream or table of the same pipeline", ONE_PIPELINE
        )

    def deduplicate(
        self,
        within: timedelta,
        *,
        by: Callable[[V], B] | None = None,
        by_type: type[B] | Serde[B] | None = None,
        id: str,
    ) -> "KeyedStream[K, V]":
        """Pass on the first message of each key, and leave out those that are less than `within` apart from it in time.

        With `by` only messages with an equal `by(value)` are duplicates of each other; `by_type`, a type of key, may be
        left out where `by` is annotated. What counts is the time from each message that was passed on, earlier or
        later, to the message at hand. A message that is more than `within` behind the watermark is dropped and counted
        as late, for its duplicates may be forgotten. What is passed on stays as it is.

        >>> pipeline = Pipeline("once")
        >>> def number(order: str) -> str:
        ...     return order.partition(":")[0]
        >>> orders = pipeline.stream("orders", key=str, value=str)
        >>> orders.deduplicate(timedelta(hours=1), by=number, id="once").send_to("once")
        >>> with PipelineDriver(pipeline) as driver:
        ...     for order, at in (("17:tea", 0), ("18:milk", 1000), ("17:tea", 2000)):
        ...         driver.send("orders", order, key="ann", timestamp=at)
        ...     [message.value for message in driver.read("once")]
        ['17:tea', '18:milk']
        """
        fields = checked_deduplicate(f"deduplicate {id!r}", within, by, by_type)
        return KeyedStream(self._graph, self._add(ops.Deduplicate, id=id, **fields))

    def process(
        self, processor: KeyedProcessor[K, V, U], *, id: str, exclusive: bool = True
    ) -> "ProcessedStream[K, U]":
        """Hand the messages of each key to a processor, which keeps state and sets timers: see `KeyedProcessor`.

        `exclusive=` is for what its timers emit, as for the panes of a `window`.
        """
        checked = checked_process(f"process {id!r}", processor, exclusive=exclusive)
        return ProcessedStream(self._graph, self._add(ops.Process, id=id, **checked))

    # Samza's spellings.
    asyncFlatMap = async_flat_map
    flatMap = flat_map


class ProcessedStream(KeyedStream[K, V], TaskStream[V], Generic[K, V]):
    """The main output of a processor, or of a stream task with state by key; `tagged` gives its side outputs.

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
        return KeyedStream(self._graph, side_output(self._graph, self.operator, tag))
