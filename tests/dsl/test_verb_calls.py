"""Verbs that are called by a wrong name or with other arguments: what is an error of ours, and what stays Python's."""

import copy
import inspect
import pickle
from datetime import timedelta
from typing import Any

import pytest

import fluvial.dsl as dsl
from explained import assert_explains, error_of
from fluvial.dsl import KeyedStream, MessageStream, Pipeline, PipelineError
from fluvial.dsl import after as typed_after
from fluvial.dsl import session as typed_session
from fluvial.dsl import skip as typed_skip
from fluvial.dsl import tumbling as typed_tumbling
from fluvial.dsl.errors import NoSuchVerb
from fluvial.dsl.verb_calls import explained_object

HOUR = timedelta(hours=1)
language: Any = dsl
after: Any = typed_after
session: Any = typed_session
skip: Any = typed_skip
tumbling: Any = typed_tumbling
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
    (lambda: tumbling(), "tumbling got no size", "tumbling(size)", "pass size=..."),
    (lambda: session(timeout=HOUR), "session has no timeout=", "session(gap)", "leave out timeout="),
    (lambda: after(seconds=3), "after has no seconds=", "options are first=, last=", "leave out seconds="),
    (lambda: after(HOUR), "after got 1 argument by position", "options are first=, last=", "give options by name"),
    (lambda: skip(3), "skip got 1 argument by position", "skip()", "give options by name"),
    (lambda: language.Retry(5), "Retry got 1 argument by position", "Retry(); options are attempts=", "by name"),
    (lambda: language.Cache(5), "Cache got 1 argument by position", "Cache(); options are size=", "by name"),
    (lambda: language.Batch(timeout=HOUR), "Batch has no timeout=", "size=, delay=", "leave out timeout="),
    (lambda: language.Tag("a"), "Tag got no type", "Tag(name, type)", "pass type=..."),
    (lambda: language.MapState(int), "MapState got no type", "MapState(key, type)", "pass type=..."),
    (lambda: language.ListState(int, []), "ListState got 2 arguments by position", "ListState(type)", "by name"),
    (lambda: language.Pipeline(), "Pipeline got no name", "Pipeline(name)", "pass name=..."),
    (lambda: pipeline_table().join(id="j", haw="left"), "join has no haw=", "join(other, fn, id=...)", "write how="),
])  # fmt: skip
def test_other_arguments_than_a_verb_has_are_refused(call: Any, wrong: str, expected: str, remedy: str) -> None:
    assert_explains(error_of(call, PipelineError), wrong, call, expected, remedy)


class Broken(MessageStream[str]):
    def broken(self) -> None:
        raise TypeError("a fault of ours")


def test_an_error_within_a_verb_is_left_as_it_is() -> None:
    stream = anything()
    with pytest.raises(TypeError, match="a fault of ours"):
        Broken(stream._graph, stream.operator.id).broken()


def test_a_verb_looks_as_it_is_written() -> None:
    verb = keyed().window
    assert inspect.signature(verb) == inspect.signature(KeyedStream.window.__get__(keyed()))
    assert (verb.__name__, verb.__doc__) == ("window", KeyedStream.window.__doc__)


def test_handles_and_pipelines_are_copied() -> None:
    stream = anything()
    assert copy.copy(stream).operator.id == stream.operator.id
    assert copy.deepcopy(stream).operator.id == pickle.loads(pickle.dumps(stream)).operator.id


@pytest.mark.parametrize(
    ("name", "here"),
    [
        ("key_by", "partition_by"),
        ("groupBy", "partition_by"),
        ("to", "send_to"),
        ("foreach", "sink"),
        ("union", "merge"),
    ],
)
def test_a_verb_of_another_library_is_answered_with_the_one_of_this(name: str, here: str) -> None:
    place: Any = lambda: getattr(anything(), name)(len)  # noqa: E731
    assert_explains(error_of(place, NoSuchVerb), f"MessageStream has no {name!r}", place, "one of", f"write .{here}")


def test_an_object_answers_with_the_nearest_of_its_own_names() -> None:
    class Box:
        def __init__(self) -> None:
            self.content = "tea"

    box: Any = explained_object(Box)()
    assert_explains(
        error_of(lambda: box.contnet, NoSuchVerb), "Box has no 'contnet'", None, "one of content", "write .content"
    )
