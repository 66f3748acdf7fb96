"""Verbs that are called by a wrong name or with other arguments: what is an error of ours, and what stays Python's."""

import copy
import inspect
import pickle
from typing import Any

import pytest

from explained import assert_explains, error_of
from fluvial.dsl import KeyedStream, MessageStream, Pipeline, PipelineError
from fluvial.dsl.errors import NoSuchVerb

anything: Any = lambda: Pipeline("p").stream("words", value=str)  # noqa: E731
keyed: Any = lambda: Pipeline("p").stream("words", key=str, value=str)  # noqa: E731


def test_the_nearest_verb_is_named() -> None:
    place: Any = lambda: keyed().fitler(len)  # noqa: E731
    assert_explains(error_of(place, NoSuchVerb), "KeyedStream has no 'fitler'", place, "one of", "write .filter")


def test_a_verb_that_is_not_there_is_absent() -> None:
    assert not hasattr(anything(), "shape")
    assert isinstance(error_of(lambda: anything().shape, NoSuchVerb), AttributeError)


@pytest.mark.parametrize("name", ["_repr_html_", "__deepcopy__", "__wrapped__"])
@pytest.mark.parametrize("make", [anything, keyed, lambda: Pipeline("p"), lambda: pipeline_table()])
def test_what_python_asks_for_is_an_error_of_its_own(make: Any, name: str) -> None:
    with pytest.raises(AttributeError, match=f"no attribute '{name}'") as raised:
        getattr(make(), name)
    assert not isinstance(raised.value, PipelineError)


def pipeline_table() -> Any:
    return Pipeline("p").table("names", key=str, value=str)


@pytest.mark.parametrize(("call", "wrong", "expected", "remedy"), [
    (lambda: anything().map(), "map got no fn", "map(fn)", "pass fn=..."),
    (lambda: anything().map(len, "m"), "map got 2 arguments by position", "map(fn)", "leave out"),
    (lambda: anything().map(len, fn=len), "map got an argument twice", "map(fn)", "leave out one of them"),
    (lambda: anything().partitionBy(len), "partition_by got no id", "options are key_type=, value=", "pass id=..."),
    (lambda: anything().broadcast(x=1, id="b"), "broadcast has no x=", "broadcast(id=...)", "leave out x="),
    (lambda: keyed().window(id="w"), "window got no assigner and no aggregate", "window(", "assigner=... and agg"),
    (lambda: pipeline_table().join(id="j", haw="left"), "join has no haw=", "join(other, fn, id=...)", "write how="),
])  # fmt: skip
def test_other_arguments_than_a_verb_has_are_refused(call: Any, wrong: str, expected: str, remedy: str) -> None:
    assert_explains(error_of(call, PipelineError), wrong, call, expected, remedy)


def test_an_error_within_a_verb_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: Any) -> None:
        raise TypeError("a fault of ours")

    monkeypatch.setattr(MessageStream, "broken", fails, raising=False)
    with pytest.raises(TypeError, match="a fault of ours"):
        anything().broken()


def test_a_verb_looks_as_it_is_written() -> None:
    verb = keyed().window
    assert inspect.signature(verb) == inspect.signature(KeyedStream.window.__get__(keyed()))
    assert (verb.__name__, verb.__doc__) == ("window", KeyedStream.window.__doc__)


def test_handles_and_pipelines_are_copied() -> None:
    stream = anything()
    assert copy.copy(stream).operator.id == stream.operator.id
    assert copy.deepcopy(stream).operator.id == pickle.loads(pickle.dumps(stream)).operator.id
