"""Limits as they are written: what is refused, and what a pipeline knows of its limits."""

from datetime import timedelta
from typing import Any

import pytest

from fluvial.dsl import Breaker, Limit, Pipeline, PipelineError
from fluvial.dsl.limit import checked_limit
from fluvial.dsl.operators.calls import limits_of


def _tokens(_value: Any, _results: Any = None) -> float:
    return 1.0


async def ask(value: str) -> list[str]:
    return [value]


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ({}, "limits nothing"),
        ({"calls": 0}, "calls=0"),
        ({"calls": 0.5}, r"calls=0.5\n(.|\n)*a number of calls, 1 or more"),
        ({"calls": float("inf")}, "calls=inf"),
        ({"calls": 1, "per": timedelta(0)}, "per is"),
        ({"tokens": 100}, "tokens= alone"),
        ({"calls": 1, "estimate": _tokens}, "estimate= alone"),
        ({"calls": 1, "used": _tokens}, "used= alone"),
        ({"calls": 1, "cost": _tokens}, "cost= alone"),
        ({"budget": -1}, "budget=-1"),
        ({"budget": 1, "cost": ask}, "cost got the asynchronous function"),
        ({"calls": 1, "when_exhausted": "stop"}, "when_exhausted='stop'"),
        ({"calls": 1, "when_exhausted": "error"}, "when_exhausted='error' without budget="),
        ({"budget": 1, "per": timedelta(days=1)}, r"per=.* without calls= and tokens=(.|\n)*for the whole run"),
    ],
)
def test_what_makes_no_limit_is_refused(given: dict[str, Any], wrong: str) -> None:
    with pytest.raises(PipelineError, match=wrong):
        Limit("service", **given)


def test_a_name_that_is_none_is_refused_as_that_of_a_limit_or_a_breaker() -> None:
    with pytest.raises(PipelineError, match="limit name 5"):
        Limit(5, calls=1)  # type: ignore[arg-type]
    with pytest.raises(PipelineError, match="breaker name 'a b'"):
        Breaker("a b")


def test_a_pipeline_knows_each_limit_once() -> None:
    pipeline, limit = Pipeline("limited"), Limit("service", calls=10)
    words = pipeline.stream("words", value=str)
    words.async_flat_map(ask, id="one", limit=limit).send_to("ones")
    words.async_flat_map(ask, id="two", limit=limit).send_to("twos")
    words.async_flat_map(ask, id="three").send_to("threes")
    assert limits_of(pipeline.calls) == (limit,)
    with pytest.raises(PipelineError, match="two limits of pipeline 'limited' are named 'service'"):
        words.async_flat_map(ask, id="four", limit=Limit("service", calls=11))


def test_only_a_limit_is_one() -> None:
    assert checked_limit("async_flat_map 'one'", None) is None
    with pytest.raises(PipelineError, match=r"async_flat_map 'one': limit=10\n(.|\n)*a Limit"):
        checked_limit("async_flat_map 'one'", 10)
