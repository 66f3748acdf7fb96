"""Streams of messages in a pipeline: handles whose methods are the language. Those with a key are in `keyed_stream`."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar, Unpack, overload

from . import operators as ops
from .adaptive import Adaptive
from .annotations import TypeForm
from .breaker import Breaker
from .error_policy import Retry
from .errors import PipelineError
from .functions import function, gives_message, predicate
from .limit import Limit
from .message import Message
from .operators.calls import MOST_IN_FLIGHT, TIMEOUT, CallOptions, CallRules, checked_call, remote_call
from .operators.graph import ONE_PIPELINE, OperatorGraph
from .remote_table import Batch, RemoteTable, check_write
from .resource import Resource
from .serde import Serde, check_given_key, checked_value, declared_key
from .sink import Sink, check_sink
from .table import Table, check_put
from .validation import explain, require, stream_name, whole_number
from .verb_calls import explained_attribute, no_such_verb

if TYPE_CHECKING:
    from .keyed_stream import KeyedStream

K = TypeVar("K")
V = TypeVar("V")
U = TypeVar("U")
R = TypeVar("R")


class MessageStream(Generic[V]):
    """Messages at one node of a pipeline. Immutable: each method adds an operator and returns a new handle.

    Made by `Pipeline.stream`; `map`, `filter`, `flat_map` keep a message's key, timestamp and headers. A method that is
    given a wrong argument raises `PipelineError` at once.

    Several operators may read one stream. All are given the same values, not copies, and a window keeps them: functions
    return new values, and change those that they are given in place only where one alone reads the stream.

    >>> words = Pipeline("p").stream("words", value=str)
    >>> words.filter(str.isalpha).map(len)
    MessageStream(map(len))
    """

    __slots__ = ("_graph", "_tail")
    _is_keyed: ClassVar[bool] = False

    def __init__(self, graph: OperatorGraph, tail: str) -> None:
        self._graph = graph
        self._tail = tail

    @property
    def operator(self) -> ops.Operator:
        """The operator whose output this is.

        >>> Pipeline("p").stream("words", value=str).operator.kind
        'stream'
        """
        return self._graph[self._tail]

    def map(self, fn: Callable[[V], U]) -> "MessageStream[U]":
        """Turn each value into `fn(value)`, None included.

        >>> pipeline = Pipeline("lengths")
        >>> pipeline.stream("words", value=str).map(len).send_to("lengths")
        >>> with PipelineDriver(pipeline) as driver:
        ...     driver.send("words", "hello")
        ...     [message.value for message in driver.read("lengths")]
        [5]
        """
        function("map", fn, "value")
        return MessageStream(self._graph, self._add(ops.Map, fn=fn))

    def filter(self, fn: Callable[[V], Any]) -> Self:
        """Keep the messages for which `fn(value)` is true.

        >>> pipeline = Pipeline("large")
        >>> pipeline.stream("numbers", value=int).filter(lambda number: number > 9).send_to("large")
        >>> with PipelineDriver(pipeline) as driver:
        ...     for number in (7, 12):
        ...         driver.send("numbers", number)
        ...     [message.value for message in driver.read("large")]
        [12]
        """
        predicate("filter", fn)
        return type(self)(self._graph, self._add(ops.Filter, fn=fn))

    def split(self, *predicates: Callable[[V], Any]) -> tuple[Self, ...]:
        """A stream for each predicate and one for the rest: a message goes to the first whose predicate holds.

        >>> pipeline = Pipeline("sizes")
        >>> small, large = pipeline.stream("numbers", value=int).split(lambda number: number < 10)
        >>> small.send_to("small")
        >>> large.send_to("large")
        >>> with PipelineDriver(pipeline) as driver:
        ...     for number in (7, 12):
        ...         driver.send("numbers", number)
        ...     [[message.value for message in driver.read(name)] for name in ("small", "large")]
        [[7], [12]]
        """
        require(bool(predicates), PipelineError, "split got no predicates", "one function or more", "use filter")
        for fn in predicates:
            predicate("split", fn)
        # One more than predicates: the last branch takes what none of them holds for.
        indices, split = range(len(predicates) + 1), self._add(ops.Split, predicates=predicates)
        tails = [self._graph.add(ops.Branch, inputs=(split,), index=index) for index in indices]
        return tuple(type(self)(self._graph, tail) for tail in tails)

    def flat_map(self, fn: Callable[[V], Iterable[U]]) -> "MessageStream[U]":
        """Turn each value into the values that `fn(value)` gives, in that order; there may be none.

        >>> pipeline = Pipeline("words")
        >>> pipeline.stream("lines", value=str).flat_map(str.split).send_to("words")
        >>> with PipelineDriver(pipeline) as driver:
        ...     driver.send("lines", "to be")
        ...     [message.value for message in driver.read("words")]
        ['to', 'be']
        """
        function("flat_map", fn, "value", many=True)
        return MessageStream(self._graph, self._add(ops.FlatMap, fn=fn))

    def map_messages(self, fn: Callable[[Message[V]], Message[U]]) -> "MessageStream[U]":
        """Turn each whole message into another. The result has no key that the planner could trust: it is unkeyed.

        >>> pipeline = Pipeline("stamped")
        >>> def with_time(message: Message[str]) -> Message[str]:
        ...     return Message(message.key, f"{message.timestamp} {message.value}", message.timestamp)
        >>> pipeline.stream("words", value=str).map_messages(with_time).send_to("stamped")
        >>> with PipelineDriver(pipeline) as driver:
        ...     driver.send("words", "tea", timestamp=1_700_000_000_000)
        ...     [message.value for message in driver.read("stamped")]
        ['1700000000000 tea']
        """
        function("map_messages", fn, "message")
        gives_message("map_messages", fn)
        return MessageStream(self._graph, self._add(ops.MapMessages, fn=fn))

    @overload
    def async_flat_map(
        self,
        fn: Callable[[V], Awaitable[Iterable[U]]],
        *,
        id: str,
        batch: None = None,
        resource: None = None,
        **options: Unpack[CallOptions],
    ) -> "MessageStream[U]": ...
    @overload
    def async_flat_map(
        self,
        fn: Callable[[V, R], Awaitable[Iterable[U]]],
        *,
        id: str,
        batch: None = None,
        resource: Resource[R],
        **options: Unpack[CallOptions],
    ) -> "MessageStream[U]": ...
    @overload
    def async_flat_map(
        self,
        fn: Callable[[list[V]], Awaitable[Sequence[Iterable[U] | Exception]]],
        *,
        id: str,
        batch: Batch,
        resource: None = None,
        **options: Unpack[CallOptions],
    ) -> "MessageStream[U]": ...
    @overload
    def async_flat_map(
        self,
        fn: Callable[[list[V], R], Awaitable[Sequence[Iterable[U] | Exception]]],
        *,
        id: str,
        batch: Batch,
        resource: Resource[R],
        **options: Unpack[CallOptions],
    ) -> "MessageStream[U]": ...
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
    ) -> "MessageStream[Any]":
        """Turn each value into the values of `await fn(value)`, with up to `max_in_flight` calls of a task at once.

        `order`: "key" keeps the results of one key in input order, "input" those of the whole task, "none" emits
        them as they finish; a message without key is in nobody's order under "key". Once `limit` and `breaker` let it
        begin, a call may take `timeout`; one that fails is repeated as `retry` says, and then is an error of its
        message. It has context variables of its own. After a crash calls are repeated: they must be idempotent.
        With `batch=` the call is `fn(values)`, for several messages, and returns a list of values, or an exception, for
        each, in their order. A batch that raises is made again as a whole, and then fails each of its messages.
        With `resource=` the call is `fn(value, client)`. If `fn` is an object with `open` and `close`, or a method of
        one, that is opened in each process before the first call, and closed at the end. With `journal=True` results
        of type `result`, by default that of the annotation, are kept: after a crash no call is made again.

        >>> pipeline = Pipeline("priced")
        >>> async def price(item: str) -> list[int]:
        ...     return await asyncio.sleep(30, [250])  # a slow service
        >>> pipeline.stream("items", value=str).async_flat_map(price, id="price", order="input").send_to("prices")
        >>> with PipelineDriver(pipeline) as driver:
        ...     driver.send("items", "tea")
        ...     driver.advance(timedelta(seconds=30))
        ...     [message.value for message in driver.read("prices")]
        [250]

        Source: Apache Samza, SEP-21 (async high-level API).
        """
        about = (limit, breaker, concurrency, journal, result, hedge)
        rules = CallRules(max_in_flight, order, timeout, retry, resource, batch, *about)
        return MessageStream(self._graph, self._async(fn, id, rules))

    def merge(self, *others: "MessageStream[V]") -> "MessageStream[V]":
        """The messages of this stream and the others, in no order between them. The result is not keyed.

        >>> pipeline = Pipeline("all")
        >>> tea, coffee = (pipeline.stream(name, value=str) for name in ("tea", "coffee"))
        >>> tea.merge(coffee)
        MessageStream(merge(...))
        """
        return MessageStream(self._graph, self._merge(others))

    @overload
    def partition_by(
        self,
        fn: Callable[[V], K],
        *,
        id: str,
        key_type: type[K] | None = None,
        value: type[V] | Serde[V] | None = None,
        priority: int = 0,
    ) -> "KeyedStream[K, V]": ...
    @overload
    def partition_by(
        self, fn: Callable[[V], K], *, id: str, key_type: type[K] | None = None, value: TypeForm[V], priority: int = 0
    ) -> "KeyedStream[K, V]": ...
    def partition_by(
        self,
        fn: Callable[[V], K],
        *,
        id: str,
        key_type: type[K] | None = None,
        value: TypeForm[V] | Serde[V] | None = None,
        priority: int = 0,
    ) -> "KeyedStream[K, V]":
        """Give each message the key `fn(value)` and bring equal keys together, through an intermediate stream.

        The stream is named `{pipeline}-{id}`, and has a `priority` as others have. `key_type` may be left out where
        `fn` is annotated, `value` where the planner knows it. Messages whose key is None stay together.

        >>> pipeline = Pipeline("words")
        >>> pipeline.stream("words", value=str).partition_by(len, id="by-length", key_type=int)
        KeyedStream(partition_by by-length)
        """
        function("partition_by", fn, "value")
        what = f"partition_by {id!r}"
        key = declared_key(what, fn, key_type)
        type_ = None if value is None else checked_value(what, value)
        first = whole_number(f"{what}: priority", priority)
        tail = self._add(ops.PartitionBy, id=id, fn=fn, key=key, value=type_, priority=first)
        keyed: KeyedStream[K, V] = self._graph.keyed_stream(self._graph, tail)
        return keyed

    @overload
    def broadcast(self, *, id: str, value: type[V] | Serde[V] | None = None) -> "MessageStream[V]": ...
    @overload
    def broadcast(self, *, id: str, value: TypeForm[V]) -> "MessageStream[V]": ...
    def broadcast(self, *, id: str, value: TypeForm[V] | Serde[V] | None = None) -> "MessageStream[V]":
        """Let every task of the next stage have every message, through an intermediate stream.

        The stream is named `{pipeline}-{id}`. Keys, timestamps and headers stay, but the result is not keyed, for equal
        keys are everywhere. There are as many tasks as partitions of the other streams that the next stage reads, or
        one if it reads no other; on Spark as many as `spark_buckets`. `value` is as for `partition_by`.

        >>> pipeline = Pipeline("known")
        >>> rules = pipeline.stream("rules", value=str).broadcast(id="rules")
        >>> pipeline.stream("words", value=str).merge(rules).send_to("seen")
        >>> with PipelineDriver(pipeline, partitions={"words": 2, "rules": 1}) as driver:
        ...     driver.send("rules", "no tea")
        ...     [message.value for message in driver.read("seen")]
        ['no tea', 'no tea']
        """
        type_ = None if value is None else checked_value(f"broadcast {id!r}", value)
        return MessageStream(self._graph, self._add(ops.Broadcast, id=id, value=type_))

    @overload
    def send_to(
        self, name: str, *, key: Callable[[V], Any] | None = None, value: type[V] | Serde[V] | None = None
    ) -> None: ...
    @overload
    def send_to(self, name: str, *, key: Callable[[V], Any] | None = None, value: TypeForm[V]) -> None: ...
    def send_to(
        self,
        name: str | Table[Any, Any] | RemoteTable[Any, Any],
        *,
        key: Callable[[V], Any] | None = None,
        value: TypeForm[V] | Serde[V] | None = None,
    ) -> None:
        """Write each message to the stream `name`, under the key `key(value)` or else the key it has.

        Values are written as their type says (`bytes` and `str` raw, else JSON); as JSON where no type is known.
        To a table, a message of a keyed stream is the new row of its key; None deletes the row.

        >>> pipeline = Pipeline("copy")
        >>> pipeline.stream("words", value=str).send_to("copies", key=lambda word: word[0])
        >>> with PipelineDriver(pipeline) as driver:
        ...     driver.send("words", "tea")
        ...     [(message.key, message.value) for message in driver.read("copies")]
        [(b't', 'tea')]
        """
        if isinstance(name, RemoteTable):
            write = check_write(name, keyed=self._is_keyed, key=key, value=value)
            self._add(ops.PutRemote, table=name, call=self._graph.with_own_names(remote_call(name, write)))
            return
        if isinstance(name, Table):
            check_put(name, self._graph, self._is_keyed, key, value)
            self._add(ops.PutTo, table=name._tail)
            self._graph.fill(name._tail)
            return
        stream_name(name)
        if key is not None:
            function("send_to: key", key, "value")
            check_given_key("send_to: key", key)
        type_ = None if value is None else checked_value(f"send_to {name!r}", value)
        self._add(ops.SendTo, stream=name, key=key, value=type_)

    def sink(self, sink: Sink[V], *, id: str) -> None:
        """Hand each message to a sink of your own: any object with the methods of `Sink`.

        >>> class Printer:
        ...     def write(self, messages: Sequence[Message[str]]) -> None:
        ...         print(*(message.value for message in messages))
        ...     def open(self) -> None:
        ...         pass
        ...     flush = close = open
        >>> pipeline = Pipeline("printed")
        >>> pipeline.stream("words", value=str).sink(Printer(), id="printer")
        >>> with PipelineDriver(pipeline) as driver:
        ...     driver.send("words", "tea")
        tea
        """
        check_sink(id, sink)
        self._add(ops.SinkTo, id=id, sink=sink)

    def _add(self, make: type[ops.Operator], *, id: Any = ops.NAMELESS, **fields: Any) -> str:
        return self._graph.add(make, id=id, inputs=(self._tail,), **fields)

    def _async(self, fn: Any, id: str, rules: CallRules) -> str:
        call = checked_call(f"async_flat_map {id!r}", fn, rules)
        return self._add(ops.AsyncFlatMap, id=id, call=self._graph.with_own_names(call))

    def _merge(self, others: "tuple[MessageStream[Any], ...]") -> str:
        require(bool(others), PipelineError, "merge got no streams", "one stream or more", "write a.merge(b)")
        for other in others:
            good = isinstance(other, MessageStream) and other._graph is self._graph
            require(good, PipelineError, f"merge got {other!r}", "streams of the same pipeline", ONE_PIPELINE)
        return self._graph.add(ops.Merge, inputs=(self._tail, *(other._tail for other in others)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.operator.label})"

    if not TYPE_CHECKING:  # type checkers would take any attribute for known

        def __getattr__(self, name: str) -> Any:
            if not name.startswith("_") and hasattr(self._graph.keyed_stream, name):
                remedy = f"call .partition_by(fn, id=..., key_type=str) before .{name}, or give the stream key="
                raise PipelineError(explain(f"{name} on a stream without a key", "a keyed stream", remedy))
            remedy = "use one of them, or map(fn) for a function of your own"
            raise no_such_verb(self, name, [] if name.startswith("_") else dir(self._graph.keyed_stream), remedy)

        def __iter__(self) -> Any:
            remedy = "write the messages with send_to(name), run the pipeline, and read them with fluvial consume name"
            remedy += "; in a test with PipelineDriver(pipeline).read(name)"
            wrong = f"{self!r} was iterated: a stream describes messages, and holds none"
            raise PipelineError(explain(wrong, "a verb, such as map(fn) or send_to(name)", remedy))

        def __getattribute__(self, name: str) -> Any:
            attribute = object.__getattribute__(self, name)
            return attribute if name.startswith("_") else explained_attribute(attribute)

    # Samza's spellings.
    asyncFlatMap = async_flat_map
    flatMap = flat_map
    partitionBy = partition_by
    sendTo = send_to
