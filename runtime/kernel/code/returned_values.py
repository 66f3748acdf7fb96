"""Errors that compiled code raises for results of users' functions."""

import inspect
from collections.abc import AsyncIterator, Awaitable, Iterator
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

from ....dsl.text import error_text

FUNCTIONS = (FunctionType, BuiltinFunctionType, MethodType, MethodDescriptorType, WrapperDescriptorType, partial, type)
ITERATORS = (Iterator, AsyncIterator)
_ALWAYS_TRUE = (*FUNCTIONS, Awaitable, NotImplementedType, EllipsisType)


class ReturnedValueError(TypeError):
    """An error whose text is complete: it is shown without the name of its class."""


class AlwaysTrueAnswer(ReturnedValueError):
    """A predicate returned a function, a coroutine or the like: a call or an `await` was forgotten."""

    def __init__(self, answer: Any) -> None:
        super().__init__(f"it returned a {type(answer).__name__}, which is always true: {answer!r}")
        self.answer = answer


def check_answer(answer: Any) -> bool:
    """Raise AlwaysTrueAnswer for an answer that is true for every message, such as a function."""
    if _is_always_true(answer.__class__):
        dispose(answer)
        raise AlwaysTrueAnswer(answer)
    return True


@lru_cache(maxsize=1024)  # called for each message whose answer is neither True nor False
def _is_always_true(type_: type) -> bool:
    """Whether all values of a type are true, so that they are no answer.

    An object of the user's class, or a match of a regular expression, is an answer: the function may also return None.
    """
    if issubclass(type_, ITERATORS):
        return not hasattr(type_, "__bool__") and not hasattr(type_, "__len__")
    return issubclass(type_, _ALWAYS_TRUE)


def dispose(value: Any) -> None:
    """Close a coroutine that will not be awaited, or Python warns of it."""
    if inspect.iscoroutine(value):
        value.close()


class UnencodableValue(ReturnedValueError):
    """A late message has a value that the stream of `late_to=` cannot hold."""

    def __init__(self, value: Any, stream: str, serde: str, error: Exception) -> None:
        super().__init__(error_text(error))
        self.value, self.stream, self.serde = value, stream, serde


class UnencodableIdentity(ReturnedValueError):
    """The function of `by=` returned a value that cannot be encoded as the declared type."""

    def __init__(self, answer: Any, serde: str) -> None:
        super().__init__(f"by returned what cannot be encoded as {serde}: {answer!r}")
        self.serde = serde
