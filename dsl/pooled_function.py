"""Plain functions as asynchronous ones: their calls are made in a pool of threads, or of processes."""

import asyncio
import inspect
import pickle
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Literal, ParamSpec, Protocol, TypeVar
from weakref import WeakKeyDictionary

from .annotations import UNKNOWN, is_decorated, returned
from .errors import PipelineError, UsageError
from .functions import called_name, is_asynchronous, is_generator
from .origin import Origin, here
from .validation import at_least_one, explain, require
from .verb_calls import explained_call

P = ParamSpec("P")
T = TypeVar("T")

PoolKind = Literal["threads", "processes"]
"""What makes the calls of a pool."""


class FunctionPools(Protocol):
    """The pools of one event loop, which has one for each pooled function that is called in it."""

    async def open(self, pooled: "PooledFunction[..., Any]") -> None:
        """Make the pool of a function, for one more user of it."""
        ...

    async def close(self, pooled: "PooledFunction[..., Any]") -> None:
        """One user of a function is done; with the last one its pool ends."""
        ...

    async def call(self, pooled: "PooledFunction[..., Any]", args: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """Make a call in the pool of a function, which is made if it is not there."""
        ...


_POOLS: WeakKeyDictionary[asyncio.AbstractEventLoop, FunctionPools] = WeakKeyDictionary()


def pools_of(loop: asyncio.AbstractEventLoop) -> FunctionPools | None:
    """The pools of an event loop; None where no run and no executor has given it any."""
    return _POOLS.get(loop)


def give_pools(loop: asyncio.AbstractEventLoop, pools: FunctionPools) -> None:
    """Let pooled functions that are called in an event loop use these pools."""
    _POOLS[loop] = pools


class PooledFunction(Generic[P, T]):
    """A plain function that is called as an asynchronous one, in a pool of at most `size` threads or processes. Each
    process of a run has a pool of its own. Made by `in_threads` and `in_processes`.

    >>> in_threads(len, threads=4)
    in_threads(len)
    """

    def __init__(self, fn: Callable[P, T], kind: PoolKind, size: int, origin: Origin, pickled: bytes = b"") -> None:
        self.fn = fn
        self.kind = kind
        self.size = size
        self.origin = origin
        self.pickled = pickled
        """The function for the processes, as it was where it was written."""
        self.__name__ = called_name(fn)
        self.__annotations__ = _annotations_of(fn)

    async def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call the function in its pool, and return its result, or raise its error. Raises UsageError in an event loop
        that is none of a run or of an executor."""
        result: T = await self._pools().call(self, args, kwargs)
        return result

    async def open(self) -> None:
        """Make the pool of this process."""
        await self._pools().open(self)

    async def close(self) -> None:
        """End the pool of this process."""
        await self._pools().close(self)

    @property
    def __signature__(self) -> inspect.Signature:
        """What the function takes. Raises ValueError for one that does not tell."""
        return inspect.signature(self.fn, follow_wrapped=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return PooledFunction, (self.fn, self.kind, self.size, self.origin, self.pickled)

    def __repr__(self) -> str:
        return f"in_{self.kind}({self.__name__})"

    def _pools(self) -> FunctionPools:
        pools = pools_of(asyncio.get_running_loop())
        if pools is None:
            wrong = f"{self!r} is called in an event loop of your own"
            remedy = f"await asyncio.to_thread({self.__name__}, ...) there"
            raise UsageError(explain(wrong, "the event loop of a run, or of a KeyedExecutor", remedy, self.origin))
        return pools


def pooled_in(owner: type) -> tuple[PooledFunction[..., Any], ...]:
    """The pooled functions that are attributes of a class, or of one that it inherits from."""
    attributes = [one for cls in owner.__mro__ for one in vars(cls).values()]
    return tuple(dict.fromkeys(one for one in attributes if isinstance(one, PooledFunction)))


@explained_call
def in_threads(fn: Callable[P, T], *, threads: int) -> PooledFunction[P, T]:
    """A plain function for `async_flat_map`, remote tables, `AsyncStreamTask` and `KeyedExecutor`, which take
    asynchronous ones: its calls are made in threads, at most `threads` at once in each process. For functions that
    wait, such as those of a blocking client. Those that compute hold Python's lock, and gain nothing.

    Its pool is made before the first message and ended after the last commit. The time that a call waits for a thread
    in `async_flat_map` does not count for its `timeout`. A thread cannot be ended: a call that its timeout gives up
    keeps its thread until it returns. The function sees the context variables of its call, and none of the stores.

    Raises PipelineError for what is no plain function. See `remote-calls` in the guide.

    >>> def price(item: str) -> list[int]:
    ...     return [len(item)]  # as a client says that blocks
    >>> pipeline = Pipeline("priced")
    >>> items = pipeline.stream("items", value=str)
    >>> items.async_flat_map(in_threads(price, threads=8), id="price").send_to("prices")
    >>> with PipelineDriver(pipeline) as driver:
    ...     driver.send("items", "tea")
    ...     [message.value for message in driver.read("prices")]
    [3]
    """
    _check_plain("in_threads", fn)
    return PooledFunction(fn, "threads", at_least_one("in_threads: threads", threads, "threads"), here())


@explained_call
def in_processes(fn: Callable[P, T], *, processes: int) -> PooledFunction[P, T]:
    """A plain function whose calls are made in processes: taken where one of `in_threads` is. Each process of the run
    has `processes` of them, and each makes one call at a time. For functions that compute for milliseconds or longer,
    and for those that may crash or hang. On the local engine.

    The processes are started before the first message, and end behind the last commit, or with the process that has
    started them. They import the function by its name, so it stands at the top level of a module. What it takes, gives
    and raises is pickled. An object with `open` and `close` whose method it is, is opened in each of them. A call that
    is given up at its timeout is ended with its process, which is replaced; a process that dies fails its call with
    `concurrent.futures.BrokenExecutor`, and no other.

    Raises PipelineError for what is no plain function, and for a function that cannot be pickled.

    >>> pipeline = Pipeline("letters")
    >>> words = pipeline.stream("words", value=str)
    >>> words.async_flat_map(in_processes(sorted, processes=2), id="sort").send_to("letters", value=str)
    >>> with PipelineDriver(pipeline) as driver:
    ...     driver.send("words", "tea")
    ...     [message.value for message in driver.read("letters")]
    ['a', 'e', 't']
    """
    _check_plain("in_processes", fn)
    size = at_least_one("in_processes: processes", processes, "processes")
    return PooledFunction(fn, "processes", size, here(), _pickled(fn))


def refuse_client(what: str, fn: Any, client: object) -> None:
    """Refuse a client of this process for a function that other processes call."""
    there = isinstance(fn, PooledFunction) and fn.kind == "processes"
    expected = "a function in processes, or a client"
    remedy = "give in_processes a method of an object with open() and close(), which each of its processes opens"
    good = client is None or not there
    require(good, PipelineError, f"{what}: resource= and {fn!r}, which has no client of this process", expected, remedy)


def _pickled(fn: Any) -> bytes:
    name, expected = called_name(fn), "a function at the top level of a module, which other processes can import"
    remedy = "define it with def in a module, under a name of its own; a method needs an object that can be pickled"
    try:
        data = pickle.dumps(fn)
    except Exception as error:
        wrong = f"in_processes got {name}, which cannot be pickled: {error}"
        raise PipelineError(explain(wrong, expected, remedy)) from error
    main = sys.modules["__main__"]
    typed = getattr(fn, "__module__", "") == "__main__" and not hasattr(main, "__file__")
    wrong, remedy = f"in_processes got {name}, which stands in no file", "write it into a file, and import that"
    require(not typed, PipelineError, wrong, expected, remedy)
    return data


def _check_plain(what: str, fn: Any) -> None:
    require(callable(fn), PipelineError, f"{what} got {fn!r}", "a function", "pass a function, not its result")
    remedy = f"pass {called_name(fn)} itself, without {what}"
    wrong = f"{what} got the asynchronous function {called_name(fn)}"
    require(not is_asynchronous(fn), PipelineError, wrong, "a plain function", remedy)
    wrong = f"{what} got the generator function {called_name(fn)}"
    expected = "a plain function that returns its values"
    remedy = "return a list: a generator would run in the event loop"
    require(not is_generator(fn), PipelineError, wrong, expected, remedy)


def _annotations_of(fn: Callable[..., Any]) -> dict[str, Any]:
    """What an asynchronous function that calls a plain one would be annotated with, as far as that is known."""
    gives = UNKNOWN if is_decorated(fn) else returned(fn)
    return {} if gives is UNKNOWN else {"return": gives}
