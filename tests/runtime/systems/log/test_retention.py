"""What has been passed is removed, file by file, and never what may still be read or published."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from faults.commit_deaths import Killed
from fluvial.dsl import SystemProblem
from fluvial.dsl.message import Record
from fluvial.runtime.systems.log import LogProducer, LogReader, LogSystem
from fluvial.runtime.systems.log.transaction import LogTransaction
from generators.how_many import examples

Numbered = Callable[..., list[Record]]


def files(log: LogSystem) -> set[str]:
    return {path.name for path in log.directory.glob("streams/own/*/*.seg")}


def published(producer: LogProducer, *parts: list[Record]) -> None:
    for records in parts:
        writing = producer.begin()
        writing.append("own", 0, records)
        writing.commit()


@pytest.fixture
def small(tmp_path: Path) -> LogSystem:
    """A log with the stream "own", of whose segment files each holds one transaction."""
    log = LogSystem(tmp_path, fsync=False, segment_bytes=1)
    log.admin().create("own", 1)
    return log


def test_offsets_that_were_removed_are_refused(small: LogSystem, numbered: Numbered) -> None:
    producer, behind = small.producer(), small.consumer(max_records=1)
    published(producer, numbered(5), numbered(5, 9), numbered(9, 12))
    behind.assign({("own", 0): 0})
    producer.trim({("own", 0): 8})
    assert (small.admin().starts("own"), small.admin().ends("own")) == ([5], [12])
    attempts: list[Callable[[], object]] = [
        lambda: small.consumer().assign({("own", 0): 4}),
        lambda: LogReader(small.directory).read("own", 0, 4, 6),
        behind.poll,
    ]
    for attempt in attempts:
        with pytest.raises(SystemProblem, match=r"outside partition 0 of stream 'own'(?s:.*)expected: 5 to 12"):
            attempt()


def test_a_reader_that_is_ahead_goes_on(small: LogSystem, numbered: Numbered) -> None:
    producer, reading = small.producer(), small.consumer(max_records=3)
    published(producer, numbered(4), numbered(4, 8))
    reading.assign({("own", 0): 0})
    seen = [record for _ in range(2) for batch in reading.poll() for record in batch.records]
    producer.trim({("own", 0): 6})
    seen += [record for batch in reading.poll() for record in batch.records]
    assert (seen, len(files(small))) == (numbered(8), 1)


def test_removed_files_are_closed(small: LogSystem, numbered: Numbered) -> None:
    producer, reading = small.producer(), small.consumer()
    reading.assign({("own", 0): 0})
    for start in range(9):
        published(producer, numbered(start, start + 1))
        reading.poll()
        producer.trim({("own", 0): start + 1})
    reading.poll()
    opened = [*producer._segments.files._open, *reading._files._open]
    # One that was being written when its records were passed goes with the next.
    assert sum(not path.exists() for path in opened) <= 1


def test_what_is_prepared_stays(small: LogSystem, read: Callable[..., list[Record]], numbered: Numbered) -> None:
    producer = small.producer()
    writing = producer.begin()
    writing.append("own", 0, numbered(4, 8))
    token = writing.prepare("", {})
    published(producer, numbered(2), numbered(2, 4))
    producer.trim({("own", 0): 4})
    producer.publish(token)
    assert read(small, "own", offset=4) == numbered(4, 8)


def test_where_no_file_is_freed_nothing_is_written(small: LogSystem, numbered: Numbered) -> None:
    producer = small.producer()
    published(producer, numbered(4))
    size = (small.directory / "journal").stat().st_size
    producer.trim({("own", 0): 3})
    assert (small.directory / "journal").stat().st_size == size


def test_a_file_that_is_being_written_is_removed_once_all_of_it_is_passed(
    small: LogSystem, read: Callable[..., list[Record]], numbered: Numbered
) -> None:
    producer = small.producer()
    published(producer, numbered(4))
    producer.trim({("own", 0): 4})
    assert (small.admin().starts("own"), files(small)) == ([4], set())
    published(producer, numbered(4, 6))
    assert read(small, "own", offset=4) == numbered(4, 6)


def test_files_of_others_stay_as_long_as_they_may_publish(
    small: LogSystem, read: Callable[..., list[Record]], numbered: Numbered
) -> None:
    other, producer = small.producer("other"), small.producer()
    published(other, numbered(4))
    writing = other.begin()
    writing.append("own", 0, numbered(4, 8))
    token = writing.prepare("", {})
    others: list[Callable[[], list[str] | None]] = [lambda: ["other"], lambda: None]
    for known in others:
        producer.trim({("own", 0): 4}, known)
        assert len(files(small)) == 2
    producer.publish(token)
    assert read(small, "own", offset=4) == numbered(4, 8)
    other.trim({("own", 0): 0})
    assert len(files(small)) == 1
    producer.trim({("own", 0): 8})
    assert files(small) == set()


@dataclass
class Writing:
    """A transaction of the producer that is alive, and what it should make visible."""

    transaction: LogTransaction
    records: dict[int, list[Record]] = field(default_factory=dict)
    token: bytes = b""


class TrimmingMachine(RuleBasedStateMachine):
    """A stream of two partitions with one producer after the other, each killed at any moment, also while it trims."""

    writings = Bundle[int]("writings")

    def __init__(self) -> None:
        super().__init__()
        self.home = TemporaryDirectory()
        writers = count()
        self.log = LogSystem(
            self.home.name, fsync=False, compact_bytes=600, segment_bytes=300, new_writer=lambda: f"w{next(writers)}"
        )
        self.log.admin().create("own", 2)
        self.producer = self.log.producer()
        self.numbers = count()
        self.alive: dict[int, Writing] = {}
        self.expected: list[list[Record]] = [[], []]
        self.passed = [0, 0]
        self.follower = self.log.consumer(max_records=3)
        self.follower.assign({("own", 0): 0, ("own", 1): 0})

    def teardown(self) -> None:
        self.home.cleanup()

    @rule(target=writings)
    def begin(self) -> int:
        number = next(self.numbers)
        self.alive[number] = Writing(self.producer.begin())
        return number

    @rule(number=writings, partition=st.integers(0, 1), size=st.integers(0, 20))
    def append(self, number: int, partition: int, size: int) -> None:
        writing = self.alive.get(number)
        if writing is not None and not writing.token:
            records: list[Record] = [(b"key", b"%d" % number, number, ()) for number in islice(self.numbers, size)]
            writing.transaction.append("own", partition, records)
            writing.records.setdefault(partition, []).extend(records)

    @rule(number=writings)
    def prepare(self, number: int) -> None:
        writing = self.alive.get(number)
        if writing is not None and not writing.token:
            writing.token = writing.transaction.prepare("group", {})

    @rule(number=consumes(writings))
    def publish(self, number: int) -> None:
        writing = self.alive.pop(number, None)
        if writing is None:
            return
        if writing.token:
            for _ in range(2):
                self.producer.publish(writing.token)
        else:
            writing.transaction.commit("group", {})
        self.show(writing)

    @rule()
    def kill(self) -> None:
        """The next producer publishes what was prepared, before it does anything else."""
        self.producer = self.log.producer()
        for writing in self.alive.values():
            if writing.token:
                self.producer.publish(writing.token)
                self.show(writing)
        self.alive.clear()

    @rule()
    def follow(self) -> None:
        """The reader of the stream goes on."""
        for batch in self.follower.poll():
            start = self.passed[batch.partition]
            assert batch.records == self.expected[batch.partition][start : batch.next_offset]
            self.passed[batch.partition] = batch.next_offset

    @rule()
    def trim(self) -> None:
        self.producer.trim({("own", partition): at for partition, at in enumerate(self.passed)})
        named = {name for extents in self.producer._journal.refresh().streams["own"] for name in extents.names}
        assert files(self.log) <= named | {*self.producer._segments.unpublished()}

    @rule()
    def trim_and_die(self) -> None:
        """It dies before the first file is removed."""

        def die(_: Path, *, missing_ok: bool) -> None:
            del missing_ok
            raise Killed

        with patch.object(Path, "unlink", die):
            try:
                self.trim()
            except Killed:
                self.kill()

    @invariant()
    def what_was_not_passed_can_be_read(self) -> None:
        admin, reader = self.log.admin(), LogReader(self.home.name)
        assert admin.ends("own") == [len(records) for records in self.expected]
        for partition, start in enumerate(admin.starts("own")):
            assert start <= self.passed[partition]
            end = len(self.expected[partition])
            read = [record for batch in reader.read("own", partition, start, end) for record in batch.records]
            assert read == self.expected[partition][start:]

    def show(self, writing: Writing) -> None:
        for partition, records in writing.records.items():
            self.expected[partition] += records


TestTrimming = TrimmingMachine.TestCase
TestTrimming.settings = settings(max_examples=examples(100), stateful_step_count=40)
