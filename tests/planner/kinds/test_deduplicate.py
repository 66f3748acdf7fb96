"""Deduplication in a plan: what passes stays as it is, and what is kept has the meaning of its key and `by`."""

from datetime import timedelta
from typing import Any

from fluvial.dsl import Pipeline
from fluvial.planner import Plan, plan

HOUR = timedelta(hours=1)


def size(word: str) -> int:
    return len(word)


def made(**options: Any) -> Plan:
    pipeline = Pipeline("p")
    words = pipeline.stream("words", key=str, value=str)
    words.deduplicate(options.pop("within", HOUR), id="once", **options).send_to("out")
    return plan(pipeline)


def test_types_stay_and_options_are_shown() -> None:
    operator = made(by=size).operator("once")
    assert (operator.key, operator.value) == ("str", "str")
    assert operator.details == {"within": "1 h", "by": "size"}
    assert made().operator("once").details == {"within": "1 h"}


def test_what_is_kept_are_times_whose_meaning_is_that_of_key_and_by() -> None:
    (store,), (plain,) = made(by=size).stores, made().stores
    assert (store.value, plain.schema.facts["by"], store.schema.facts["by"]) == ("times", "nothing", "int")
    assert store.schema.facts["key"] == plain.schema.facts["key"] == "str"


def test_within_may_change() -> None:
    assert made().stores == made(within=2 * HOUR).stores
