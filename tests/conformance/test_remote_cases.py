"""Conformance cases about remote tables: caches, batches, keys. Samza's `get_all` is several lookups at once here."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest

from engines.conformance import Conformance, Gap, check, events, on_targets
from fluvial.dsl import Adaptive, Batch, Breaker, Cache, MessageError, Pipeline, PipelineError, Retry, skip
from fluvial.runtime import call_key, call_keys
from fluvial.runtime.kernel.operators.remote_tables import RemoteTableClient
from fluvial.runtime.testing import PipelineDriver
from fluvial.runtime.testing.virtual_clock import VirtualLoop
from oracle.dispatcher import OracleFailure


class Table:
    """Rows, and the keys that were asked for, by call. With `away` every call fails."""

    def __init__(self, rows: dict[str, str]) -> None:
        self.rows = rows
        self.calls: list[list[str]] = []
        self.away = False

    async def read(self, keys: Sequence[str]) -> Mapping[str, str]:
        self.calls.append([*keys])
        await asyncio.sleep(1)
        if self.away:
            raise OSError("away")
        return {key: self.rows[key] for key in keys if key in self.rows}

    async def write(self, rows: Mapping[str, str | None]) -> None:
        self.calls.append([*rows])
        await asyncio.sleep(1)
        for key, row in rows.items():
            if row is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = row


def remote(table: Table, size: int, delay: timedelta = timedelta(0), rows: int = 100) -> RemoteTableClient:
    retry, batch = Retry(attempts=1), Batch(size=size, delay=delay)
    options: dict[str, Any] = {"read": table.read, "write": table.write, "retry": retry, "batch": batch}
    return RemoteTableClient(Pipeline("p").remote_table("table", cache=Cache(size=rows), **options))


def done(work: Callable[[], Awaitable[None]]) -> None:
    """Run to the end, on virtual time."""
    loop = VirtualLoop()

    async def worked() -> None:
        task = asyncio.ensure_future(work())
        await loop.quiet()
        while not task.done():
            assert loop.jump()
            await loop.quiet()
        task.result()

    loop.run_until_complete(worked())
    loop.close()


async def all_of(table: RemoteTableClient, *keys: str) -> list[Any]:
    return [*await asyncio.gather(*map(table.read, keys))]


class Profiles:
    """A table whose rows are changed, not made, if there are no `defaults`: Samza's updates, as a user writes them."""

    def __init__(self, *, defaults: bool, failing: int = 0) -> None:
        self.rows: dict[str, int] = {}
        self.defaults = defaults
        self.failing = failing
        self.updates = 0

    async def read(self, key: str) -> int | None:
        return self.rows.get(key)

    async def write(self, key: str, change: int | None) -> None:
        self.updates += 1
        if self.updates == self.failing:
            raise OSError("the update has failed")
        if key not in self.rows:
            if not self.defaults:
                raise LookupError(f"no record of {key}")
            self.rows[key] = 0
        self.rows[key] += change or 0

    def run(self) -> None:
        pipeline = Pipeline("updates")
        table = pipeline.remote_table("profiles", read=self.read, write=self.write, retry=Retry(attempts=1))
        pipeline.stream("in", key=str, value=int).send_to(table)
        with PipelineDriver(pipeline) as driver:
            for value in (1, 2):
                driver.send("in", value, key="a")
            driver.end()


def test_s04_an_update_of_a_missing_record_is_the_failure_of_the_run() -> None:
    with pytest.raises(MessageError, match="LookupError: no record of a"):
        Profiles(defaults=False).run()


def test_s04_an_update_may_put_a_default_first() -> None:
    profiles = Profiles(defaults=True)
    profiles.run()
    assert profiles.rows == {"a": 3}


def test_s04_an_update_that_fails_behind_others_is_the_failure_of_the_run() -> None:
    with pytest.raises(MessageError, match="OSError: the update has failed"):
        Profiles(defaults=True, failing=2).run()


def test_s05_what_cannot_be_written_is_refused() -> None:
    pipeline = Pipeline("updates")
    table = pipeline.remote_table("profiles", read=Profiles(defaults=True).read)
    stream = pipeline.stream("in", key=str, value=int)
    with pytest.raises(PipelineError, match="has no write="):
        stream.send_to(table)


def test_t02_a_key_without_row_is_not_kept_and_one_that_left_the_cache_is_read_again() -> None:
    kept = Table({"a": "A", "b": "B"})

    async def work() -> None:
        cached = remote(kept, 1, rows=1)
        for key in ("none", "none", "a", "a", "b", "a"):
            await cached.read(key)

    done(work)
    assert kept.calls == [["none"], ["none"], ["a"], ["b"], ["a"]]


def test_t03_a_cache_is_filled_by_reading_and_follows_writing() -> None:
    kept = Table({"foo1": "bar1", "foo2": "bar2", "foo3": "bar3"})

    async def work() -> None:
        cached = remote(kept, 3)
        assert await all_of(cached, "foo1", "foo2") == ["bar1", "bar2"]
        # Only the missing one is asked for.
        assert await all_of(cached, "foo1", "foo2", "foo3") == ["bar1", "bar2", "bar3"]
        kept.away = True
        assert await all_of(cached, "foo3", "foo1") == ["bar3", "bar1"]
        with pytest.raises(OSError, match="away"):
            await all_of(cached, "foo1", "foo4")
        kept.away = False
        await cached.write("foo1", "new")
        assert await cached.read("foo1") == "new"
        await asyncio.gather(cached.write("foo1", None), cached.write("foo2", "newer"))
        assert await all_of(cached, "foo1", "foo2") == [None, "newer"]

    done(work)
    assert kept.calls == [["foo1", "foo2"], ["foo3"], ["foo4"], ["foo1"], ["foo1", "foo2"], ["foo1"]]


def test_t05_a_batch_is_sent_when_it_is_full_and_ends_with_the_call() -> None:
    kept = Table({})

    async def work() -> None:
        writing = [asyncio.ensure_future(remote_of_three.write(key, "row")) for key in "abc"]
        await asyncio.sleep(0.5)
        assert kept.calls == [["a", "b", "c"]]
        assert not any(write.done() for write in writing)
        await asyncio.sleep(0.6)
        assert all(write.done() for write in writing)

    remote_of_three = remote(kept, 3, timedelta(hours=1))
    done(work)


def test_t05_a_batch_is_sent_when_its_time_has_come() -> None:
    kept = Table({})
    patient = remote(kept, 1000, timedelta(milliseconds=100))

    async def work() -> None:
        writing = [asyncio.ensure_future(patient.write(str(key), "row")) for key in range(100)]
        await asyncio.sleep(0.09)
        assert kept.calls == []
        await asyncio.sleep(0.02)
        assert [len(call) for call in kept.calls] == [100]
        await asyncio.gather(*writing)

    done(work)


def test_t06_two_who_ask_for_one_key_in_a_batch_are_both_answered() -> None:
    kept = Table({"a": "A"})

    async def work() -> None:
        table = remote(kept, 10, timedelta(milliseconds=1))
        assert await all_of(table, "a", "a") == ["A", "A"]

    done(work)
    assert kept.calls == [["a"]]


async def key_of(_: str) -> str:
    await asyncio.sleep(0)
    return call_key()


async def key_of_each(rows: Sequence[str]) -> Mapping[str, str]:
    await asyncio.sleep(0)
    return dict(zip(rows, call_keys(), strict=True))


def keys_of_reads(**options: Any) -> Pipeline:
    pipeline = Pipeline("keys")
    table = pipeline.remote_table("table", **options)
    words = pipeline.stream("in", key=str, value=str)
    words.join(table, lambda word, row: f"{word} {row}", id="row").send_to("out", value=str)
    return pipeline


WORDS = {"in": [events(("a", 0), ("b", 1)), events(("c", 2))]}
KEYS = {
    "out": [
        b"a 8dfa87da98ea1cf5db2ab4b78cb3044b",
        b"b 7e9484ed7c360cf6c8858ae7074dc58e",
        b"c 5bf418d3519fa5cf7174cabbb8835f83",
    ]
}
GAP = {"oracle": Gap(OracleFailure, "it makes calls without an engine, which has the keys")}
BATCH = Batch(size=2, delay=timedelta(milliseconds=1))


async def all_but_b(key: str) -> str:
    await asyncio.sleep(0.003)
    if key == "b":
        raise OSError("down")
    return key.upper()


def rows_of(**options: Any) -> Pipeline:
    """Each failure makes the calls behind it rest."""
    pipeline = Pipeline("rows", on_error=skip())
    breaker = Breaker("service", failures=1, rest=timedelta(milliseconds=1))
    table = pipeline.remote_table("table", read=all_but_b, breaker=breaker, retry=Retry(attempts=2), **options)
    words = pipeline.stream("in", key=str, value=str)
    words.join(table, lambda word, row: f"{word} {row}", id="row").send_to("out", value=str)
    return pipeline


ROWS = {"out": [b"a A", b"c C"]}
CASES = [
    Conformance("rows-with-a-breaker", rows_of, WORDS, ROWS, {}),
    Conformance("rows-of-hedged-reads", lambda: rows_of(hedge=timedelta(milliseconds=1)), WORDS, ROWS, {}),
    Conformance("rows-of-adaptive-calls", lambda: rows_of(concurrency=Adaptive()), WORDS, ROWS, {}),
    Conformance("keys-of-reads", lambda: keys_of_reads(read=key_of), WORDS, KEYS, GAP),
    Conformance("keys-of-reads-in-batches", lambda: keys_of_reads(read=key_of_each, batch=BATCH), WORDS, KEYS, GAP),
]
USUAL = ("keys-of-reads-in-batches",)


@pytest.mark.parametrize(("case", "target"), on_targets(CASES, USUAL))
def test_a_case_of_a_remote_table_holds(case: Conformance, target: str, request: pytest.FixtureRequest) -> None:
    check(case, target, request)
