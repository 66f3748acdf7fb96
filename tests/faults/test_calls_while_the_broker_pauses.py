"""A broker that stands still takes no time from users' calls: none of them times out for it."""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from threading import Thread
from uuid import uuid4

import pytest

from fluvial.dsl import Pipeline, skip
from fluvial.planner.settings import Guarantee
from fluvial.runtime import KafkaSystem, Settings, run
from kafka.broker import Broker
from kafka.broker_jars import lacking
from waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

CALLS, TIMEOUT, PAUSE = 2_000, 1.0, 4.0


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker of these tests' own, which they may pause."""
    if reason := lacking():
        pytest.skip(reason)
    with Broker(tmp_path_factory.mktemp("broker")) as broker:
        yield broker


class Calls:
    """A function that takes a while, and notes how long the event loop kept it waiting besides."""

    def __init__(self) -> None:
        self.begun = self.done = 0
        self.longest = 0.0

    async def look(self, number: int) -> list[int]:
        began = time.monotonic()
        self.begun += 1
        await asyncio.sleep(0.3)
        self.longest = max(self.longest, time.monotonic() - began - 0.3)
        self.done += 1
        return [number]


def copied(name: str, calls: Calls) -> Pipeline:
    """Calls between a source and an output."""
    pipeline = Pipeline(name, on_error=skip())
    source = pipeline.stream(f"{name}-in", value=int)
    looked = source.async_flat_map(
        calls.look, id="look", max_in_flight=100, order="none", timeout=timedelta(seconds=TIMEOUT)
    )
    looked.send_to(f"{name}-out")
    return pipeline


def joined(name: str, calls: Calls) -> Pipeline:
    """Calls of a remote table."""

    async def read(key: int) -> int:
        return (await calls.look(key))[0]

    pipeline = Pipeline(name, on_error=skip())
    rows = pipeline.remote_table("rows", read=read, timeout=timedelta(seconds=TIMEOUT))
    source = pipeline.stream(f"{name}-in", value=int, key=int)
    source.join(rows, lambda value, _: value, id="join").send_to(f"{name}-out")
    return pipeline


@pytest.mark.parametrize(
    ("build", "guarantee"),
    [
        pytest.param(copied, "at_least_once", marks=pytest.mark.long),
        pytest.param(copied, "exactly_once", marks=pytest.mark.long),
        pytest.param(joined, "at_least_once", marks=pytest.mark.long),
        (joined, "exactly_once"),
    ],
)
def test_no_call_times_out(
    own_broker: Broker, tmp_path: Path, build: Callable[[str, Calls], Pipeline], guarantee: Guarantee
) -> None:
    refuse_waits(own_broker, tmp_path, build, guarantee, pauses=(0.2, 0.5))


def test_no_call_times_out_before_the_first_output(own_broker: Broker, tmp_path: Path) -> None:
    """The broker stands still when the first calls end: their outputs are the first ones of the topic."""
    refuse_waits(own_broker, tmp_path, copied, "at_least_once", pauses=(0,))


def refuse_waits(
    own_broker: Broker,
    tmp_path: Path,
    build: Callable[[str, Calls], Pipeline],
    guarantee: Guarantee,
    pauses: Sequence[float],
) -> None:
    """Run a pipeline, and let the broker stand still each time that a share of the calls has ended; at 0 once the first
    has begun. Fail if that has held up a call."""
    name, calls = f"calls-{uuid4().hex[:8]}", Calls()
    system = KafkaSystem(own_broker.address)
    system.admin().create(f"{name}-in", 1)
    writing = system.producer().begin()
    writing.append(
        f"{name}-in", 0, [(b"\0\0\0\0\0\0\0%c" % (number % 256), b"%d" % number, 1_000, ()) for number in range(CALLS)]
    )
    writing.commit()

    def have_ended(share: float) -> bool:
        return calls.begun > 0 and calls.done >= share * CALLS

    def pause() -> None:
        for share in pauses:
            wait_until(partial(have_ended, share), f"{share:.0%} of the calls have ended")
            own_broker.pause()
            time.sleep(PAUSE)
            own_broker.resume()

    pausing = Thread(target=pause, daemon=True)
    pausing.start()
    settings = Settings(guarantee=guarantee, commit_interval=timedelta(milliseconds=300), state_dir=str(tmp_path / "s"))
    report = run(build(name, calls), system=system, until="end", settings=settings)
    pausing.join()

    assert (report.read, report.written, report.failed) == ({f"{name}-in": CALLS}, {f"{name}-out": CALLS}, {})
    # The loop went on while commits waited for the broker.
    assert calls.longest < PAUSE / 2
