"""What air traffic control takes beside a program by hand that makes the same calls, and how long urgent messages take
while timers wait.

Run as `python -m benchmarks.air_traffic`; it needs no broker, and `--system kafka://HOST:PORT` uses one. The services
are in another process, and answer at once: what is measured is the client.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import timedelta
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, TypeVar

import msgspec

from examples.air_traffic_control.clients import NAMES, PATIENT, Refused, Services, services
from examples.air_traffic_control.decisions import communication
from examples.air_traffic_control.events import traffic
from examples.air_traffic_control.messages import Candidate, Channel, Communication, Event, Item, Model, Ranked
from examples.air_traffic_control.pipeline import MAX_IN_FLIGHT, air_traffic_control, rank
from examples.air_traffic_control.servers import stands
from fluvial.dsl import resource
from fluvial.dsl.message import Record
from fluvial.planner import Settings
from fluvial.runtime import open_system, run
from fluvial.runtime.systems import System
from fluvial.runtime.systems.contract import Producer, StreamPartition
from fluvial.runtime.systems.partitioner import partition_for

EVENTS = 50_000
TIMERS = 1_000_000
SECONDS = 60
WARMUP_SECONDS = 5.0
TOLD_SECONDS = 60.0
"""The longest wait for what is on its way once no more events come."""
URGENT_EACH = 20
"""One event of so many is urgent."""
A_DAY = timedelta(days=1)
SETTINGS = Settings(guarantee="exactly_once", commit_interval=timedelta(milliseconds=50))
CONTENDERS = ("by hand", "fluvial", "fluvial, uvloop")
T = TypeVar("T")


class NearServices(Services):
    """What the services would say, without them: to fill the state that timers wait in."""

    async def open(self) -> None:
        """Nothing is asked."""

    async def close(self) -> None:
        """Nothing was asked."""

    async def item(self, event: Event) -> Item | None:
        """All stands, and is of interest."""
        return Item(event.item, 1.0)

    async def tell(self, communication: Communication) -> None:
        """Nobody is told."""


@resource
def near_services() -> Services:
    """Each process makes its own."""
    return NearServices()


class TimedServices(Services):
    """Notes how long it took from an urgent event to its delivery, in seconds."""

    latencies: ClassVar[list[float]] = []

    async def tell(self, communication: Communication) -> None:
        """Tell a member; the id of an urgent event is when it happened."""
        await super().tell(communication)
        if communication.urgent:
            self.latencies.append(time.time() - float(communication.events[0]))


@resource
def timed_services() -> Services:
    """Each process makes its own."""
    return TimedServices()


@contextmanager
def serving() -> Iterator[None]:
    """The services in a process of their own, which the environment names meanwhile."""
    words = [sys.executable, "-m", "examples.air_traffic_control.servers", "--ports", "0", "--slowness", "0.1"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        os.environ["ATC_SERVICES"] = process.stdout.readline()
        try:
            yield
        finally:
            process.terminate()


def fill(system: System, made: dict[str, list[dict[str, Any]]], partitions: int = 1) -> None:
    """Write the messages of each input to a system."""
    for name, messages in made.items():
        if name not in system.admin().streams():
            system.admin().create(name, partitions)
        parts: list[list[Record]] = [[] for _ in range(partitions)]
        for one in messages:
            key = f"{one['member']}".encode()
            parts[partition_for(key, partitions)].append((key, msgspec.json.encode(one), 0, ()))
        with closing(system.producer()) as producer:
            write(producer, {(name, number): records for number, records in enumerate(parts)})


def write(producer: Producer, made: Mapping[StreamPartition, list[Record]]) -> None:
    """Write the records of each partition, in one transaction."""
    writing = producer.begin()
    for (stream, partition), records in made.items():
        writing.append(stream, partition, records)
    writing.commit()


# By hand.


async def patiently(call: Callable[[], Awaitable[T]]) -> T:
    """A call that is tried again as the pipeline does."""
    for _ in range(PATIENT.attempts - 1):
        try:
            return await call()
        except Refused as refused:
            await asyncio.sleep(float(refused.wait or 0.02))
    return await call()


def records_of(system: System, stream: str) -> Iterator[bytes]:
    """All that is in a stream of one partition."""
    admin = system.admin()
    left = sum(admin.ends(stream))
    with closing(system.consumer()) as consumer:
        consumer.assign({(stream, 0): 0})
        while left:
            for batch in consumer.poll(1.0):
                left -= len(batch.records)
                yield from (value for _, value, _, _ in batch.records if value is not None)


async def by_hand(system: System) -> int:
    """Each event once, asked for, ranked, gathered by member and told, all in memory. Returns how many were told."""
    models = {}
    for value in records_of(system, "models"):
        row = msgspec.json.decode(value, type=dict[str, Any])
        models[row["member"]] = msgspec.convert(row, Model)
    decode, encode = msgspec.json.Decoder(Event).decode, msgspec.json.Encoder().encode
    events = (decode(value) for stream in ("urgent", "events") for value in records_of(system, stream))
    seen, waiting, told = set[str](), defaultdict[str, list[Ranked]](list), list[bytes]()
    client = Services()
    await client.open()

    async def tell(member: str, channel: Channel, ranked: list[Ranked]) -> None:
        one = communication(member, channel, ranked)
        await patiently(lambda: client.tell(one))
        told.append(encode(one))

    async def handle() -> None:
        for event in events:
            if event.id in seen:
                continue
            seen.add(event.id)
            item = await patiently(lambda event=event: client.item(event))  # type: ignore[misc]
            if item is None:
                continue
            ranked = rank(Candidate(event, item), models.get(event.member))
            if event.urgent:
                await tell(event.member, "push", [ranked])
            elif not ranked.too_low:
                waiting[event.member].append(ranked)

    async def tell_all(members: Iterator[tuple[str, list[Ranked]]]) -> None:
        for member, ranked in members:
            await tell(member, "email", ranked)

    await asyncio.gather(*(handle() for _ in range(MAX_IN_FLIGHT)))
    members = iter(waiting.items())
    await asyncio.gather(*(tell_all(members) for _ in range(MAX_IN_FLIGHT)))
    await client.close()
    writing = system.producer().begin()
    system.admin().create("told", 1)
    writing.append("told", 0, [(None, value, 0, ()) for value in told])
    writing.commit()
    return len(told)


def cost(contender: str, events: int) -> dict[str, float]:
    """The processor time of this process, in seconds, for the traffic of so many events, and what was told."""
    with TemporaryDirectory() as folder:
        system = open_system(f"log:{folder}/log")
        fill(system, traffic(events // 10, events))
        began, processor = time.perf_counter(), time.process_time()
        if contender == "by hand":
            asyncio.run(by_hand(system))
        else:
            settings = Settings(
                guarantee="exactly_once", event_loop="uvloop" if contender.endswith("uvloop") else "asyncio"
            )
            run(air_traffic_control(timedelta(minutes=5), services), system=system, settings=settings, until="end")
        took = {"elapsed": time.perf_counter() - began, "processor": time.process_time() - processor}
        return took | {"told": sum(system.admin().ends("told"))}


# Urgent messages.


def let_timers_wait(url: str, timers: int, settings: Settings) -> None:
    """Bring the pipeline to where so many members wait to be told."""
    system, now = open_system(url), int(time.time() * 1000)
    waiting = [{"id": f"w{one}", "member": f"w{one}", "kind": "post", "item": "i", "at": now} for one in range(timers)]
    fill(system, {"models": [], "preferences": [], "urgent": [], "events": waiting})
    run(air_traffic_control(A_DAY, near_services), system=system, settings=settings, until="caught-up")


def feed(system: System, rate: float, seconds: float) -> int:
    """Write so many events a second, for so long; returns how many. The id of an urgent one is when it was written."""
    began, number = time.time(), 0
    with closing(system.producer()) as producer:
        while (now := time.time()) < began + seconds:
            made: dict[StreamPartition, list[Record]] = defaultdict(list)
            for one in range(number, due := int(rate * (now - began))):
                urgent = one % URGENT_EACH == 0
                event: dict[str, Any] = {
                    "id": f"{now + one * 1e-9:.9f}" if urgent else f"e{began}-{one}",
                    "member": f"m{one % 5000}",
                }
                event |= {"kind": NAMES[one % 5], "item": f"i{one}", "at": int(now * 1000), "urgent": urgent}
                key = event["member"].encode()
                made["urgent" if urgent else "events", 0].append((key, msgspec.json.encode(event), 0, ()))
            number = due
            write(producer, made)
            time.sleep(0.01)
    return number


def urgent_of(events: int) -> int:
    """How many of so many events are urgent, and stand: their members are told."""
    return sum(stands(f"i{one}") for one in range(0, events, URGENT_EACH))


def await_told(system: System, number: int) -> None:
    """Wait until so many were told: those that take longest count, too."""
    until = time.monotonic() + TOLD_SECONDS
    while (told := sum(system.admin().ends("told"))) < number:
        if time.monotonic() > until:
            raise AssertionError(f"{number - told} of {number} are not told within {TOLD_SECONDS:g} s")
        time.sleep(0.1)


def tell_latencies(url: str, settings: Settings) -> None:
    """Run the pipeline until SIGTERM; print the latencies of urgent events, in seconds."""
    run(air_traffic_control(A_DAY, timed_services), system=url, settings=settings, until="stopped")
    sys.stdout.write(json.dumps(TimedServices.latencies))


def latencies(url: str, rate: float, seconds: float) -> list[float]:
    """The latencies of urgent events while so many events a second come, in seconds."""
    words = [sys.executable, "-m", "benchmarks.air_traffic", "--until-stopped", "--system", url]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        try:
            system = open_system(url)
            before = sum(system.admin().ends("told"))
            events = feed(system, rate, WARMUP_SECONDS + seconds)
            await_told(system, before + urgent_of(events))
        finally:
            process.terminate()
        said, _ = process.communicate()
    found: list[float] = json.loads(said)
    return found[urgent_of(int(rate * WARMUP_SECONDS)) :]


def urgency(url: str, timers: int, rate: float, seconds: float) -> list[float]:
    """The deciles of the latencies of urgent events, in seconds, while so many timers wait."""
    let_timers_wait(url, timers, SETTINGS)
    return quantiles(latencies(url, rate, seconds), n=10)


def compare_costs(events: int, rounds: int, tell: Callable[[str], object]) -> float:
    """Measure all contenders in turn, so often; returns the events a second of the pipeline."""
    costs: dict[str, list[dict[str, float]]] = {contender: [] for contender in CONTENDERS}
    for _ in range(rounds):
        for contender, done in costs.items():
            words = [sys.executable, "-m", "benchmarks.air_traffic", "--contender", contender, "--events", str(events)]
            done.append(json.loads(subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout))
    by_hand = costs[CONTENDERS[0]]
    for contender, done in costs.items():
        each = median(one["processor"] / one["told"] for one in done) * 1e6
        shares = [one["processor"] / hand["processor"] for one, hand in zip(done, by_hand, strict=True)]
        told = f"{done[0]['told']:,.0f} told of {events:,} events, {each:,.0f} us of processor time for each"
        tell(f"{contender:15} {told}, {median(shares):.2f} of by hand\n")
    return median(events / one["elapsed"] for one in costs[CONTENDERS[1]])


def main() -> None:
    """Measure all, or what the options say."""
    options = argparse.ArgumentParser(description="What air traffic control costs.")
    options.add_argument("--contender", choices=CONTENDERS, help=argparse.SUPPRESS)
    options.add_argument("--until-stopped", action="store_true", help=argparse.SUPPRESS)
    options.add_argument(
        "--system", help="where the urgent messages come from; a log in a folder of its own if not given"
    )
    options.add_argument("--events", type=int, default=EVENTS)
    options.add_argument("--timers", type=int, default=TIMERS)
    options.add_argument("--seconds", type=float, default=SECONDS)
    options.add_argument("--rounds", type=int, default=3)
    given = options.parse_args()
    if given.until_stopped:
        tell_latencies(given.system, SETTINGS)
    elif given.contender is not None:
        sys.stdout.write(json.dumps(cost(given.contender, given.events)))
    else:
        with serving(), TemporaryDirectory() as folder:
            top = compare_costs(given.events, given.rounds, sys.stdout.write)
            deciles = urgency(given.system or f"log:{folder}", given.timers, top / 2, given.seconds)
        median_ms, ninth = deciles[4] * 1000, deciles[8] * 1000
        rate = f"{top / 2:,.0f} events a second and {given.timers:,} timers"
        sys.stdout.write(f"urgent at {rate}: median {median_ms:.0f} ms, p90 {ninth:.0f} ms\n")


if __name__ == "__main__":
    main()
