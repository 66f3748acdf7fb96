"""Pipelines that read and write remote tables: the local engine's tasks, and Spark's levels without Spark."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest

from engines.spark_in_process import queries
from engines.targets import write
from explained import assert_explains
from fluvial.dsl import Batch, Cache, MessageError, Pipeline, PipelineError, Retry, dead_letter
from fluvial.dsl.message import Record
from fluvial.planner import Settings, plan
from fluvial.runtime import run
from fluvial.runtime.systems import MemorySystem
from fluvial.runtime.systems.contract import RecordBatch as Records
from fluvial.runtime.testing import PipelineDriver

NAMES = {"ann": "Ann Lee", "bob": "Bob Ray"}


async def fetch(user: str) -> str | None:
    await asyncio.sleep(0)
    return NAMES.get(user)


async def fetch_many(users: Sequence[str]) -> Mapping[str, str]:
    await asyncio.sleep(0)
    return {user: NAMES[user] for user in users if user in NAMES}


def named(action: str, name: str | None) -> str:
    return f"{name or 'somebody'}: {action}"


def joined(how: Any = "inner", **options: Any) -> Pipeline:
    pipeline = Pipeline("named", on_error=dead_letter())
    given: dict[str, Any] = {"read": fetch, **options}
    users = pipeline.remote_table("users", **given)
    clicks = pipeline.stream("clicks", key=str, value=str)
    clicks.join(users, named, id="named", how=how).send_to("named")
    return pipeline


CLICKS = [("ann", "in"), ("cat", "in"), ("bob", "in"), (None, "in"), ("ann", "out")]
WITH_ROW = [("ann", "Ann Lee: in"), ("bob", "Bob Ray: in"), ("ann", "Ann Lee: out")]
WITHOUT_ROW = [("cat", "somebody: in"), (None, "somebody: in")]


@pytest.mark.parametrize("options", [{}, {"cache": Cache()}, {"read": fetch_many, "batch": Batch(size=2)}])
@pytest.mark.parametrize(("how", "expected"), [("inner", WITH_ROW), ("left", [*WITH_ROW, *WITHOUT_ROW])])
def test_a_stream_is_joined_with_what_is_read(how: str, expected: list[Any], options: dict[str, Any]) -> None:
    with PipelineDriver(joined(how, **options), start=1000) as driver:
        for key, action in CLICKS:
            driver.send("clicks", action, key=key, timestamp=7, headers=(("h", b"1"),))
        driver.end()
        found = driver.read("named")
    assert Counter((message.key, message.value) for message in found) == Counter(expected)
    # Results of one key keep their order.
    assert [message.value for message in found if message.key == "ann"] == ["Ann Lee: in", "Ann Lee: out"]
    assert {(message.timestamp, message.headers) for message in found} == {(7, (("h", b"1"),))}


@pytest.mark.parametrize("options", [{}, {"read": fetch_many, "batch": Batch(size=2, delay=timedelta(milliseconds=1))}])
def test_the_levels_of_spark_do_the_same(options: dict[str, Any]) -> None:
    records: list[Record] = [(None if key is None else key.encode(), action.encode(), 7, ()) for key, action in CLICKS]
    (query,) = queries(plan(joined("left", **options)))
    query.batch([Records("clicks", 0, range(len(records)), records)])
    query.batch([], end=True)
    found = {(message.key, message.value) for message in query.written["named"]}
    assert found == {
        (None if key is None else key.encode(), value.encode()) for key, value in [*WITH_ROW, *WITHOUT_ROW]
    }


def test_a_lookup_that_fails_in_the_end_is_the_failure_of_its_message() -> None:
    async def refuse(user: str) -> str | None:
        raise OSError(f"no {user}")

    pipeline = joined(read=refuse, retry=Retry(attempts=2, delay=timedelta(seconds=1)))
    with PipelineDriver(pipeline) as driver:
        driver.send("clicks", "in", key="ann")
        driver.advance(timedelta(seconds=2))
        (letter,) = driver.dead_letters
    assert dict(letter.headers)["fluvial-error"] == b"OSError: no ann"
    assert dict(letter.headers)["fluvial-operator"] == b"named"


Cart = dict[str, list[str]]


async def one_cart(_: str) -> Cart:
    return {"things": []}


async def carts(users: Sequence[str]) -> Mapping[str, Cart]:
    return {user: {"things": []} for user in users}


async def forget(user: str, cart: Cart | None) -> None:
    """Keep nothing."""


def put_in(thing: str, cart: Cart | None) -> list[str]:
    """Changes the row."""
    assert cart is not None
    cart["things"].append(thing)
    return cart["things"]


def shopping(**options: Any) -> Pipeline:
    pipeline = Pipeline("shopping")
    baskets = pipeline.remote_table("carts", **options)
    pipeline.stream("things", key=str, value=str).join(baskets, put_in, id="put").send_to("carts-now")
    if "write" in options:
        pipeline.stream("filled", key=str, value=Cart).send_to(baskets)
    return pipeline


SHARING = [
    {"read": one_cart, "cache": Cache()},
    {"read": one_cart, "write": forget, "cache": Cache()},
    {"read": carts, "batch": Batch(size=3, delay=timedelta(milliseconds=1))},
    {"read": carts, "batch": Batch(size=3, delay=timedelta(milliseconds=1)), "cache": Cache()},
]
THINGS: list[Record] = [(b"ann", thing, 0, ()) for thing in (b"tea", b"milk", b"jam", b"salt")]


@pytest.mark.parametrize("options", SHARING)
def test_a_row_is_the_own_of_the_function_that_changes_it(options: dict[str, Any]) -> None:
    with PipelineDriver(shopping(**options)) as driver:
        if "write" in options:
            driver.send("filled", {"things": []}, key="ann")
            driver.advance(timedelta(milliseconds=1))
        for key, thing, _, _ in THINGS:
            driver.send("things", (thing or b"").decode(), key=(key or b"").decode())
            driver.advance(timedelta(0))
        driver.end()
        assert [message.value for message in driver.read("carts-now")] == [["tea"], ["milk"], ["jam"], ["salt"]]


@pytest.mark.parametrize("options", [options for options in SHARING if "write" not in options])
def test_a_row_is_the_own_of_its_function_on_spark_too(options: dict[str, Any]) -> None:
    (query,) = queries(plan(shopping(**options)))
    query.batch([Records("things", 0, range(2), THINGS[:2])])
    query.batch([Records("things", 0, range(2, 4), THINGS[2:])], end=True)
    values = [message.value for message in query.written["carts-now"]]
    assert values == [b'["tea"]', b'["milk"]', b'["jam"]', b'["salt"]']


class DriversRow(dict[str, list[str]]):
    """A row that cannot be copied, as drivers of databases have them."""

    def __deepcopy__(self, _: object) -> "DriversRow":
        raise TypeError("cannot be copied")


def test_a_row_that_cannot_be_copied_is_shared() -> None:
    async def read(_: str) -> DriversRow:
        return DriversRow(things=[])

    with PipelineDriver(shopping(read=read, cache=Cache())) as driver:
        for thing in ("tea", "milk"):
            driver.send("things", thing, key="ann")
            driver.advance(timedelta(0))
        assert [message.value for message in driver.read("carts-now")] == [["tea"], ["tea", "milk"]]


class Kept:
    """Rows that a pipeline writes."""

    def __init__(self) -> None:
        self.rows: dict[str, int] = {}

    async def read(self, key: str) -> int | None:
        return self.rows.get(key)

    async def write(self, key: str, row: int | None) -> None:
        await asyncio.sleep(0.001 * len(self.rows))
        if row is None:
            self.rows.pop(key, None)
        else:
            self.rows[key] = row


def filled(kept: Kept, **options: Any) -> Pipeline:
    pipeline = Pipeline("filled", **options)
    totals = pipeline.remote_table("totals", read=kept.read, write=kept.write)
    pipeline.stream("in", key=str, value=int).send_to(totals)
    return pipeline


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_a_stream_is_written_in_the_order_of_each_key(guarantee: Any) -> None:
    kept, system = Kept(), MemorySystem()
    records = [(key, value, 0, ()) for value in (b"1", b"2", b"3") for key in (b"a", b"b", b"c")]
    write(system, {"in": [[*records, (b"b", None, 0, ())]]})
    report = run(filled(kept), system=system, until="end", settings=Settings(guarantee=guarantee))
    assert kept.rows == {"a": 3, "c": 3}
    assert report.read == {"in": 10}


def test_a_message_lands_once_it_is_written() -> None:
    kept = Kept()
    with PipelineDriver(filled(kept)) as driver:
        kept.rows["z"] = 0
        driver.send("in", 1, key="a")
        driver.restart()  # before it was written
        assert "a" not in kept.rows
        driver.end()
    assert kept.rows == {"z": 0, "a": 1}


def test_a_message_without_key_cannot_be_written() -> None:
    with PipelineDriver(filled(Kept())) as driver, pytest.raises(MessageError, match="a message without key cannot"):
        driver.send("in", 1)


def test_tables_held_wrong_are_explained() -> None:
    pipeline = Pipeline("wrong")
    users = pipeline.remote_table("users", read=fetch)
    clicks = pipeline.stream("clicks", key=str, value=str)
    for wrong, expected, call in (
        ("join 'j' with a table has within=", "the row that the table has", lambda: _join(clicks, users, within=1)),
        ("join 'j' with a table: how=\"outer\"", '"inner" or "left"', lambda: _join(clicks, users, how="outer")),
        ("send_to RemoteTable('users'), which has no write=", "can be written", lambda: clicks.send_to(users)),
        ("send_to RemoteTable('users') of a stream without", "a keyed stream", lambda: _unkeyed(pipeline, users)),
        ("remote_table 'r': max_in_flight=0", "1 or more", lambda: _remote(pipeline, max_in_flight=0)),
        ("remote_table 'r': reads_per_second=-1", "above 0", lambda: _remote(pipeline, reads_per_second=-1)),
        ("remote_table 'r': cache=5", "a Cache", lambda: _remote(pipeline, cache=5)),
        ("remote_table 'r': batch=5", "a Batch", lambda: _remote(pipeline, batch=5)),
        ("remote_table 'r': retry=5", "a Retry", lambda: _remote(pipeline, retry=5)),
        ("Batch: size=0", "1 or more", lambda: Batch(size=0)),
        ("Cache: size=0", "1 or more", lambda: Cache(size=0)),
    ):
        with pytest.raises(PipelineError) as raised:
            call()
        assert_explains(raised.value, wrong, None, expected)


def _join(clicks: Any, users: Any, **options: Any) -> None:
    clicks.join(users, named, id="j", **options)


def _remote(pipeline: Pipeline, **options: Any) -> None:
    pipeline.remote_table("r", read=fetch, **options)


def _unkeyed(pipeline: Pipeline, users: Any) -> None:
    pipeline.stream("plain", value=str).send_to(users)


def test_a_plan_tells_what_is_asked_of_a_table() -> None:
    made = plan(joined(read=fetch_many, batch=Batch(size=2), cache=Cache(size=7)))
    told = made.operator("named").details
    assert told == {
        "function": "named",
        "how": "inner",
        "table": "users",
        "max_in_flight": "100",
        "timeout": "1 min",
        "attempts": "3",
        "batch": "2 keys, 10 ms",
        "cache": "7 rows",
    }
    assert made.operator("named").value == "str"
