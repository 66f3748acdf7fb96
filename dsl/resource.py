"""Resources: clients and pools that each process of a run opens for itself, and hands to functions of the user's."""

import inspect
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, Generic, Protocol, TypeVar, overload

from .errors import PipelineError
from .functions import called_name, check_call, is_generator
from .origin import Origin, here
from .pooled_function import PooledFunction
from .validation import explain, require
from .verb_calls import explained_call


class Opened(Protocol):
    """What is opened before it is used, and closed behind it; both may be asynchronous."""

    def open(self) -> Any:
        """Called once in each process, before the first use."""
        ...

    def close(self) -> Any:
        """Called once in each process, after the last use."""
        ...


R = TypeVar("R")
O = TypeVar("O", bound=Opened)  # noqa: E741 - an object that is opened

_FUNCTIONS = (FunctionType, MethodType, BuiltinFunctionType, partial, type)
_MAKE_IT = "pass a function that makes it: each process of a run opens its own"


@dataclass(frozen=True, slots=True, eq=False)
class Resource(Generic[R]):
    """What each process of a run makes by `factory`, opens, and hands to functions. Made by `resource`.

    Two are the same only if they are one object: functions that are given one resource share what it opens.

    >>> @resource
    ... def clients() -> dict[str, str]:
    ...     return {}
    >>> clients.name
    'clients'
    """

    factory: Callable[[], Any]
    origin: Origin

    @property
    def name(self) -> str:
        """The name of its factory, by which errors and metrics call it."""
        return called_name(self.factory)

    def __repr__(self) -> str:
        return f"resource({self.name})"


@overload
def resource(factory: Callable[[], Coroutine[Any, Any, O]]) -> Resource[O]: ...
@overload
def resource(factory: Callable[[], Coroutine[Any, Any, AbstractAsyncContextManager[R]]]) -> Resource[R]: ...
@overload
def resource(factory: Callable[[], Coroutine[Any, Any, AbstractContextManager[R]]]) -> Resource[R]: ...
@overload
def resource(factory: Callable[[], Coroutine[Any, Any, R]]) -> Resource[R]: ...
@overload
def resource(factory: Callable[[], O]) -> Resource[O]: ...
@overload
def resource(factory: Callable[[], AbstractAsyncContextManager[R]]) -> Resource[R]: ...
@overload
def resource(factory: Callable[[], AbstractContextManager[R]]) -> Resource[R]: ...
@overload
def resource(factory: Callable[[], R]) -> Resource[R]: ...
@explained_call
def resource(factory: Callable[[], Any]) -> Resource[Any]:
    """A client or a pool for the functions of `async_flat_map` and `remote_table`, as `resource=`.

    `factory()` makes it, in each process that runs the pipeline: a container, or a Python worker of Spark's. It is
    called in the event loop in which the functions run, and may be asynchronous. What it gives is opened before the
    first message and closed after the last commit: by `open()` and `close()`, asynchronous or not, if it has both; else
    as a context manager, and functions are given what `async with` or `with` gives; else by `aclose()` or `close()` at
    the end, if it has one.

    A process never gets an open client of another: only the factory travels.

    >>> class Prices:
    ...     async def open(self) -> None:
    ...         self.known = {"tea": 250}
    ...     async def close(self) -> None:
    ...         self.known.clear()
    >>> @resource
    ... def prices() -> Prices:
    ...     return Prices()
    >>> async def price(item: str, client: Prices) -> list[int]:
    ...     return [client.known[item]]
    >>> pipeline = Pipeline("priced")
    >>> items = pipeline.stream("items", value=str)
    >>> items.async_flat_map(price, id="price", resource=prices).send_to("prices")
    >>> with PipelineDriver(pipeline) as driver:
    ...     driver.send("items", "tea")
    ...     [message.value for message in driver.read("prices")]
    [250]
    """
    what, expected = "resource", "a function without arguments that makes a client"
    if isinstance(factory, Resource):
        raise PipelineError(explain(f"{what} got {factory!r}, which is one already", expected, "pass it as resource="))
    if not isinstance(factory, _FUNCTIONS) and _is_client(factory):
        wrong = f"{what} got an object of {type(factory).__name__}, which may be open"
        raise PipelineError(explain(wrong, expected, _MAKE_IT))
    require(callable(factory), PipelineError, f"{what} got {factory!r}", expected, _MAKE_IT)
    lazy = inspect.isasyncgenfunction(factory) or (inspect.isgeneratorfunction(factory) and is_generator(factory))
    wrong, remedy = (
        f"{what} got the generator {called_name(factory)}",
        "decorate it with contextlib.asynccontextmanager",
    )
    require(not lazy, PipelineError, wrong, expected, remedy)
    check_call(what, factory)
    return Resource(factory, here())


def checked_resource(what: str, given: Any) -> Resource[Any] | None:
    """A resource as it was given to a verb, None for none; refuses anything else."""
    good = given is None or isinstance(given, Resource)
    name = getattr(given, "__name__", None) or "make_client"
    remedy = f"write resource=resource({name}), where {name} is a function that makes the client"
    require(good, PipelineError, f"{what}: resource={given!r}", "a Resource", remedy)
    return given  # type: ignore[no-any-return]


def opens_itself(thing: object) -> bool:
    """Whether an object of the user's has `open` and `close` that can be called without arguments.

    >>> opens_itself(object())
    False
    """
    if isinstance(thing, (*_FUNCTIONS, ModuleType)):
        return False
    return all(can_call(thing, name) for name in ("open", "close"))


def can_call(thing: object, name: str) -> bool:
    """Whether the class of an object has a method of that name that can be called without arguments."""
    # Of the class: a mock has every attribute that it is asked for.
    if not callable(getattr(type(thing), name, None)):
        return False
    try:
        inspect.signature(getattr(thing, name)).bind()
    except TypeError:
        return False
    except ValueError:  # of C: it has no signature
        return True
    return True


def opened_with(fn: Any) -> tuple[Any, ...]:
    """What is to be opened before a function is called: the function itself, if it is an object with `open` and
    `close`, or the object whose method it is; none if there is no such object. In front of the pool of a plain function
    comes what that needs."""
    while isinstance(fn, partial):
        fn = fn.func
    if isinstance(fn, PooledFunction):
        return (*(opened_with(fn.fn) if fn.kind == "threads" else ()), fn)
    owner = fn.__self__ if isinstance(fn, MethodType) else fn
    return (owner,) if opens_itself(owner) else ()


def _is_client(thing: object) -> bool:
    return any(hasattr(type(thing), name) for name in ("__aenter__", "__enter__", "aclose", "close"))
