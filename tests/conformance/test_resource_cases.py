"""Conformance cases about clients: functions have them on every target, in the event loop in which they were opened."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Self

import pytest

from engines.conformance import Conformance, check, on_targets
from fluvial.dsl import Batch, Pipeline, Resource, count, resource, tumbling


class Prices:
    """A client that works in its own loop alone, while it is open."""

    _loop: asyncio.AbstractEventLoop | None = None

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._loop = None

    async def of(self, item: str) -> int:
        assert self._loop is asyncio.get_running_loop()
        await asyncio.sleep(0)
        assert self._loop is asyncio.get_running_loop()
        return 100 * len(item)


async def priced(item: str, prices: Prices) -> list[int]:
    return [await prices.of(item)]


async def price_of(item: str, prices: Prices) -> int:
    return await prices.of(item)


async def prices_of(items: Sequence[str], prices: Prices) -> Mapping[str, int]:
    return {item: await prices.of(item) for item in items}


def called() -> Pipeline:
    pipeline, prices = Pipeline("called"), resource(Prices)
    items = pipeline.stream("in", value=str)
    items.async_flat_map(priced, id="before", resource=prices).send_to("before", value=int)
    keyed = items.partition_by(lambda item: item, id="by-item", key_type=str)
    keyed.async_flat_map(priced, id="behind", resource=prices).send_to("behind", value=int)
    return pipeline


def behind_windows() -> Pipeline:
    pipeline = Pipeline("windows")
    keyed = pipeline.stream("in", key=str, value=str)
    panes = keyed.window(tumbling(timedelta(seconds=1)), count(), id="window")
    told = panes.map(lambda pane: pane.key * pane.value)
    told.async_flat_map(priced, id="priced", resource=resource(Prices)).send_to("out", value=int)
    return pipeline


def looked_up(**options: Any) -> Pipeline:
    pipeline = Pipeline("looked-up")
    prices: Resource[Prices] = resource(Prices)
    table = pipeline.remote_table("prices", resource=prices, **options)
    items = pipeline.stream("in", key=str, value=str)
    items.join(table, lambda item, price: f"{item} {price}", id="joined").send_to("out", value=str)
    return pipeline


ITEMS = [[(b"a", b"a", 1, ()), (b"bb", b"bb", 2, ())], [(b"a", b"a", 1001, ()), (b"ccc", b"ccc", 1002, ())]]
PRICED = (b"100", b"200", b"100", b"300")
TOLD = (b"a 100", b"bb 200", b"a 100", b"ccc 300")
CASES = [
    Conformance("called", called, {"in": ITEMS}, {"before": PRICED, "behind": PRICED}, {}),
    Conformance("windows", behind_windows, {"in": ITEMS}, {"out": PRICED}, {}),
    Conformance("rows", lambda: looked_up(read=price_of), {"in": ITEMS}, {"out": TOLD}, {}),
    Conformance("batches", lambda: looked_up(read=prices_of, batch=Batch(size=2)), {"in": ITEMS}, {"out": TOLD}, {}),
]


USUAL = ("batches",)


@pytest.mark.parametrize(("case", "target"), on_targets(CASES, USUAL))
def test_functions_have_their_clients(case: Conformance, target: str, request: pytest.FixtureRequest) -> None:
    check(case, target, request)
