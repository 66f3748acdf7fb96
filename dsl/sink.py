"""Sinks: where messages leave for a place that is no stream."""

from collections.abc import Awaitable, Mapping, Sequence
from typing import Protocol, TypeVar

from msgspec import Struct

from .errors import PipelineError
from .functions import check_call, is_asynchronous, is_generator
from .message import Message
from .validation import require

V_contra = TypeVar("V_contra", contravariant=True)


class BatchPart(Struct, frozen=True):
    """The part of a batch that a task of Spark's writes to a sink: of the sink `operator`, in batch number `batch` of
    the query with this unique name. `partition` is the number of the source partition among those that the sink's stage
    reads; behind a shuffle, that of the task. What a task writes that runs again has the same part.

    >>> BatchPart("1f0c", 7, 3, "archive").batch
    7
    """

    query: str
    batch: int
    partition: int
    operator: str


class Sink(Protocol[V_contra]):
    """Takes messages out of the pipeline, in batches.

    A message counts as landed once `flush` has returned after the `write` that held it. After a crash, messages since
    the last checkpoint are written again, so `write` should be idempotent. One copy of the sink serves
    each process that runs the pipeline; a sink must be picklable to run on Spark. `open` and `close` may be
    asynchronous: they run in the event loop of the process.

    A sink may have a method `begin(part)` besides. In a streaming query on Spark it is given the `BatchPart` of the
    writes that follow. If a task or a batch is run again, it is given the same part again, and the same messages: a
    sink that then replaces what it has stored of the part stores each message once. Such a sink is an object of its own
    for each operator.

    >>> class Prices:
    ...     def open(self) -> None:
    ...         self.latest: dict[object, int] = {}
    ...     def write(self, messages: Sequence[Message[int]]) -> None:
    ...         self.latest.update((message.key, message.value) for message in messages)
    ...     def flush(self) -> None: pass
    ...     def close(self) -> None: pass
    >>> prices, pipeline = Prices(), Pipeline("prices")
    >>> pipeline.stream("prices", key=str, value=int).sink(prices, id="latest")
    >>> with PipelineDriver(pipeline) as driver:
    ...     driver.send("prices", 250, key="tea")
    ...     driver.send("prices", 260, key="tea")
    >>> prices.latest
    {'tea': 260}
    """

    def open(self) -> Awaitable[None] | None:
        """Called once in each process, before the first `write`."""
        ...

    def write(self, messages: Sequence[Message[V_contra]]) -> None:
        """Take the next messages; they may be held until `flush`."""
        ...

    def flush(self) -> None:
        """Return once all that was written is safe."""
        ...

    def close(self) -> Awaitable[None] | None:
        """Called once in each process, after the last `flush`, also where the run failed."""
        ...


BEGIN = "begin"
"""The name of the method that a sink may have, and need not."""
_METHODS: Mapping[str, tuple[str, ...]] = {"open": (), "write": ("messages",), "flush": (), "close": ()}
"""The methods of a sink, each with the arguments that it is called with."""


def check_sink(id: str, sink: object) -> None:
    """Refuse what lacks a method of a sink, and methods whose calls would do nothing: nobody awaits or iterates what
    they give."""
    sink_name = f"sink {id!r}: {type(sink).__name__}"
    missing = [name for name in _METHODS if not callable(getattr(sink, name, None))]
    expected = "an object with open, write, flush and close"
    require(
        not missing,
        PipelineError,
        f"{sink_name} has no {', '.join(missing)}",
        expected,
        "add them; those with no work may be empty",
    )
    taken = dict(_METHODS)
    if hasattr(sink, BEGIN):
        taken[BEGIN] = ("part",)
    methods = {name: getattr(sink, name) for name in taken}
    wrong, remedy = f"{sink_name}.{BEGIN}={methods.get(BEGIN)!r}", "make it a method, or name it otherwise"
    require(all(map(callable, methods.values())), PipelineError, wrong, "a function of a BatchPart", remedy)
    # Messages have landed once flush returns, and the event loop does not turn within it.
    waiting = [name for name in ("write", "flush", BEGIN) if name in methods and is_asynchronous(methods[name])]
    wrong = f"the methods of {sink_name} are asynchronous: {', '.join(waiting)}"
    remedy = (
        "write them with def: only open and close may be asynchronous; or call the service in an async_flat_map"
        " before the sink, which may be given a client by resource="
    )
    require(not waiting, PipelineError, wrong, "methods that have done their work when they return", remedy)
    lazy = [name for name, method in methods.items() if is_generator(method)]
    wrong = f"the methods of {sink_name} are generators: {', '.join(lazy)}"
    require(not lazy, PipelineError, wrong, "methods that have done their work when they return", "leave out yield")
    for name, method in methods.items():
        check_call(f"{sink_name}.{name}", method, *taken[name], of="a method")
