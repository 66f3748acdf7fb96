"""What is told of a failure besides the error itself: what was expected, and what the user may do about it."""

import inspect
import linecache
import re
from collections.abc import AsyncIterator, Awaitable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from types import (
    BuiltinFunctionType,
    EllipsisType,
    FunctionType,
    MethodDescriptorType,
    MethodType,
    NotImplementedType,
    WrapperDescriptorType,
)
from typing import Any

from ...dsl import operators as ops
from ...dsl.annotations import UNKNOWN
from ...dsl.pipeline import Pipeline
from ...dsl.serde import Serde, WrongKey, type_name, untyped_serde, value_serde
from ...planner.names import intermediate
from ...planner.types import flows
from .text import FILE_PREFIX

_ENCODES = re.compile(r"(?P<does>encode_key|encode|key)(?:_\d+)?\((?P<of>\w+)")
_FUNCTIONS = (FunctionType, BuiltinFunctionType, MethodType, MethodDescriptorType, WrapperDescriptorType, partial, type)
_ITERATORS = (Iterator, AsyncIterator)
_NO_ANSWERS = (*_FUNCTIONS, Awaitable, NotImplementedType, EllipsisType)


@dataclass(frozen=True, slots=True)
class Hint:
    """`wrong` stands before the error where it is not empty."""

    expected: str = "a function that takes every message"
    remedy: str = "mend the function or the message"
    wrong: str = ""


class Told(TypeError):
    """An error of ours, whose text says it all."""


class NoAnswer(Told):
    """A predicate returned what is always true."""

    def __init__(self, answer: Any) -> None:
        super().__init__(f"it returned a {type(answer).__name__}, which is always true: {answer!r}")
        self.answer = answer


def check_answer(answer: Any) -> bool:
    """Raise NoAnswer for what a predicate has returned if it is true whatever the message: a function, for example."""
    if _is_always_true(answer.__class__):
        dispose(answer)
        raise NoAnswer(answer)
    return True


@lru_cache(maxsize=1024)  # it is asked for each message that a predicate answers with more than True or False
def _is_always_true(kind: type) -> bool:
    """Whether values of a type are true and say nothing of a message.

    An object of the user's, or a match of a regular expression, is an answer: its function may also return None.
    """
    if issubclass(kind, _ITERATORS):
        return not hasattr(kind, "__bool__") and not hasattr(kind, "__len__")
    return issubclass(kind, _NO_ANSWERS)


def dispose(value: Any) -> None:
    """A coroutine that nobody will await is closed, or Python warns of it."""
    if inspect.iscoroutine(value):
        value.close()


def hint(pipeline: Pipeline, operator: ops.Operator, error: BaseException, users: bool) -> Hint:
    """What to tell of an error of an operator; `users` says that it was raised in the user's code."""
    if isinstance(error, NoAnswer):
        return Hint("True or False, or what is as good as one of them", _to_answer(error.answer))
    if isinstance(error, Unencodable):
        return _of_value(error.value, error.stream, error.serde)
    if isinstance(operator, ops.AsyncFlatMap) and isinstance(error, TimeoutError):
        return Hint("a result within the timeout", "look why the call takes so long, or pass a longer timeout=")
    if isinstance(operator, ops.Source) and isinstance(error, WrongKey):
        return Hint(f"a key of type {type_name(operator.key)}", "mend the key or key=")
    if isinstance(operator, ops.Source) and isinstance(error, ValueError) and not users:  # it was not decoded
        remedy = "mend the message or value=; of a file, say what its lines are, such as --input-format csv"
        return Hint(f"a value of type {type_name(operator.value)}", remedy)
    found = _encoding(error)
    if found is not None and found[0] == "key":
        return Hint("a key of the type that is declared", "mend the function of the key, or key_type=", "its key: ")
    if found is not None:
        return _of_value(found[1], *_destination(pipeline, operator))
    if isinstance(error, TypeError) and not users:
        return _of_result(operator, str(error))
    return Hint()


def _to_answer(answer: Any) -> str:
    if isinstance(answer, Awaitable):
        return "await it in an async_flat_map before"
    if isinstance(answer, _ITERATORS):
        return "say what of it counts, such as any(...) or all(...)"
    if isinstance(answer, _FUNCTIONS):
        return "call what was returned"
    return "return True or False"


class Unencodable(Told):
    """A value that a stream cannot hold, where the operator's own code does not show it."""

    def __init__(self, value: Any, stream: str, serde: str, error: Exception) -> None:
        super().__init__(f"{type(error).__name__}: {error}")
        self.value, self.stream, self.serde = value, stream, serde


def _of_value(value: Any, stream: str, serde: str) -> Hint:
    dispose(value)
    wrong = f"its value of type {type(value).__name__} cannot be encoded as {serde} for {stream}: "
    remedy = "return what that type can hold: a dataclass, Struct, TypedDict or builtin; or pass a Serde as value="
    if inspect.isawaitable(value):
        remedy = "nobody awaits it: call asynchronous functions with async_flat_map(fn, id=...)"
    elif inspect.isgenerator(value):
        remedy = "call a function that gives several values with flat_map"
    elif isinstance(value, _FUNCTIONS):
        remedy = "call the function, so that its result is the value"
    return Hint(f"a value that {serde} can hold", remedy, wrong)


def _of_result(operator: ops.Operator, said: str) -> Hint:
    """What a function has returned that the operator cannot go through, or wait for."""
    if isinstance(operator, ops.AsyncFlatMap) and "await" in said:
        return Hint("a function whose result can be awaited", "write it with async def")
    if isinstance(operator, ops.AsyncFlatMap | ops.FlatMap) and "not iterable" in said:
        return Hint("a function that returns several values, or none", "return a list: [value], or [] for none")
    return Hint()


def _encoding(error: BaseException) -> tuple[str, Any] | None:
    """Whether an error was raised as compiled code encoded a "key" or a value, to "encode" it; with the value."""
    call: tuple[re.Match[str] | None, dict[str, Any]] | None = None
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_filename.startswith(FILE_PREFIX):
            line, _, begin, end = list(code.co_positions())[trace.tb_lasti // 2]
            # Python may have been told to keep no columns.
            text = "" if line is None or begin is None else linecache.getline(code.co_filename, line)[begin:end]
            call = _ENCODES.match(text), trace.tb_frame.f_locals
        trace = trace.tb_next
    match, variables = call or (None, {})
    if match is None:
        return None
    return ("key", None) if match["does"] != "encode" else ("encode", variables.get(match["of"]))


def _destination(pipeline: Pipeline, operator: ops.Operator) -> tuple[str, str]:
    """Where an operator writes, and the name of the serde of its values."""
    told: Any = getattr(operator, "value", None)
    kind = flows(pipeline)[operator.id].value if told is None else told
    serde: Serde[Any] = untyped_serde() if kind is UNKNOWN else value_serde(kind)
    if isinstance(operator, ops.Border):
        return f"the stream {intermediate(pipeline.name, operator.id)}", serde.name
    if isinstance(operator, ops.PutTo):
        return f"the table {operator.table}", serde.name
    return f"the stream {getattr(operator, 'stream', operator.id)}", serde.name
