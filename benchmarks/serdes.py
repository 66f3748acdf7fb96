"""What Avro costs beside JSON: how long it takes to encode and decode a record, as a ratio in one run.

`python -m benchmarks.serdes` prints a line for each kind of record. Both sides take turns, and the best of many turns
counts, so that a busy machine changes little.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from fluvial.dsl import Serde
from fluvial.dsl.serde import value_serde
from fluvial.runtime.serdes import avro


@dataclass(frozen=True, slots=True)
class Click:
    """A record as in the pages."""

    user: str
    url: str
    at: int
    status: int
    seconds: float


@dataclass
class Reading:
    """A record whose fields can be changed."""

    sensor: str
    at: int
    celsius: float
    valid: bool


@dataclass(frozen=True, slots=True)
class Line:
    """A part of an order."""

    sku: str
    count: int
    price: float


@dataclass(frozen=True, slots=True)
class Order:
    """A record with others in it, and a field that may be empty."""

    id: str
    customer: str
    at: int
    lines: list[Line]
    note: str | None


class Packed(msgspec.Struct):
    """The fields of a click in a Struct, for which JSON costs least of all."""

    user: str
    url: str
    at: int
    status: int
    seconds: float


def _record(name: str, **fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": field, "type": kind} for field, kind in fields.items()]}


_CLICK = _record("Click", user="string", url="string", at="long", status="int", seconds="double")
_LINE = _record("Line", sku="string", count="int", price="double")
_LINES = {"type": "array", "items": _LINE}
_FIELDS: tuple[str, str, int, int, float] = ("u123456", "/a/path/of/some/page", 1_700_000_000_000, 200, 0.25)

RECORDS: dict[str, tuple[Any, Any]] = {
    "frozen dataclass": (_CLICK, Click(*_FIELDS)),
    "dataclass": (
        _record("Reading", sensor="string", at="long", celsius="double", valid="boolean"),
        Reading("hall-12", 1_700_000_000_000, 21.5, valid=True),
    ),
    "records in a record": (
        _record("Order", id="string", customer="string", at="long", lines=_LINES, note=["null", "string"]),
        Order("o-1", "c-17", 1_700_000_000_000, [Line(f"sku-{number}", number, 9.5) for number in range(3)], None),
    ),
    "Struct": (_CLICK, Packed(*_FIELDS)),
}
"""Schemas, each with a value."""


@dataclass(frozen=True, slots=True)
class Cost:
    """How long a record takes, there and back, in ns."""

    record: str
    avro: float
    json: float

    @property
    def ratio(self) -> float:
        """How many times as long Avro takes."""
        return self.avro / self.json


def measure(turns: int = 200, calls: int = 300) -> list[Cost]:
    """The cost of each record: of so many turns of so many calls the best."""
    return [_cost(name, schema, value, turns, calls) for name, (schema, value) in RECORDS.items()]


def _cost(name: str, schema: Any, value: Any, turns: int, calls: int) -> Cost:
    kind: Any = type(value)
    sides: list[Callable[[], Any]] = []
    serdes: tuple[Serde[Any], Serde[Any]] = (avro(schema, type=kind), value_serde(kind))
    for serde in serdes:
        data = serde.encode(value)
        assert serde.decode(data) == value
        sides += [_encoding(serde, value), _decoding(serde, data)]
    best = [float("inf")] * len(sides)
    for _ in range(turns):
        for place, side in enumerate(sides):
            start = time.perf_counter_ns()
            for _ in range(calls):
                side()
            best[place] = min(best[place], (time.perf_counter_ns() - start) / calls)
    return Cost(name, best[0] + best[1], best[2] + best[3])


def _encoding(serde: Serde[Any], value: Any) -> Callable[[], bytes]:
    encode = serde.encode
    return lambda: encode(value)


def _decoding(serde: Serde[Any], data: bytes) -> Callable[[], Any]:
    decode = serde.decode
    return lambda: decode(data)


if __name__ == "__main__":
    for cost in measure():
        print(f"{cost.record:20} Avro {cost.avro:6,.0f} ns, JSON {cost.json:6,.0f} ns: {cost.ratio:.2f} times")
