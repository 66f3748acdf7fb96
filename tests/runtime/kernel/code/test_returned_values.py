"""Results of users' functions that cannot be meant: a predicate's answer that is always true."""

import re
from functools import partial
from typing import Any

import pytest

from fluvial.dsl import Message
from fluvial.runtime.kernel.code.returned_values import (
    AlwaysTrueAnswer,
    UnencodableIdentity,
    UnencodableValue,
    check_answer,
)


class Falsy:
    """An iterator that says itself whether it is true."""

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> int:
        raise StopIteration

    def __bool__(self) -> bool:
        return False


async def answer() -> bool:
    return True


@pytest.mark.parametrize("value", [1, "a", [0], re.match("a", "a"), Message(None, 1, 0), Falsy()])
def test_what_may_be_false_another_time_is_an_answer(value: object) -> None:
    assert check_answer(value)


@pytest.mark.parametrize("value", [str.isalpha, len, lambda: 1, partial(len, ""), int, iter(()), ..., NotImplemented])
def test_what_is_always_true_is_none(value: object) -> None:
    with pytest.raises(AlwaysTrueAnswer, match="which is always true") as raised:
        check_answer(value)
    assert raised.value.answer is value


def test_a_coroutine_is_closed_before_it_is_refused() -> None:
    coroutine = answer()
    with pytest.raises(AlwaysTrueAnswer, match="it returned a coroutine"):
        check_answer(coroutine)
    with pytest.raises(RuntimeError, match="cannot reuse"):
        coroutine.send(None)


def test_a_value_that_cannot_be_encoded_says_why() -> None:
    assert str(UnencodableValue("x", "late", "int", ValueError("no int"))) == "ValueError: no int"
    assert str(UnencodableIdentity([1], "str")) == "by returned what cannot be encoded as str: [1]"
