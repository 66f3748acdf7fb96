"""Pipelines whose records of kept state were written by earlier versions: `records/` has them as they came."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from fluvial.dsl import (
    INT64,
    Context,
    KeyedProcessor,
    ListState,
    MapState,
    Message,
    Pipeline,
    Serde,
    ValueState,
    collect,
    msgpack,
    tumbling,
)
from fluvial.planner import plan
from fluvial.runtime.serdes import avro

MINUTE = timedelta(minutes=1)


class Colour(Enum):
    RED = 1
    BLUE = 2


class Pair(NamedTuple):
    first: int
    last: int = 0


class Add(msgspec.Struct, tag=True, tag_field="kind"):
    n: Annotated[int, Meta(ge=0)]


class Remove(msgspec.Struct, tag=True, tag_field="kind", omit_defaults=True):
    n: int = 1
    left: set[str] = set()


CHANGE: Any = Add | Remove


@dataclass
class Order:
    item: Annotated[str, Meta(title="what")]
    colour: Colour = Colour.RED
    pairs: list[Pair] = field(default_factory=list)


ROW = avro({"type": "record", "name": "Row", "fields": [{"name": "price", "type": "long"}]})
CENTS: Serde[int] = Serde("price:cents", int, lambda number: b"%d" % number, int)


SIDES: list[tuple[str, Any]] = [("orders", Order), ("cents", CENTS)]


class Keeps(KeyedProcessor[str, Order, str]):
    value = ValueState(Order, ttl=MINUTE)
    choice = ValueState(CHANGE)
    numbers = ListState(int)
    names = MapState(INT64, set[str])
    rows = ListState(ROW)

    def on_message(self, message: Message[Order], context: Context[str]) -> Iterable[str]:
        raise NotImplementedError


def both(left: Any, right: Any) -> str:
    return f"{left} {right}"


def pipeline_of(kind: str) -> Pipeline:
    """A pipeline with an operator that keeps state of each kind."""
    pipeline = Pipeline("p")
    if kind == "window":
        orders = pipeline.stream("orders", key=INT64, value=Order)
        orders.window(tumbling(MINUTE), collect(), id="it").send_to("out")
    elif kind == "join":
        orders, cents = (pipeline.stream(name, key=INT64, value=value) for name, value in SIDES)
        orders.join(cents, both, id="it", within=MINUTE).send_to("out")
    elif kind == "tables":
        rows, prices = (
            pipeline.table("rows", key=str, value=ROW),
            pipeline.table("prices", key=str, value=msgpack(Pair)),
        )
        rows.join(prices, both, id="it").changes().send_to("out")
    else:
        pipeline.stream("in", key=str, value=Order).process(Keeps(), id="it").send_to("out")
    return pipeline


KINDS = ("window", "join", "tables", "process")


def records_of(kind: str) -> dict[str, Any]:
    """The records of a pipeline's state, by operator."""
    return {store.operator: store.schema for store in plan(pipeline_of(kind)).stores}
