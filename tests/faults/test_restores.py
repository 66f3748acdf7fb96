"""State that is lost, damaged or behind comes back from its changelog, and no more of that is read than is needed."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest
from msgspec.structs import replace

from engines.targets import contents
from faults.deaths import Stage, stage, whole
from faults.mortal import Order, obey
from fluvial.dsl import SystemProblem
from fluvial.planner.settings import Guarantee
from fluvial.runtime.local.commit import changelog
from fluvial.runtime.local.commit import restore as restoring
from fluvial.runtime.systems.contract import Consumer
from kafka.broker import Broker

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
LONG = pytest.mark.long

OUTPUT = "out"
CHANGELOG = "counts-counts-changelog"
NEVER = 1 << 60


def work_off(on: Stage, pipeline: str = "", point: str = "after LocalTask.committed", call: int = NEVER) -> None:
    """Process all there is, and die: when all is committed, or at a point."""
    order = replace(on.order(), point=point, call=call, batch=500, pipeline=pipeline or on.pipeline)
    run = on.start(order)
    assert run.wait() == -9, run.errors


def to_the_end(on: Stage, pipeline: str = "") -> int:
    """Run to the end of the input, in this process; the number of records that were restored."""
    with restored() as numbers:
        assert obey(replace(on.order(until="end"), batch=500, pipeline=pipeline or on.pipeline)) == 0
    return sum(numbers)


@contextmanager
def restored() -> Iterator[list[int]]:
    numbers: list[int] = []
    replay = changelog.replay

    def noting(consumer: Consumer, spans: Sequence[changelog.ChangelogRange], told: Callable[[int, int], None]) -> None:
        left = sum(span.end - span.start for span in spans)

        def both(records: int, passed: int) -> None:
            nonlocal left
            left -= passed
            numbers.append(records)
            told(records, passed)

        replay(consumer, spans, both)
        assert left == 0, "marks of transactions take offsets too"

    with patch.object(restoring, "replay", noting):
        yield numbers


@contextmanager
def counting(broker: Broker, guarantee: Guarantee, keys: int) -> Iterator[Stage]:
    """A stage on which so many keys have been counted once."""
    with stage(broker, "counts", guarantee) as on:
        on.feed(keys // 2)
        work_off(on)
        yield on


def assert_counted(on: Stage) -> None:
    """Each word has been counted as often as it was there, and told once."""
    words = Counter((value or b"").decode() for records in whole(on.portions) for _, value, _, _ in records)
    told = Counter((value or b"").decode() for _, value, _, _ in on.outputs()[OUTPUT])
    assert told == Counter(f"{word} {number}" for word, number in words.items())


@pytest.mark.parametrize("guarantee", [pytest.param("at_least_once", marks=LONG), "exactly_once"])
@pytest.mark.parametrize("keys", [2_000, pytest.param(100_000, marks=[pytest.mark.long, pytest.mark.timeout(1800)])])
def test_state_that_is_lost_is_restored_whole(broker: Broker, keys: int, guarantee: Guarantee) -> None:
    with counting(broker, guarantee, keys) as on:
        on.lose(on.order())
        logged = len(contents(on.system, CHANGELOG))
        assert logged >= keys

        assert to_the_end(on) == logged

        assert_counted(on)


def test_of_the_changelog_of_a_store_that_is_intact_nothing_is_read(broker: Broker) -> None:
    with counting(broker, "at_least_once", 2_000) as on:
        assert to_the_end(on) == 0
        assert_counted(on)


def test_of_the_changelog_of_a_store_that_is_behind_the_tail_alone_is_read(broker: Broker) -> None:
    with counting(broker, "exactly_once", 2_000) as on:
        before = len(contents(on.system, CHANGELOG))
        on.feed(10)
        tail = 0
        while not tail:  # the transactions that read and pass on the words come first, and change no state
            work_off(on, point="before ChangelogCommit._write", call=0)
            tail = len(contents(on.system, CHANGELOG)) - before
        assert tail < before / 10

        assert 0 < to_the_end(on) <= tail

        assert_counted(on)


@pytest.mark.parametrize(
    "files", ["MANIFEST-*", *(pytest.param(name, marks=LONG) for name in ("*.sst", "*.log", "CURRENT"))]
)
def test_state_that_is_damaged_is_rebuilt(broker: Broker, files: str) -> None:
    with counting(broker, "exactly_once", 2_000) as on:
        work_off(on)  # opened again, a store writes what its log holds into tables
        damage(on.order(), files)
        on.feed(10)
        first = on.start(replace(on.order(until="end"), batch=500))
        code = first.wait()
        assert code in (0, 4), first.errors
        if code == 4:
            assert "start again: the store will be rebuilt from its changelog" in first.errors, first.errors
            to_the_end(on)
        assert_counted(on)


def damage(order: Order, files: str) -> None:
    """Turn over bits all over the files of a kind."""
    found = [path for path in Path(order.state).rglob(files) if path.stat().st_size]
    assert found or files == "*.log"
    for path in found:
        data = bytearray(path.read_bytes())
        for at in range(0, len(data), 97):
            data[at] ^= 0xFF
        path.write_bytes(data)


@pytest.mark.parametrize("loses", [False, pytest.param(True, marks=LONG)])
def test_a_changelog_that_is_gone_is_reported(broker: Broker, loses: bool, capsys: pytest.CaptureFixture[str]) -> None:
    with counting(broker, "at_least_once", 100) as on:
        if loses:
            on.lose(on.order())
        broker.remove_topics(on.prefix + CHANGELOG)

        assert obey(on.order(until="end")) == SystemProblem.exit_code

        told = capsys.readouterr().err
        assert f"the changelog '{CHANGELOG}' ends at offset 0" in told
        assert "bring the stream back" in told


def test_a_pipeline_that_was_changed_goes_on_from_its_checkpoints(broker: Broker) -> None:
    with counting(broker, "exactly_once", 100) as on:
        on.system.admin().create("more", 2)
        writing = on.system.producer().begin()
        for partition in range(2):
            writing.append("more", partition, on.portions[0][partition])
        writing.commit()
        work_off(on, "counts of two")
        on.feed(10)
        to_the_end(on)

        on.portions.append(on.portions[0])
        assert_counted(on)
