"""Remote tables over functions that note what they are asked: cache, batches, retries, rate, and writes in order."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from contextvars import ContextVar
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluvial.dsl import Batch, BudgetExhausted, Cache, Limit, Pipeline, RemoteTable, Retry
from fluvial.dsl.errors import MessageError
from fluvial.dsl.operators.calls import limits_of
from fluvial.runtime.kernel.calls.admission import Admission
from fluvial.runtime.kernel.operators.remote_tables import MOST_ABANDONED, RemoteTableClient, put
from fluvial.runtime.testing import PipelineDriver
from fluvial.runtime.testing.virtual_clock import VirtualLoop

SECOND = timedelta(seconds=1)


class Server:
    """A table somewhere: its rows, and when it was asked what. Each answer takes a second."""

    def __init__(self, rows: dict[str, str] | None = None, failures: int = 0) -> None:
        self.rows = rows or {}
        self.calls: list[tuple[float, Any]] = []
        self.failures = failures

    async def _answer(self, asked: Any) -> None:
        self.calls.append((asyncio.get_running_loop().time(), asked))
        fails, self.failures = self.failures > 0, self.failures - 1
        await asyncio.sleep(1)
        if fails:
            raise OSError("away")

    async def read(self, key: str) -> str | None:
        found = self.rows.get(key)
        await self._answer(key)
        return found

    async def read_many(self, keys: Sequence[str]) -> Mapping[str, str]:
        await self._answer([*keys])
        return {key: self.rows[key] for key in keys if key in self.rows}

    async def write(self, key: str, row: str | None) -> None:
        await self._answer((key, row))
        if row is None:
            self.rows.pop(key, None)
        else:
            self.rows[key] = row

    async def write_many(self, rows: Mapping[str, str | None]) -> None:
        await self._answer(dict(rows))
        self.rows.update({key: row for key, row in rows.items() if row is not None})

    @property
    def asked(self) -> list[Any]:
        return [asked for _, asked in self.calls]


def table(server: Server, **options: Any) -> RemoteTable[Any, Any]:
    many = "batch" in options
    functions = {"read": server.read_many, "write": server.write_many} if many else _single(server)
    return Pipeline("p").remote_table("rows", **functions, **options)


def _single(server: Server) -> dict[str, Any]:
    return {"read": server.read, "write": server.write}


def done(work: Callable[[], Awaitable[Any]]) -> Any:
    """Run to the end, on virtual time; what is left behind runs on."""
    loop = VirtualLoop()

    async def worked() -> Any:
        task = asyncio.ensure_future(work())
        await loop.quiet()
        while not task.done():
            assert loop.jump()
            await loop.quiet()
        while loop.jump():
            await loop.quiet()
        return task.result()

    try:
        return loop.run_until_complete(worked())
    finally:
        loop.close()


def test_a_row_is_read_each_time_without_a_cache() -> None:
    server = Server({"a": "A"})
    remote = RemoteTableClient(table(server))

    async def work() -> list[Any]:
        return [await remote.read("a"), await remote.read("a"), await remote.read("b")]

    assert done(work) == ["A", "A", None]
    assert server.asked == ["a", "a", "b"]


def test_a_cache_keeps_rows_but_not_their_absence() -> None:
    server = Server({"a": "A"})
    remote = RemoteTableClient(table(server, cache=Cache(size=2, ttl=10 * SECOND)))

    async def work() -> None:
        for _ in range(2):
            assert (await remote.read("a"), await remote.read("b")) == ("A", None)
        await remote.write("a", "AA")
        assert await remote.read("a") == "AA"
        await remote.write("a", None)
        assert await remote.read("a") is None
        await asyncio.sleep(20)

    done(work)
    assert server.asked == ["a", "b", "b", ("a", "AA"), ("a", None), "a"]


def test_a_cache_keeps_for_so_long_that_a_key_has_no_row() -> None:
    server = Server({"a": "A"})
    remote = RemoteTableClient(table(server, cache=Cache(size=2, missing=10 * SECOND)))

    async def work() -> None:
        for _ in range(2):
            assert (await remote.read("a"), await remote.read("b")) == ("A", None)
        await remote.write("a", None)
        assert await remote.read("a") is None
        await remote.write("b", "B")
        assert await remote.read("b") == "B"
        await asyncio.sleep(10)
        assert await remote.read("a") is None

    done(work)
    assert server.asked == ["a", "b", ("a", None), ("b", "B"), "a"]


def test_rows_leave_a_cache_when_it_is_full_and_when_their_time_is_over() -> None:
    server = Server({key: key for key in "abc"})
    remote = RemoteTableClient(table(server, cache=Cache(size=2, ttl=10 * SECOND)))

    async def work() -> None:
        for key in "abaca":
            await remote.read(key)
        await asyncio.sleep(10)
        await remote.read("a")

    done(work)
    assert server.asked == ["a", "b", "c", "a"]


def test_what_was_read_before_a_write_ended_is_not_kept() -> None:
    server = Server({"a": "old"})
    remote = RemoteTableClient(table(server, cache=Cache()))

    async def work() -> list[str]:
        reading = asyncio.ensure_future(remote.read("a"))
        await asyncio.sleep(0.5)
        writing = asyncio.ensure_future(remote.write("a", "new"))
        found = [await reading, await remote.read("a")]
        await writing
        return [*found, await remote.read("a")]

    assert done(work) == ["old", "old", "new"]


def test_a_call_is_made_again_as_the_retry_says() -> None:
    server = Server({"a": "A"}, failures=2)
    remote = RemoteTableClient(
        table(server, retry=Retry(attempts=3, delay=10 * SECOND, factor=2.0, max_delay=60 * SECOND))
    )

    async def read() -> Any:
        return await remote.read("a")

    assert done(read) == "A"
    assert [at for at, _ in server.calls] == [0, 11, 32]
    server.failures = 3
    with pytest.raises(OSError, match="away"):
        done(read)


def test_a_call_that_takes_too_long_has_failed() -> None:
    server = Server({"a": "A"})
    remote = RemoteTableClient(table(server, timeout=timedelta(milliseconds=900), retry=Retry(attempts=1)))

    async def read() -> Any:
        return await remote.read("a")

    with pytest.raises(TimeoutError):
        done(read)


class Client:
    """Answers the first of what it is asked in another way than with rows."""

    def __init__(self, first: Callable[[], Awaitable[Any]]) -> None:
        self.first: Callable[[], Awaitable[Any]] | None = first
        self.seen: list[str] = []

    async def _answer(self) -> None:
        self.seen.append(WHO.get())
        WHO.set("another call")
        first, self.first = self.first, None
        if first is not None:
            await first()

    async def read(self, _: str) -> str:
        await self._answer()
        return "A"

    async def read_many(self, keys: Sequence[str]) -> Mapping[str, str]:
        await self._answer()
        return dict.fromkeys(keys, "A")

    async def write(self, _: str, __: str) -> None:
        await self._answer()

    async def write_many(self, _: Mapping[str, str]) -> None:
        await self._answer()


WHO = ContextVar("WHO", default="nobody")


async def cancelled() -> None:
    raise asyncio.CancelledError


async def deaf() -> None:
    """Does not heed that it is cancelled, for a day."""
    until = asyncio.get_running_loop().time() + 86400
    while (left := until - asyncio.get_running_loop().time()) > 0:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(left)


def rows_of(client: Client, *, many: bool, attempts: int) -> RemoteTableClient:
    options: dict[str, Any] = {"retry": Retry(attempts=attempts, delay=SECOND), "timeout": 2 * SECOND}
    if many:
        options |= {"read": client.read_many, "write": client.write_many, "batch": Batch(size=1)}
    else:
        options |= {"read": client.read, "write": client.write}
    return RemoteTableClient(Pipeline("p").remote_table("rows", **options))


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("asked", [lambda remote: remote.read("a"), lambda remote: remote.write("a", "A")])
@pytest.mark.parametrize(("first", "wrong"), [(cancelled, CancelledError), (deaf, TimeoutError)])
def test_a_call_that_is_cancelled_or_does_not_heed_it_fails_as_others_do(
    first: Callable[[], Awaitable[None]],
    wrong: type[Exception],
    asked: Callable[[RemoteTableClient], Any],
    *,
    many: bool,
) -> None:
    client = Client(first)
    with pytest.raises(wrong):
        done(lambda: asked(rows_of(client, many=many, attempts=1)))
    again = Client(first)
    assert done(lambda: asked(rows_of(again, many=many, attempts=2))) in ("A", None)
    assert again.seen == ["nobody"] * 2


def test_calls_that_do_not_heed_their_timeout_are_bounded() -> None:
    async def read(_: str) -> str:
        await deaf()
        return "A"

    remote = RemoteTableClient(Pipeline("p").remote_table("rows", read=read, timeout=SECOND, retry=Retry(attempts=1)))

    async def work() -> list[Any]:
        reads = (remote.read(str(number)) for number in range(MOST_ABANDONED + 1))
        return [*await asyncio.gather(*reads, return_exceptions=True)]

    errors = done(work)
    (last,) = (error for error in errors if isinstance(error, MessageError))
    assert [type(error) for error in errors].count(TimeoutError) == MOST_ABANDONED
    assert "read of remote table 'rows': 101 calls run on" in str(last)


def test_no_more_keys_pass_than_the_rate_says() -> None:
    server = Server()
    remote = RemoteTableClient(table(server, reads_per_second=2))

    async def work() -> None:
        await asyncio.gather(*(remote.read(str(n)) for n in range(5)))

    done(work)
    assert [at for at, _ in server.calls] == [0, 0.5, 1, 1.5, 2]


def test_repeats_count_too() -> None:
    server = Server({"a": "A"}, failures=2)
    remote = RemoteTableClient(table(server, reads_per_second=0.1, retry=Retry(attempts=3, delay=timedelta(0))))

    async def read() -> Any:
        return await remote.read("a")

    done(read)
    assert [at for at, _ in server.calls] == [0, 10, 20]


def test_a_batch_goes_when_it_is_full_or_its_time_has_come() -> None:
    server = Server({"a": "A", "b": "B"})
    remote = RemoteTableClient(table(server, batch=Batch(size=3, delay=SECOND)))

    async def work() -> list[Any]:
        return await asyncio.gather(*(remote.read(key) for key in "abcaab"))

    assert done(work) == ["A", "B", None, "A", "A", "B"]
    assert server.calls == [(0, ["a", "b", "c"]), (1, ["a", "b"])]


def test_who_gives_up_takes_nobody_along() -> None:
    server = Server({"a": "A"})
    remote = RemoteTableClient(table(server, batch=Batch(size=3, delay=SECOND)))

    async def work() -> Any:
        first, second = (asyncio.ensure_future(remote.read("a")) for _ in range(2))
        await asyncio.sleep(0.5)
        first.cancel()
        return await second

    assert done(work) == "A"


def test_a_batch_that_fails_fails_all_who_asked() -> None:
    server = Server(failures=1)
    remote = RemoteTableClient(table(server, batch=Batch(size=2), retry=Retry(attempts=1)))

    async def work() -> list[Any]:
        return [*await asyncio.gather(remote.read("a"), remote.read("b"), return_exceptions=True)]

    assert [type(error) for error in done(work)] == [OSError, OSError]


def test_each_attempt_of_a_batch_has_all_of_its_keys_and_rows() -> None:
    kept: dict[str, str | None] = {}
    failures = [OSError("away"), OSError("away")]

    async def read(keys: Sequence[str]) -> Mapping[str, str]:
        asked: Any = keys
        found = {asked.pop(): "row" for _ in range(len(keys))}
        if len(failures) == 2:
            raise failures.pop()
        return found

    async def write(rows: Mapping[str, str | None]) -> None:
        given: Any = rows
        popped = dict(given.popitem() for _ in range(len(rows)))
        if failures:
            raise failures.pop()
        kept.update(popped)

    options: dict[str, Any] = {"retry": Retry(attempts=2), "batch": Batch(size=2)}
    remote = RemoteTableClient(Pipeline("p").remote_table("rows", read=read, write=write, **options))

    async def work() -> list[Any]:
        rows = await asyncio.gather(remote.read("a"), remote.read("b"))
        await asyncio.gather(remote.write("a", "A"), remote.write("b", "B"))
        return [*rows]

    assert done(work) == ["row", "row"]
    assert kept == {"a": "A", "b": "B"}


def test_with_a_batch_read_must_return_a_mapping() -> None:
    async def read(keys: Sequence[str]) -> list[str]:
        return [*keys]

    remote = RemoteTableClient(Pipeline("p").remote_table("rows", read=read, batch=Batch(size=1)))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="must return a mapping of keys to rows, not list"):
        done(lambda: remote.read("a"))


WRITES = st.lists(st.tuples(st.sampled_from("ab"), st.none() | st.integers(0, 9).map(str)), max_size=12)


@given(WRITES, st.booleans(), st.integers(0, 3))
def test_the_last_row_written_to_a_key_stays(writes: list[tuple[str, str | None]], cached: bool, failures: int) -> None:
    server = Server(failures=failures)
    options: dict[str, Any] = {"cache": Cache()} if cached else {}
    remote = RemoteTableClient(table(server, retry=Retry(attempts=9, delay=timedelta(milliseconds=1)), **options))
    model: dict[str, str] = {}
    for key, row in writes:
        model.pop(key, None) if row is None else model.__setitem__(key, row)

    async def work() -> list[str | None]:
        await asyncio.gather(*(remote.write(key, row) for key, row in writes))
        return [await remote.read(key) for key in "ab"]

    assert done(work) == [model.get("a"), model.get("b")]
    assert server.rows == model


def test_a_write_that_is_cancelled_as_it_waits_lets_none_pass_the_one_before() -> None:
    server = Server()
    remote = RemoteTableClient(table(server))

    async def work() -> None:
        first, second = (asyncio.ensure_future(remote.write("a", row)) for row in ("1", "2"))
        await asyncio.sleep(0.5)
        second.cancel()
        await asyncio.sleep(0)
        await remote.write("a", "3")
        await first

    done(work)
    assert server.calls == [(0, ("a", "1")), (1, ("a", "3"))]


def test_a_message_without_key_is_written_to_no_table() -> None:
    server = Server()
    write = put(RemoteTableClient(table(server)))
    with pytest.raises(TypeError, match="a message without key cannot be written to a table"):
        done(lambda: write((None, "row")))
    assert server.asked == []


def _limited(limit: Limit, server: Server, **options: Any) -> tuple[RemoteTableClient, Admission]:
    admission = Admission(limit)
    return RemoteTableClient(table(server, limit=limit, **options), admission), admission


def test_a_limit_counts_calls_with_repeats_and_not_what_the_cache_answers() -> None:
    limit = Limit("service", calls=1, per=timedelta(minutes=1), budget=9, cost=lambda _asked, _row: 2)
    server = Server({"a": "A"}, failures=1)
    remote, admission = _limited(limit, server, cache=Cache(), timeout=2 * SECOND)

    async def work() -> None:
        assert await remote.read("a") == "A"
        assert await remote.read("a") == "A"
        await remote.write("b", "B")

    done(work)
    first, second, third = (at for at, _ in server.calls)
    assert 58 <= second - first <= 62
    assert 58 <= third - second <= 62
    assert admission.meters["budget"].used_in_all == 4
    assert admission.begun == 3


def _broken(*_: Any) -> float:
    raise OSError("broken")


@pytest.mark.parametrize("limit", [Limit("l", budget=9, cost=_broken), Limit("l", tokens=9, estimate=_broken)])
def test_errors_of_a_limit_make_no_call_again(limit: Limit) -> None:
    server = Server({"a": "A"})
    remote, admission = _limited(limit, server, retry=Retry(attempts=3))
    with pytest.raises(OSError, match="broken"):
        done(lambda: remote.read("a"))
    assert len(server.calls) == (limit.budget is not None)
    assert admission.waiting == 0


def test_an_exhausted_budget_is_no_error_that_is_retried() -> None:
    server = Server({"a": "A"})
    remote, admission = _limited(Limit("l", budget=1, when_exhausted="error"), server, retry=Retry(attempts=3))

    async def work() -> None:
        await remote.read("a")
        began = asyncio.get_running_loop().time()
        with pytest.raises(BudgetExhausted):
            await remote.read("b")
        assert asyncio.get_running_loop().time() == began

    done(work)
    assert admission.begun == 1


def test_a_limit_is_asked_about_keys_and_rows() -> None:
    asked: list[Any] = []

    def tokens(given: Any) -> int:
        asked.append(given)
        return 1

    limit = Limit("service", tokens=100, estimate=tokens)
    one, _ = _limited(limit, Server({"a": "A"}))
    many, _ = _limited(limit, Server({"a": "A"}), batch=Batch(size=2))

    async def work() -> None:
        await one.read("a")
        await one.write("a", "B")
        await asyncio.gather(many.read("a"), many.read("b"))
        await asyncio.gather(many.write("a", "x"), many.write("b", "y"))

    done(work)
    assert asked == ["a", {"a": "B"}, ["a", "b"], {"a": "x", "b": "y"}]


def test_messages_that_wait_for_the_limit_of_a_table_neither_time_out_nor_stall() -> None:
    server = Server({"a": "A"})
    pipeline = Pipeline("p")
    limit = Limit("service", calls=1, per=timedelta(minutes=10))
    rows = pipeline.remote_table("rows", **_single(server), timeout=2 * SECOND, limit=limit)
    words = pipeline.stream("words", key=str, value=str)
    words.join(rows, lambda value, row: f"{value}{row}", id="join").send_to("out", value=str)
    assert limits_of(pipeline.calls) == (limit,)
    with PipelineDriver(pipeline) as driver:
        for number in range(3):
            driver.send("words", str(number), key="a")
        driver.advance(timedelta(minutes=40))
        assert [message.value for message in driver.read("out")] == ["0A", "1A", "2A"]


def test_to_wait_for_the_rate_costs_no_message_its_timeout() -> None:
    server, pipeline = Server({"a": "A"}), Pipeline("p")
    slowly: dict[str, Any] = {"reads_per_second": 0.25, "timeout": 2 * SECOND, "retry": Retry(attempts=1)}
    rows = pipeline.remote_table("rows", read=server.read, **slowly)
    words = pipeline.stream("words", key=str, value=str)
    words.join(rows, lambda value, row: f"{value}{row}", id="join").send_to("out", value=str)
    with PipelineDriver(pipeline) as driver:
        for number in range(4):
            driver.send("words", str(number), key="a")
        driver.advance(timedelta(minutes=1))
        assert [message.value for message in driver.read("out")] == ["0A", "1A", "2A", "3A"]


def test_to_wait_for_the_row_before_costs_no_message_its_timeout() -> None:
    server, pipeline = Server(), Pipeline("p")
    once: dict[str, Any] = {"timeout": 2 * SECOND, "retry": Retry(attempts=1)}
    pipeline.stream("words", key=str, value=str).send_to(pipeline.remote_table("rows", **_single(server), **once))
    with PipelineDriver(pipeline) as driver:
        for number in range(6):
            driver.send("words", str(number), key="a")
        driver.advance(timedelta(minutes=1))
        assert server.asked == [("a", str(number)) for number in range(6)]
