"""Errors that compiled code raises for what a user's function has returned."""

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

FUNCTIONS = (FunctionType, BuiltinFunctionType, MethodType, MethodDescriptorType, WrapperDescriptorType, partial, type)
ITERATORS = (Iterator, AsyncIterator)
_ALWAYS_TRUE = (*FUNCTIONS, Awaitable, NotImplementedType, EllipsisType)


class ReturnedValueError(TypeError):
    """An error of ours, whose text says it all."""


class AlwaysTrueAnswer(ReturnedValueError):
    """A predicate returned what is always true."""

    def __init__(self, answer: Any) -> None:
        super().__init__(f"it returned a {type(answer).__name__}, which is always true: {answer!r}")
        self.answer = answer


def check_answer(answer: Any) -> bool:
    """Raise AlwaysTrueAnswer for an answer that is true for every message, such as a function."""
    if _is_always_true(answer.__class__):
        dispose(answer)
        raise AlwaysTrueAnswer(answer)
    return True


@lru_cache(maxsize=1024)  # it is asked for each message that a predicate answers with more than True or False
def _is_always_true(kind: type) -> bool:
    """Whether values of a type are true and say nothing of a message.

    An object of the user's, or a match of a regular expression, is an answer: its function may also return None.
    """
    if issubclass(kind, ITERATORS):
        return not hasattr(kind, "__bool__") and not hasattr(kind, "__len__")
    return issubclass(kind, _ALWAYS_TRUE)


def dispose(value: Any) -> None:
    """A coroutine that nobody will await is closed, or Python warns of it."""
    if inspect.iscoroutine(value):
        value.close()


class UnencodableValue(ReturnedValueError):
    """A value that a stream cannot hold, where the operator's own code does not show it."""

    def __init__(self, value: Any, stream: str, serde: str, error: Exception) -> None:
        super().__init__(f"{type(error).__name__}: {error}")
        self.value, self.stream, self.serde = value, stream, serde


class UnencodableIdentity(ReturnedValueError):
    """What a function has returned to tell messages apart by, and cannot be encoded as the type that is declared."""

    def __init__(self, answer: Any, serde: str) -> None:
        super().__init__(f"by returned what cannot be encoded as {serde}: {answer!r}")
        self.serde = serde
