"""Finds clients that are made where a pipeline is written, and that its functions use in other processes and loops."""

import dis
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from ...dsl.functions import called_name
from ...dsl.operators import Operator
from ...dsl.pipeline import Pipeline
from ...dsl.resource import Resource

_NO_CLIENTS = ("asyncio", "fluvial", "unittest")
"""Packages whose objects are no clients: locks belong to no loop before they are used, and mocks to none at all."""

_Reference = tuple[str, Any]
"""What a function refers to, and by which name."""


@dataclass(frozen=True, slots=True)
class OpenClient:
    """A client that a function of an operator refers to by `name`, as it was when the pipeline was written."""

    operator: Operator
    function: str
    name: str
    kind: str

    def __str__(self) -> str:
        opened = f"an object of {self.kind} that is made with the pipeline"
        return f"{self.operator.label}: {self.function} uses {self.name}, {opened}"


def open_clients(pipeline: Pipeline) -> Iterator[OpenClient]:
    """The clients that functions of calls, sinks and processors refer to, each once for each operator."""
    opened = [thing for operator in pipeline.operators for thing in operator.opens]
    opened += [operator.sink for operator in pipeline.sinks]
    for operator in pipeline.operators:
        named: list[Any] = []
        # A factory may give a client that was opened when the pipeline was written.
        factories = [one.factory for one in operator.opens if operator.async_call and isinstance(one, Resource)]
        for called in (*operator.called, *factories):
            for name, thing in _References().of(called):
                if _is_client(thing) and not any(thing is other for other in (*opened, *named)):
                    named.append(thing)
                    yield OpenClient(operator, called_name(called), name, type(thing).__name__)


def _is_client(thing: Any) -> bool:
    """Whether an object is one that is open between `async with`, or until it is closed in an event loop."""
    kind = type(thing)
    if isinstance(thing, type | ModuleType) or kind.__module__.partition(".")[0] in _NO_CLIENTS:
        return False
    closes = (getattr(kind, name, None) for name in ("aclose", "close"))
    return hasattr(kind, "__aenter__") or any(map(inspect.iscoroutinefunction, closes))


class _References:
    """Walks what functions refer to, and what the functions of their module do that they call."""

    def __init__(self) -> None:
        self._seen: list[Any] = []

    def of(self, called: Any) -> Iterator[_Reference]:
        """All that a function, a method or an object that can be called refers to, with names."""
        if any(called is other for other in self._seen):
            return
        self._seen.append(called)
        if isinstance(called, partial):
            yield from ((f"argument {number}", given) for number, given in enumerate(called.args, 1))
            yield from called.keywords.items()
            yield from self.of(called.func)
        elif isinstance(called, MethodType):
            yield from _attributes(called.__self__)
            yield from self.of(called.__func__)
        elif isinstance(called, FunctionType):
            yield from self._of_function(called)
        else:
            yield from _attributes(called)
            method = getattr(type(called), "__call__", None)  # noqa: B004 - of a class of the user's
            if isinstance(method, FunctionType):
                yield from self.of(method)

    def _of_function(self, function: FunctionType) -> Iterator[_Reference]:
        names = set(_names(function.__code__))
        used = [(name, thing) for name, thing in function.__globals__.items() if name in names]
        used += [*_cells(function), *_defaults(function)]
        yield from used
        for thing in (*(thing for _, thing in used), getattr(function, "__wrapped__", None)):
            if isinstance(thing, FunctionType) and thing.__globals__ is function.__globals__:
                yield from self.of(thing)


def _attributes(owner: Any) -> Iterator[_Reference]:
    """An object whose method is called, and what it holds."""
    name = type(owner).__name__
    yield name, owner
    if not isinstance(owner, type):
        yield from ((f"{name}.{attribute}", thing) for attribute, thing in getattr(owner, "__dict__", {}).items())


def _names(code: CodeType) -> Iterator[str]:
    """The globals that a function's code names, and that of functions within it; attributes have names like these."""
    for instruction in dis.get_instructions(code):
        if "GLOBAL" in instruction.opname or instruction.opname == "LOAD_NAME":  # the latter in bodies of classes
            yield instruction.argval
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield from _names(part)


def _cells(function: FunctionType) -> Iterator[_Reference]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # it is set later
            continue


def _defaults(function: FunctionType) -> Iterator[_Reference]:
    code, defaults = function.__code__, function.__defaults__ or ()
    yield from zip(code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount], defaults, strict=True)
    yield from (function.__kwdefaults__ or {}).items()
