"""The columns of the streams of a plan."""

from fluvial.dsl import Pipeline, Serde, dead_letter
from fluvial.planner import Plan, plan
from fluvial.runtime.data_frames.columns import Column
from fluvial.runtime.data_frames.plan_columns import plan_columns


def found(made: Plan) -> dict[str, tuple[tuple[Column, ...], str]]:
    return {one.stream: (one.columns, one.why_none) for one in plan_columns(made)}


def to_number(text: str) -> int:
    return len(text)


def to_pair(text: str) -> tuple[str, int]:
    return text, len(text)


def test_sources_outputs_and_dead_letters_have_columns() -> None:
    pipeline = Pipeline("lengths", on_error=dead_letter())
    words = pipeline.stream("words", value=str)
    words.map(to_number).partition_by(to_number_key, id="by", key_type=str).send_to("lengths")
    assert found(plan(pipeline)) == {
        "words": ((Column("value", "string"),), ""),
        "lengths": ((Column("value", "bigint"),), ""),
        "lengths-dead-letters": ((Column("value", "binary"),), ""),
    }


def to_number_key(number: int) -> str:
    return str(number)


def test_what_has_none_says_why() -> None:
    pipeline = Pipeline("words")
    words = pipeline.stream("words", value=Serde("hex", str, str.encode, bytes.decode))
    words.map(lambda text: (text, 1)).send_to("unknown")
    words.map(to_pair).send_to("pairs")
    words.map(to_number).send_to("two")
    words.send_to("two", value=str)
    columns = found(plan(pipeline))
    assert columns["words"] == ((Column("value", "binary"),), "")
    assert columns["unknown"] == ((), "the type of the values is not known")
    assert columns["pairs"] == ((), "value: a tuple of several types")
    assert columns["two"][1].startswith("values of ")
