"""Pipelines: what a stream is read with, what a pipeline shows of its operators, and what names it refuses."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from explained import assert_explains, error_of
from fluvial.dsl import KeyedStream, MessageStream, Pipeline, PipelineError, dead_letter, fail, skip
from fluvial.dsl import operators as ops


class Drain:
    def open(self) -> None:
        pass

    def write(self, messages: object) -> None:
        pass

    flush = close = open


async def look(word: str) -> list[str]:
    return [word]


def everything() -> Pipeline:
    """A pipeline with a source, a table, a call, a border and a sink."""
    pipeline = Pipeline("p", on_error=skip())
    table = pipeline.table("names", key=str, value=str)
    words = pipeline.stream("words", value=str).async_flat_map(look, id="look")
    keyed = words.partition_by(str, id="by", key_type=str)
    keyed.join(table, lambda word, name: f"{word} {name}", id="join").sink(Drain(), id="drain")
    return pipeline


def source(**options: Any) -> ops.Source:
    pipeline = Pipeline("p")
    pipeline.stream("words", value=str, **options)
    return pipeline.sources[0]


def test_a_stream_is_keyed_if_its_key_is_given() -> None:
    pipeline = Pipeline("p")
    assert type(pipeline.stream("plain", value=str)) is MessageStream
    assert type(pipeline.stream("keyed", value=str, key=str)) is KeyedStream


def test_a_source_holds_its_options_in_ms() -> None:
    record = source(timestamp=len, out_of_order=timedelta(seconds=2), idle_after=timedelta(seconds=3), bootstrap=True)
    assert (record.timestamp, record.out_of_order, record.idle_after, record.bootstrap) == (len, 2000, 3000, True)


def test_a_source_that_is_told_nothing_waits_for_each_partition_and_takes_no_message_late() -> None:
    record = source()
    assert (record.timestamp, record.out_of_order, record.idle_after, record.bootstrap) == (None, 0, None, False)


def test_a_pipeline_fails_at_a_message_that_fails_unless_told_otherwise() -> None:
    assert (Pipeline("p").on_error, everything().on_error) == (fail(), skip())


def test_operators_are_shown_as_they_were_written_and_by_role() -> None:
    pipeline = everything()
    ids = [operator.id for operator in pipeline.operators]
    assert ids == ["stream-1", "names", "stream-3", "look", "by", "join", "drain"]
    groups = (pipeline.sources, pipeline.borders, pipeline.sinks)
    assert [[operator.id for operator in group] for group in groups] == [["stream-1", "stream-3"], ["by"], ["drain"]]
    assert [call.fn for call in pipeline.calls] == [look]
    assert repr(pipeline) == "Pipeline('p', 7 operators)"


def test_an_operator_is_found_by_its_id() -> None:
    pipeline = everything()
    assert pipeline.operator("look") is pipeline.operators[3]
    raised = error_of(lambda: pipeline.operator("nothing"), PipelineError)
    assert_explains(
        raised, "pipeline 'p' has no operator 'nothing'", None, "one of stream-1, names,", "correct the name"
    )
    raised = error_of(lambda: pipeline.operator("lok"), PipelineError)
    assert_explains(raised, "pipeline 'p' has no operator 'lok'", None, "look, by, join, drain", "write 'look'")


def test_the_graph_follows_the_messages() -> None:
    pipeline = everything()
    assert set(pipeline.graph.edges()) == {
        ("stream-1", "names"),
        ("stream-3", "look"),
        ("look", "by"),
        ("by", "join"),
        ("names", "join"),
        ("join", "drain"),
    }
    assert pipeline.graph.nodes["look"]["operator"] is pipeline.operator("look")


def read_twice() -> object:
    pipeline = Pipeline("p")
    pipeline.stream("words", value=str)
    return pipeline.stream("words", value=str)


def wrong_policy() -> object:
    policy: Any = "skip"
    return Pipeline("p", on_error=policy)


def names_of_errors() -> object:
    names: Any = ["ValueError"]
    return skip(on=names)


REFUSED: list[tuple[Callable[[], object], str, str, str]] = [
    (lambda: Pipeline("two words"), "pipeline name 'two words'", "letters, digits, '_' and '-'", ""),
    (wrong_policy, "on_error='skip'", "fail(), skip() or dead_letter()", ""),
    (names_of_errors, "skip: on=['ValueError']", "a tuple of classes of errors", "write on=(OSError,)"),
    (lambda: dead_letter(on=()), "dead_letter: on=()", "a tuple of classes of errors", "write on=(OSError,)"),
    (read_twice, "stream 'words' is read twice", "one handle per stream or table", "use it in both places"),
    (lambda: source(out_of_order=timedelta(-1)), "stream 'words': out_of_order", "a timedelta, not negative", ""),
    (lambda: source(idle_after=timedelta(0)), "stream 'words': idle_after", "at least 1 ms", ""),
    (lambda: source(bootstrap="yes"), "stream 'words': bootstrap", "True or False", ""),
]


@pytest.mark.parametrize(("call", "wrong", "expected", "remedy"), REFUSED, ids=[case[1] for case in REFUSED])
def test_what_makes_no_source_is_refused(call: Callable[[], object], wrong: str, expected: str, remedy: str) -> None:
    assert_explains(error_of(call, PipelineError), wrong, None, expected, remedy)
