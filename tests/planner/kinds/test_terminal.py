"""Where messages leave, in a plan: which stream is written with which types."""

from typing import Any

from fluvial.dsl import Pipeline
from fluvial.planner import Plan, plan
from fluvial.planner.type_inference import typed_by


class Drain:
    def open(self) -> None:
        pass

    def write(self, messages: object) -> None:
        pass

    flush = close = open


def sent(**options: Any) -> tuple[Pipeline, Plan]:
    pipeline = Pipeline("p")
    pipeline.stream("words", key=str, value=str).send_to("out", **options)
    return pipeline, plan(pipeline)


def test_an_output_has_the_type_of_its_messages_unless_another_is_given() -> None:
    assert sent()[1].stream("out").value == "str"
    assert sent(value=str | None)[1].stream("out").value == "str | None"


def test_the_type_is_declared_where_it_is_given() -> None:
    (plain, _), (typed, _) = sent(), sent(value=str)
    assert [one.kind for one in typed_by(plain, plain.operators[-1])] == ["stream"]
    assert [one.kind for one in typed_by(typed, typed.operators[-1])] == ["send_to"]


def test_the_function_of_the_key_is_shown() -> None:
    assert (sent()[1].operators[-1].details, sent(key=len)[1].operators[-1].details) == ({}, {"key": "len"})


def test_a_sink_writes_no_stream_and_is_shown_by_its_class() -> None:
    pipeline = Pipeline("p")
    pipeline.stream("words", value=str).sink(Drain(), id="drain")
    operator = plan(pipeline).operator("drain")
    assert (operator.writes, operator.details, operator.value) == ((), {"sink": "Drain"}, "str")
