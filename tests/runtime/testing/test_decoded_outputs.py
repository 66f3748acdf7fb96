"""What the driver reads of a stream that operators write several types to."""

from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from fluvial.dsl import INT64, Pipeline, msgpack
from fluvial.planner import draw, plan
from fluvial.runtime.testing import PipelineDriver


@dataclass(frozen=True)
class Order:
    """What msgspec cannot tell from a refund."""

    item: str


@dataclass(frozen=True)
class Refund:
    """What msgspec cannot tell from an order."""

    item: str
    reason: str


class Opened(msgspec.Struct, frozen=True, tag=True):
    """What says its type."""

    at: int


class Closed(msgspec.Struct, frozen=True, tag=True):
    """What says its type."""

    at: int


def writing(*kinds: Any) -> Pipeline:
    """A pipeline with an input of each type, all written to one stream."""
    pipeline = Pipeline("p")
    for number, kind in enumerate(kinds):
        pipeline.stream(f"in-{number}", value=kind).send_to("out")
    return pipeline


def read(pipeline: Pipeline, *values: Any) -> list[Any]:
    """What is read of the stream when each input has one value."""
    with PipelineDriver(pipeline) as driver:
        for number, value in enumerate(values):
            driver.send(f"in-{number}", value)
        return [message.value for message in driver.read("out")]


def test_types_that_json_tells_apart_are_read_as_such() -> None:
    assert read(writing(int, list[int]), 3, [4]) == [3, [4]]
    assert read(writing(Opened, Closed), Opened(1), Closed(2)) == [Opened(1), Closed(2)]
    assert read(writing(Order, int), Order("tea"), 3) == [Order("tea"), 3]


def test_types_that_json_does_not_tell_apart_are_read_as_json() -> None:
    found = read(writing(Order, Refund), Order("tea"), Refund("tea", "cold"))
    assert found == [{"item": "tea"}, {"item": "tea", "reason": "cold"}]


def test_beside_text_all_is_text() -> None:
    assert read(writing(str, int), "tea", 3) == ["tea", "3"]


@pytest.mark.parametrize("kind", [bytes, INT64])
def test_beside_bytes_all_is_bytes(kind: Any) -> None:
    assert read(writing(int, kind), 3, 3 if kind is INT64 else b"3")[0] == b"3"


def test_serdes_of_one_name_and_type_are_one() -> None:
    assert read(writing(msgpack(int), msgpack(int)), 3, 4) == [3, 4]


def test_keys_of_several_types_are_read_as_bytes() -> None:
    pipeline: Any = Pipeline("p")
    for name, key in (("in-0", str), ("in-1", bytes)):
        pipeline.stream(name, key=key, value=int).send_to("out")
    with PipelineDriver(pipeline) as driver:
        driver.send("in-0", 1, key="ann")
        driver.send("in-1", 2, key=b"bob")
        assert [message.key for message in driver.read("out")] == [b"ann", b"bob"]


def test_the_plan_names_all_types_of_a_stream_once() -> None:
    made = plan(writing(Order, Refund, Order))
    assert made.stream("out").value == "Order | Refund"
    assert "Order | Refund" in draw(made, view="stages")
    assert plan(writing(Order)).stream("out").value == "Order"


def test_the_plan_names_keys_where_all_have_one() -> None:
    pipeline: Any = Pipeline("p")
    pipeline.stream("in-0", key=str, value=int).send_to("out")
    pipeline.stream("in-1", key=bytes, value=int).send_to("out")
    pipeline.stream("in-2", key=int, value=int).send_to("others")
    pipeline.stream("in-3", value=int).send_to("others")
    assert [plan(pipeline).stream(name).key for name in ("out", "others")] == ["str | bytes", None]
