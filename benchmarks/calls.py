"""What a call costs beside programs by hand that read and write the same records: on a log, in a process each.

Run as `python -m benchmarks.calls`; `--calls 20000` makes fewer. It prints the processor time of each call, and the
speed as a share of that of each program by hand. HTTP requests go to a server in another process.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Literal, get_args

import aiohttp
import msgspec
from aiohttp import web

from fluvial.dsl import Batch, Pipeline, resource
from fluvial.planner import Settings
from fluvial.runtime import run
from fluvial.runtime.systems import LogSystem

CALLS = 1_000_000
REQUESTS = 100_000
IN_FLIGHT = 2_000
CONNECTIONS = 100
SECONDS = 0.005
"""How long a call of the timer takes."""
BATCH = 100
ROUNDS = 3
COMMIT_RECORDS = 10_000

Contender = Literal["workers", "tasks", "fluvial", "fluvial, uvloop", "fluvial, batches"]
Service = Literal["timer", "http"]
BY_HAND: tuple[Contender, ...] = ("workers", "tasks")
"""Programs by hand: a worker for each call that may be in flight, and a task for each call behind a semaphore."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a contender took for a number of calls, in seconds."""

    calls: int
    elapsed: float
    processor: float


Ask = Callable[[int], Awaitable[list[int]]]


async def wait(number: int) -> list[int]:
    """A service that takes its time."""
    await asyncio.sleep(SECONDS)
    return [number + 1]


async def wait_for_all(numbers: list[int]) -> list[list[int]]:
    """The same service, asked once for many."""
    await asyncio.sleep(SECONDS)
    return [[number + 1] for number in numbers]


async def request(number: int, client: aiohttp.ClientSession) -> list[int]:
    """A service behind HTTP."""
    async with client.get(f"/{number}") as answer:
        return [int(await answer.read())]


async def request_all(numbers: list[int], client: aiohttp.ClientSession) -> list[list[int]]:
    """The same service, asked once for many."""
    async with client.post("/", data=json.dumps(numbers)) as answer:
        return [[number] for number in json.loads(await answer.read())]


def client_of(url: str) -> aiohttp.ClientSession:
    """A client of the service with as many connections as calls in flight."""
    return aiohttp.ClientSession(url, connector=aiohttp.TCPConnector(limit=CONNECTIONS))


# By hand.


@asynccontextmanager
async def asking(url: str | None) -> AsyncIterator[Ask]:
    """The function that asks a service."""
    if url is None:
        yield wait
        return
    async with client_of(url) as client:
        yield partial(request, client=client)


def read(system: LogSystem, calls: int) -> Iterator[tuple[bytes | None, int]]:
    """The messages, decoded."""
    decode = msgspec.json.Decoder(int).decode
    with closing(system.consumer()) as consumer:
        consumer.assign({("numbers", 0): 0})
        while calls:
            for batch in consumer.poll(1.0):
                calls -= len(batch.records)
                for key, value, _, _ in batch.records:
                    yield key, decode(value or b"")


_encode = msgspec.json.Encoder().encode


class Writer:
    """Encodes results, and publishes them from time to time."""

    def __init__(self, system: LogSystem) -> None:
        self._producer = system.producer()
        self._records: list[Any] = []

    def write(self, key: bytes | None, values: list[int]) -> None:
        """Write the results of a call."""
        self._records += [(key, _encode(value), 0, ()) for value in values]
        if len(self._records) >= COMMIT_RECORDS:
            self.commit()

    def commit(self) -> None:
        """Publish what was written."""
        writing = self._producer.begin()
        writing.append("found", 0, self._records)
        writing.commit()
        self._records.clear()


async def by_workers(system: LogSystem, calls: int, in_flight: int, url: str | None) -> None:
    """Each of so many workers takes the next message once its call has ended."""
    messages, writer = read(system, calls), Writer(system)

    async def work(ask: Ask) -> None:
        for key, number in messages:
            writer.write(key, await ask(number))

    async with asking(url) as ask:
        await asyncio.gather(*(work(ask) for _ in range(in_flight)))
    writer.commit()


async def by_tasks(system: LogSystem, calls: int, in_flight: int, url: str | None) -> None:
    """A task for each message, at most so many at once."""
    room, writer = asyncio.Semaphore(in_flight), Writer(system)

    async def call(ask: Ask, key: bytes | None, number: int) -> None:
        writer.write(key, await ask(number))
        room.release()

    async with asking(url) as ask, asyncio.TaskGroup() as tasks:
        for key, number in read(system, calls):
            await room.acquire()
            tasks.create_task(call(ask, key, number))
    writer.commit()


# Fluvial.


def pipeline_of(in_flight: int, url: str | None, *, batched: bool) -> Pipeline:
    """Each message is a call, or a part of one."""
    pipeline = Pipeline("asking")
    numbers = pipeline.stream("numbers", key=str, value=int)
    rules: Any = {"id": "ask", "order": "none", "max_in_flight": in_flight}
    if url is not None:
        rules["resource"] = resource(partial(client_of, url))
    if batched:
        rules["batch"] = Batch(size=BATCH)
    functions: Mapping[tuple[bool, bool], Any] = {
        (False, False): wait,
        (False, True): wait_for_all,
        (True, False): request,
        (True, True): request_all,
    }
    numbers.async_flat_map(functions[url is not None, batched], **rules).send_to("found")
    return pipeline


def by_fluvial(system: LogSystem, in_flight: int, url: str | None, contender: Contender) -> None:
    """The pipeline in one container."""
    batched = contender == "fluvial, batches"
    pipeline = pipeline_of(max(in_flight, 4 * BATCH) if batched else in_flight, url, batched=batched)
    settings = Settings(event_loop="uvloop" if contender == "fluvial, uvloop" else "asyncio")
    run(pipeline, system=system, settings=settings, until="end")


# Measuring.


def make_calls(contender: Contender, calls: int, in_flight: int, url: str | None) -> Cost:
    """Let a contender make so many calls in this process, and check what it wrote."""
    with TemporaryDirectory() as folder:
        system = LogSystem(Path(folder), fsync=False)
        for stream in ("numbers", "found"):
            system.admin().create(stream, 1)
        writing = system.producer().begin()
        writing.append("numbers", 0, [(b"k%d" % (one % 5000), b"%d" % one, 0, ()) for one in range(calls)])
        writing.commit()
        began, processor = time.perf_counter(), time.process_time()
        if contender == "workers":
            asyncio.run(by_workers(system, calls, in_flight, url))
        elif contender == "tasks":
            asyncio.run(by_tasks(system, calls, in_flight, url))
        else:
            by_fluvial(system, in_flight, url, contender)
        cost = Cost(calls, time.perf_counter() - began, time.process_time() - processor)
        with closing(system.consumer()) as consumer:
            consumer.assign({("found", 0): 0})
            found, written = list[int](), sum(system.admin().ends("found"))
            while len(found) < written:
                found += [int(value or 0) for batch in consumer.poll(1.0) for _, value, _, _ in batch.records]
        if sorted(found) != [*range(1, calls + 1)]:
            raise AssertionError(f"{contender} wrote other results")
        return cost


async def serve() -> None:
    """Serve the service behind HTTP until cancelled, after its address was printed."""

    async def one(request: web.Request) -> web.Response:
        return web.Response(body=b"%d" % (int(request.match_info["number"]) + 1))

    async def many(request: web.Request) -> web.Response:
        return web.Response(body=json.dumps([number + 1 for number in await request.json()]).encode())

    app = web.Application()
    app.add_routes([web.get("/{number}", one), web.post("/", many)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    sys.stdout.write(f"http://127.0.0.1:{runner.addresses[0][1]}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


@contextmanager
def service(kind: Service) -> Iterator[str | None]:
    """The address of a service while it runs; None for the timer, which is no process."""
    if kind == "timer":
        yield None
        return
    words = [sys.executable, "-m", "benchmarks.calls", "--serve"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            url = process.stdout.readline().strip()
            if not url:
                raise AssertionError("the service has not begun")
            yield url
        finally:
            process.terminate()


def measured(contender: Contender, kind: Service, calls: int, in_flight: int) -> Cost:
    """What a contender takes in a process of its own."""
    with service(kind) as url:
        words = [sys.executable, "-m", "benchmarks.calls", "--contender", contender, "--calls", str(calls)]
        words += ["--in-flight", str(in_flight), *(["--url", url] if url else [])]
        said = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout
    return Cost(**json.loads(said))


def compare(kind: Service, calls: int, in_flight: int, rounds: int, tell: Callable[[str], object]) -> None:
    """Measure all contenders in turn, so often, and tell the medians."""
    costs: dict[Contender, list[Cost]] = {contender: [] for contender in get_args(Contender)}
    for _ in range(rounds):
        for contender, done in costs.items():
            done.append(measured(contender, kind, calls, in_flight))
    tell(f"{calls:,} calls by {kind}, {in_flight} in flight\n")
    for contender, done in costs.items():
        processor = median(cost.processor for cost in done) / calls * 1e6
        shares = ", ".join(f"{share(costs[hand], done):.2f} of {hand}" for hand in BY_HAND)
        tell(f"  {contender:17} {processor:6.1f} us of processor time a message, speed {shares}\n")


def share(by_hand: list[Cost], done: list[Cost]) -> float:
    """The speed of a contender as a share of that of a program by hand, in the same rounds."""
    return median(other.elapsed / cost.elapsed for cost, other in zip(done, by_hand, strict=True))


def main() -> None:
    """Measure all, or what the options say."""
    options = argparse.ArgumentParser(description="What a call costs.")
    options.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options.add_argument("--contender", choices=get_args(Contender), help="make the calls of one, in this process")
    options.add_argument("--url", help=argparse.SUPPRESS)
    options.add_argument("--calls", type=int, default=CALLS)
    options.add_argument("--in-flight", type=int, default=IN_FLIGHT)
    options.add_argument("--rounds", type=int, default=ROUNDS)
    given = options.parse_args()
    if given.serve:
        asyncio.run(serve())
    elif given.contender is not None:
        cost = make_calls(given.contender, given.calls, given.in_flight, given.url)
        sys.stdout.write(json.dumps({"calls": cost.calls, "elapsed": cost.elapsed, "processor": cost.processor}))
    else:
        compare("timer", given.calls, given.in_flight, given.rounds, sys.stdout.write)
        requests = min(given.calls, REQUESTS)
        compare("http", requests, CONNECTIONS, given.rounds, sys.stdout.write)


if __name__ == "__main__":
    main()
