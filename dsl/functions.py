"""Checks of functions that users pass: what is known of a function where it is written, before it is called."""

import dis
import inspect
from collections.abc import Awaitable, Callable
from functools import partial
from types import FunctionType, MethodType, NoneType
from typing import Any, get_origin

from .annotations import UNKNOWN, contradicts, element_type, is_single, promised, returned, taken
from .errors import PipelineError
from .text import plural
from .validation import explain, require

_NOT_A_RESULT = "pass a function or a lambda, not its result"
_REPLACEABLE = frozenset({"map", "filter", "flat_map", "map_messages"})
"""The verbs in whose place async_flat_map can stand."""
_CALLS_APART = "make the call by async_flat_map(fn, id=...), before or behind, and give a plain function here"
_CALLS_IN_PLACE = "use async_flat_map(fn, id=...), whose function is asynchronous and returns a list of values"


def function(what: str, fn: Any, *takes: str, many: bool = False) -> None:
    """Refuse what cannot be called with the arguments that `takes` names, an asynchronous function, and, unless it may
    give `many` values, a generator."""
    require(callable(fn), PipelineError, f"{what} got {fn!r}", "a function", _NOT_A_RESULT)
    remedy = _CALLS_IN_PLACE if what in _REPLACEABLE else _CALLS_APART
    wrong = f"{what} got the asynchronous function {called_name(fn)}"
    require(not is_asynchronous(fn), PipelineError, wrong, "a plain function", remedy)
    wrong = f"{what} got the generator function {called_name(fn)}"
    remedy = "return one value; flat_map takes a function that gives several, or none"
    good = many or not is_generator(fn)
    require(good, PipelineError, wrong, "a function that returns a value", remedy)
    check_call(what, fn, *takes)
    if many:
        _check_many(what, fn)


def _check_many(what: str, fn: Any) -> None:
    """Refuse a function that is annotated to give what is no list of values: of text each letter would be one."""
    type_ = UNKNOWN if is_generator(fn) else promised(fn)
    remedy = "return [value], or list(text) for its letters, and annotate it so"
    require(
        not is_single(type_), PipelineError, _got(what, fn, type_), "a function that returns a list of values", remedy
    )


def gives_list_of_lists(what: str, fn: Any) -> None:
    """Refuse a function that is annotated to give what is no list of values for each of several."""
    type_ = promised(fn)
    expected = "with batch=, a function that returns a list of values for each value"
    good = not is_single(element_type(type_))
    require(good, PipelineError, _got(what, fn, type_), expected, "return [[value], ...], and annotate it so")


def gives_list_or_none(what: str, fn: Any, remedy: str) -> None:
    """Refuse a function that is annotated to return what is neither a list of values nor None."""
    type_ = promised(fn)
    good = type_ is NoneType or is_generator(fn) or not is_single(type_)
    require(good, PipelineError, f"{what}, which returns {_type_text(type_)}", "a list of values, or None", remedy)


def gives_message(what: str, fn: Any) -> None:
    """Refuse a function that is annotated to return what is no message."""
    type_ = promised(fn)
    remedy = "return a Message, or use map, whose function takes and returns values"
    require(not is_single(type_), PipelineError, _got(what, fn, type_), "a function that returns a Message", remedy)


def gives_number(what: str, fn: Any) -> None:
    """Refuse a function that is annotated to return text or nothing, where numbers are added up."""
    type_ = promised(fn)
    good = type_ not in (str, bytes, NoneType)
    remedy = "return a number, and annotate it; collect() keeps values of any type"
    require(good, PipelineError, _got(what, fn, type_), "a function that returns a number", remedy)


def _got(what: str, fn: Any, type_: Any) -> str:
    return f"{what} got {called_name(fn)}, which returns {_type_text(type_)}"


def _type_text(type_: Any) -> str:
    return str(getattr(type_, "__name__", type_))


def takes_back(what: str, giver: str, given: Any, taker: str, *wanted: Any) -> None:
    """Refuse what is annotated to take another type of accumulator than it will be `given`."""
    for type_ in wanted:
        if contradicts(given, type_):
            wrong = f"{what}: {giver} {given.__name__}, and {taker} {type_.__name__}"
            raise PipelineError(explain(wrong, "an accumulator of one type", "correct one of the two"))


def check_call(what: str, fn: Any, *takes: str, of: str = "a function") -> None:
    """Refuse what cannot be called with as many arguments by position as `takes` names.

    What has no signature is accepted, as many builtins have none.
    """
    try:
        # A decorator may add arguments: what counts is the function that is called, not the one that it wraps.
        signature = inspect.signature(fn, follow_wrapped=False)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*takes)
    except TypeError as error:
        number = plural(len(takes), "argument") if takes else "no arguments"
        wrong = f"{what} got {called_name(fn)}, which cannot be called with {number}: {error}"
        remedy = f"let it take {' and '.join(takes) or 'none'}, and give each further parameter a default"
        if called_name(fn) == "lambda":
            remedy = f"write lambda {', '.join(takes)}: ..." if takes else "write lambda: ..."
        raise PipelineError(explain(wrong, f"{of} that can be called as fn({', '.join(takes)})", remedy)) from None


def is_asynchronous(fn: Any) -> bool:
    """Whether it is known that a call gives what must be awaited.

    >>> import asyncio
    >>> is_asynchronous(asyncio.sleep), is_asynchronous(len)
    (True, False)
    """
    code = _called(fn)
    waits = inspect.iscoroutinefunction(code) or inspect.isasyncgenfunction(code) or _returns(code, Awaitable)
    return waits or _is_marked(fn)


def is_generator(fn: Any) -> bool:
    """Whether a call gives a generator, which runs nothing until it is iterated.

    >>> is_generator(len)
    False
    """
    return inspect.isgeneratorfunction(_called(fn))


def predicate(what: str, fn: Any) -> None:
    """Refuse what `function` refuses, and a function that returns a function: as an answer that is always yes."""
    function(what, fn, "value")
    good = inspect.isclass(fn) or not _returns(_called(fn), Callable)
    name, expected = called_name(fn), "a function that returns True or False"
    remedy = f"call it: {what}({name}(...))"
    require(good, PipelineError, f"{what} got {name}, which returns a function", expected, remedy)
    good, remedy = promised(fn) is not NoneType, "return whether the value is to pass, and annotate it"
    require(good, PipelineError, f"{what} got {name}, which returns None", expected, remedy)


def timestamp_of(what: str, fn: Any, value: Any) -> None:
    """Refuse what `function` refuses, and a function that is annotated to take another type than `value`, or to return
    what is no number."""
    function(what, fn, "value")
    wanted, gives = taken(fn), promised(fn)
    if contradicts(value, wanted):
        wrong = f"{what} gets {value.__name__}, and {called_name(fn)} takes {wanted.__name__}"
        remedy = "correct the annotation, or value= of the stream"
        raise PipelineError(explain(wrong, "a function that takes the values of the stream", remedy))
    if gives is NoneType or contradicts(gives, int):
        expected, remedy = "a time in ms since epoch, an int", "correct it, or its annotation"
        raise PipelineError(explain(_got(what, fn, gives), expected, remedy))


def asynchronous(what: str, fn: Any, *takes: str, many: bool = False) -> None:
    """Refuse a function that cannot be called with the arguments that `takes` names, or whose result cannot be awaited.

    A function written with `def` must be annotated to return an awaitable. A lambda must call something. What a lambda
    or a function that is not written in Python returns is known when it is called.
    """
    require(callable(fn), PipelineError, f"{what} got {fn!r}", "an async function", _NOT_A_RESULT)
    code = _called(fn)
    wrong = f"{what} got the asynchronous generator {called_name(fn)}"
    remedy = "gather the values in a list, and return it"
    require(not inspect.isasyncgenfunction(code), PipelineError, wrong, "an async function that returns", remedy)
    # An object of a decorator's class: its method says nothing of what it returns either.
    wrapped = _called(inspect.unwrap(fn))
    if not (is_asynchronous(fn) or is_asynchronous(wrapped) or _may_wait(code)):
        remedy = f"call it in threads: in_threads({called_name(fn)}, threads=8); or write it with async def; one that "
        remedy += "returns what another makes is annotated with -> Awaitable[...]"
        raise PipelineError(explain(f"{what} got the plain function {called_name(fn)}", "an async function", remedy))
    check_call(what, fn, *takes, of="an async function")
    if many:
        _check_many(what, fn)


def _may_wait(code: Any) -> bool:
    """Whether nothing tells what a function returns, and nothing could tell."""
    type_ = returned(code)
    if type_ is not UNKNOWN:
        return type_ is Any
    # What calls nothing cannot make an awaitable.
    return not isinstance(code, FunctionType) or (
        code.__name__ == "<lambda>" and any("CALL" in step.opname for step in dis.get_instructions(code))
    )


def _is_marked(fn: Any) -> bool:
    """Whether an object has the mark of asyncio that its calls give coroutines, as an `AsyncMock` has."""
    return "_is_coroutine" in getattr(fn, "__dict__", ())


def _called(fn: Any) -> Any:
    """The function that is called in the end: behind partial(), decorators, methods and objects that can be called."""
    while isinstance(fn, partial):
        fn = fn.func
    # By its own type: a mock says that it is a function, and has no code that could be looked into.
    if not issubclass(type(fn), FunctionType | MethodType | type):
        method = getattr(type(fn), "__call__", None)  # noqa: B004 - of a class of the user's
        fn = method if isinstance(method, FunctionType) else fn
    # A decorator says nothing of what it returns; the function that it wraps does.
    fn = inspect.unwrap(fn)
    return fn.__func__ if isinstance(fn, MethodType) else fn


def _returns(code: Any, type_: Any) -> bool:
    """Whether a function is annotated to return something of a kind."""
    declared = returned(code)
    declared = get_origin(declared) or declared
    return inspect.isclass(declared) and declared is not UNKNOWN and issubclass(declared, get_origin(type_) or type_)


def called_name(fn: Any) -> str:
    """The name of the function that is called in the end, as errors say it; `function_name` of labels is for pictures,
    and names the class of an object."""
    name = getattr(fn, "__name__", None) or getattr(_called(fn), "__qualname__", type(fn).__name__)
    return "lambda" if name == "<lambda>" else str(name)
