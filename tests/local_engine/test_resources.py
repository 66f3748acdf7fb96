"""Clients and pools of a container: open before its first message, the same for all its tasks, closed behind its last
commit."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from engines.targets import contents, write
from explained import error_of
from fluvial.dsl import (
    Batch,
    KeyedProcessor,
    Message,
    MessageError,
    NoProgressError,
    Pipeline,
    Retry,
    SystemProblem,
    ValueState,
    resource,
)
from fluvial.planner import Settings
from fluvial.runtime import run
from fluvial.runtime.process.stop_request import Stopped
from fluvial.runtime.systems import LogSystem, MemorySystem
from kafka.container_runs import PATIENCE
from waiting import wait_until

WORDS = {"words": [[(b"k", word, 0, ())] for word in (b"tea", b"mint", b"oat")]}


class Client:
    """Works in the loop alone in which it was opened, as aiohttp's and asyncpg's do."""

    def __init__(self, happened: list[str]) -> None:
        self.happened = happened
        self.rows: dict[str, str | None] = {}

    async def open(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.happened.append("open")

    async def close(self) -> None:
        assert asyncio.get_running_loop() is self._loop
        self.happened.append("close")

    async def size(self, word: str) -> int:
        assert asyncio.get_running_loop() is self._loop
        self.happened.append(word)
        await asyncio.sleep(0)
        if word == "bad":
            raise ValueError(word)
        return len(word)


async def sized(word: str, client: Client) -> list[int]:
    return [await client.size(word)]


def system_with(inputs: Any = WORDS) -> MemorySystem:
    system = MemorySystem()
    write(system, inputs)
    return system


def sizes(system: MemorySystem, stream: str = "out") -> list[bytes]:
    return sorted(value or b"" for _, value, _, _ in contents(system, stream))


def test_one_client_serves_all_tasks_of_a_container_and_is_closed_behind_its_commit() -> None:
    happened: list[str] = []
    system, clients = MemorySystem(), resource(lambda: Client(happened))
    write(system, WORDS)
    pipeline = Pipeline("p")
    words = pipeline.stream("words", value=str)
    words.async_flat_map(sized, id="sized", resource=clients).send_to("out", value=int)
    words.async_flat_map(sized, id="again", resource=clients).send_to("out", value=int)
    run(pipeline, system=system, until="end")
    assert sizes(system) == [b"3", b"3", b"3", b"3", b"4", b"4"]
    assert (happened[0], happened[-1]) == ("open", "close")
    assert sorted(happened[1:-1]) == ["mint", "mint", "oat", "oat", "tea", "tea"]


def test_a_client_is_closed_where_the_run_fails() -> None:
    happened: list[str] = []
    system = system_with({"words": [[(None, b"bad", 0, ())]]})
    pipeline = Pipeline("p")
    words = pipeline.stream("words", value=str)
    words.async_flat_map(sized, id="sized", resource=resource(lambda: Client(happened))).send_to("out", value=int)
    error_of(lambda: run(pipeline, system=system, until="end"), MessageError)
    assert happened == ["open", "bad", "close"]


def test_a_client_that_does_not_open_ends_the_run_before_its_first_message() -> None:
    async def never() -> Client:
        await asyncio.Event().wait()
        raise AssertionError

    async def refused() -> Client:
        raise ConnectionRefusedError

    for factory, kind in ((never, NoProgressError), (refused, SystemProblem)):
        system = system_with()
        pipeline = Pipeline("p")
        words = pipeline.stream("words", value=str)
        words.async_flat_map(sized, id="sized", resource=resource(factory)).send_to("out", value=int)
        settings = Settings(stall_timeout=timedelta(seconds=0.1))
        error_of(partial(run, pipeline, system=system, until="end", settings=settings), kind)
        assert sizes(system) == []


class Printer:
    """A sink whose service is asynchronous."""

    def __init__(self, happened: list[str]) -> None:
        self.happened = happened

    async def open(self) -> None:
        await asyncio.sleep(0)
        self.happened.append("open")

    def write(self, messages: Sequence[Message[str]]) -> None:
        self.happened.extend(message.value for message in messages)

    def flush(self) -> None:
        pass

    async def close(self) -> None:
        await asyncio.sleep(0)
        self.happened.append("close")


class Interrupted(Printer):
    """A signal comes while it closes."""

    async def close(self) -> None:
        raise Stopped


@pytest.mark.parametrize("fails", [False, True])
def test_a_signal_while_a_run_closes_does_not_change_how_it_has_ended(
    fails: bool, caplog: pytest.LogCaptureFixture
) -> None:
    system, pipeline, happened = system_with(), Pipeline("p"), list[str]()
    words = pipeline.stream("words", value=str)
    words.map(int if fails else len).send_to("out", value=int)
    words.sink(Interrupted(happened), id="printed")
    if fails:
        assert error_of(lambda: run(pipeline, system=system, until="end"), MessageError).exit_code == 5
    else:
        assert run(pipeline, system=system, until="end").written["out"] == 3
    assert caplog.records == []


def test_a_run_that_is_stopped_while_a_client_opens_says_that_it_has_not_committed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def interrupted() -> Client:
        raise Stopped

    system, pipeline = system_with(), Pipeline("p")
    words = pipeline.stream("words", value=str)
    words.async_flat_map(sized, id="sized", resource=resource(interrupted)).send_to("out", value=int)
    assert run(pipeline, system=system, until="end").written == {}
    (record,) = caplog.records
    assert record.getMessage().startswith("pipeline 'p' is stopped without a last commit")


class Table(Client):
    """Keeps rows in the client, one by one or many at a time."""

    async def read(self, key: str) -> str | None:
        return self.rows.get(key)

    async def write(self, key: str, row: str | None) -> None:
        self.rows[key] = row


async def read(key: str, table: Table) -> str | None:
    await table.size(key)
    return f"{key} of {len(table.happened)}"


async def read_many(keys: Sequence[str], table: Table) -> Mapping[str, str]:
    return {key: f"{key} of {await table.size(key)}" for key in keys}


async def put(key: str, row: str | None, table: Table) -> None:
    table.rows[key] = row


async def put_many(rows: Mapping[str, str | None], table: Table) -> None:
    table.rows.update(rows)


@pytest.mark.parametrize("batched", [False, True])
def test_functions_of_a_remote_table_are_given_its_client(batched: bool) -> None:
    table, system = Table([]), system_with()
    pipeline, tables = Pipeline("p"), resource(lambda: table)
    once = Retry(attempts=1)
    rows = (
        pipeline.remote_table("rows", read=read_many, write=put_many, batch=Batch(), resource=tables, retry=once)
        if batched
        else pipeline.remote_table("rows", read=read, write=put, resource=tables, retry=once)
    )
    words = pipeline.stream("words", key=str, value=str)
    words.join(rows, lambda word, row: f"{word}: {row}", id="joined").send_to("out", value=str)
    words.send_to(rows)
    run(pipeline, system=system, until="end")
    assert len(sizes(system)) == 3
    assert all(b": k of " in value for value in sizes(system))
    assert set(table.rows) == {"k"}
    assert (table.happened[0], table.happened[-1]) == ("open", "close")


class Rates(Client):
    """An object of the user's that is called."""

    async def __call__(self, word: str) -> list[int]:
        return [await self.size(word)]


class Numbering(KeyedProcessor[str, str, str]):
    """Has a file of its own, say, that is open while it works."""

    seen = ValueState(int, default=0)

    def __init__(self, happened: list[str]) -> None:
        self.happened = happened

    def open(self) -> None:
        self.happened.append("open")
        self.sign = "#"

    def close(self) -> None:
        self.happened.append("close")

    def on_message(self, message: Message[str], context: Any) -> Iterable[str]:  # noqa: ARG002
        self.seen.value += 1
        return [f"{self.sign}{self.seen.value}"]


def test_objects_are_opened_once_in_a_container_whatever_they_are_handed_to() -> None:
    happened: dict[str, list[str]] = {name: [] for name in ("rates", "numbering", "printer")}
    system, pipeline, rates = system_with(), Pipeline("p"), Rates(happened["rates"])
    words = pipeline.stream("words", key=str, value=str)
    words.async_flat_map(rates, id="called").send_to("out", value=int)
    words.async_flat_map(rates.__call__, id="method").send_to("out", value=int)
    words.process(Numbering(happened["numbering"]), id="numbered").send_to("numbers", value=str)
    words.sink(Printer(happened["printer"]), id="printed")
    run(pipeline, system=system, until="end")
    for calls in happened.values():
        assert (calls[0], calls[-1]) == ("open", "close")
        assert (calls.count("open"), calls.count("close")) == (1, 1)
    assert sizes(system, "numbers") == [b"#1", b"#1", b"#1"]
    assert sorted(happened["printer"][1:-1]) == ["mint", "oat", "tea"]


SLOW = """
import asyncio, os, sys
from fluvial.dsl import Pipeline, resource
from fluvial.runtime import run

async def slow():
    print("opening", flush=True)
    await asyncio.sleep(600)

async def asked(value, client):
    return [value]

pipeline = Pipeline("p")
pipeline.stream("words", value=str).async_flat_map(asked, id="asked", resource=resource(slow)).send_to("out")
run(pipeline, system=f"log:{sys.argv[1]}", until="stopped")
"""


@pytest.mark.slow
def test_a_run_can_be_stopped_while_a_client_opens(tmp_path: Path) -> None:
    write(LogSystem(tmp_path / "log", fsync=False), WORDS)
    words = [sys.executable, "-c", SLOW, str(tmp_path / "log")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "opening\n"
        asked_at = time.monotonic()
        os.kill(process.pid, signal.SIGTERM)
        wait_until(lambda: process.poll() is not None, "the run has ended", PATIENCE)
        assert time.monotonic() - asked_at < 5
