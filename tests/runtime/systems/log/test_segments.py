"""Segment files: who writes them, when new ones begin, and what is given back."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from fluvial.dsl.errors import SystemProblem, UsageError
from fluvial.dsl.message import Record
from fluvial.runtime.systems.log import LogSystem
from fluvial.runtime.systems.log.marks import MARK_BYTES

Numbered = Callable[..., list[Record]]
Read = Callable[..., list[Record]]


def files(log: LogSystem) -> list[Path]:
    return sorted(log.directory.glob("streams/*/*/*.seg"))


def test_a_new_file_begins_where_one_is_full(tmp_path: Path, read: Read, numbered: Numbered) -> None:
    log = LogSystem(tmp_path, fsync=False, segment_bytes=100 + MARK_BYTES)
    log.admin().create("clicks", 1)
    producer = log.producer()
    for number in range(10):
        writing = producer.begin()
        writing.append("clicks", 0, numbered(number * 5, number * 5 + 5))
        writing.commit()
    assert len(files(log)) == 5
    assert read(log, "clicks") == numbered(50)


def test_each_writer_has_files_of_its_own(log: LogSystem, read: Read, numbered: Numbered) -> None:
    writings = [log.producer().begin() for _ in range(3)]
    for number, writing in enumerate(writings):
        writing.append("clicks", 0, numbered(number, number + 1))
    for writing in reversed(writings):
        writing.commit()
    assert len(files(log)) == 3
    assert [record[2] for record in read(log, "clicks")] == [2, 1, 0]


def test_transactions_of_one_writer_may_overlap(log: LogSystem, read: Read, numbered: Numbered) -> None:
    producer = log.producer()
    first, second, third = (producer.begin() for _ in range(3))
    for start in range(0, 9_000, 3_000):
        for step, writing in enumerate((first, second, third)):
            writing.append("clicks", 0, numbered(start + step * 1_000, start + step * 1_000 + 1_000))
    third.commit()
    first.commit()
    assert [record[2] // 1_000 for record in read(log, "clicks")[::1_000]] == [2, 5, 8, 0, 3, 6]
    assert len(files(log)) == 1


def test_closing_gives_back_what_was_not_prepared(log: LogSystem, read: Read, numbered: Numbered) -> None:
    producer = log.producer()
    kept, dropped = producer.begin(), producer.begin()
    kept.append("clicks", 0, numbered(3))
    token = kept.prepare("", {})
    [file] = files(log)
    size = file.stat().st_size
    for partition in (0, 1):
        dropped.append("clicks", partition, numbered(10_000))
    assert len(files(log)) == 2
    producer.close()
    assert [(path, path.stat().st_size) for path in files(log)] == [(file, size)]
    log.producer().publish(token)
    assert read(log, "clicks") == numbered(3)


def test_a_closed_producer_writes_no_more(log: LogSystem, numbered: Numbered) -> None:
    producer = log.producer()
    writing = producer.begin()
    writing.append("clicks", 0, numbered(1))
    producer.close()
    with pytest.raises(UsageError, match="this producer is closed"):
        writing.prepare("", {})


def test_a_producer_stays_in_its_process(log: LogSystem, monkeypatch: pytest.MonkeyPatch) -> None:
    producer, process = log.producer(), os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: process + 1)
    with pytest.raises(UsageError, match=f"made in process {process} and used in {process + 1}"):
        producer.begin()


def test_a_child_that_closes_its_parents_producer_drops_nothing(
    log: LogSystem, numbered: Numbered, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = log.producer()
    producer.begin().append("clicks", 0, numbered(10_000))
    monkeypatch.setattr(os, "getpid", lambda: -1)
    producer.close()
    assert len(files(log)) == 1


def test_more_partitions_are_written_and_read_than_files_may_be_open(tmp_path: Path, numbered: Numbered) -> None:
    log = LogSystem(tmp_path)
    log.admin().create("wide", 250)
    producer = log.producer()
    for _ in range(2):
        writing = producer.begin()
        for partition in range(250):
            writing.append("wide", partition, numbered(2))
        writing.commit()
    consumer = log.consumer()
    consumer.assign({("wide", partition): 0 for partition in range(250)})
    assert {len(batch.records) for batch in consumer.poll()} == {4}
    assert len(files(log)) == 250


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.ENOSPC, "free space on the disk"),
        (errno.EFBIG, "raise the limit of the size of files"),
        (errno.EIO, "check the disk and the permissions"),
    ],
)
def test_a_write_that_fails_names_the_file_and_the_remedy(
    number: int, remedy: str, log: LogSystem, numbered: Numbered, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    writing = log.producer().begin()
    writing.append("clicks", 0, numbered(1))
    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(SystemProblem, match=rf"(?s)could not write to .*\.seg: {os.strerror(number)}.*to do: {remedy}"):
        writing.commit()
    monkeypatch.undo()
    assert log.admin().ends("clicks") == [0, 0]


def test_a_journal_that_cannot_grow_publishes_nothing(
    log: LogSystem, read: Read, numbered: Numbered, monkeypatch: pytest.MonkeyPatch
) -> None:
    pwrite = os.pwrite

    def half(number: int, data: memoryview, at: int) -> int:
        if at < 50:
            return pwrite(number, data, at)
        pwrite(number, data[:5], at)
        raise OSError(28, "No space left on device")

    producer = log.producer()
    writing = producer.begin()
    writing.append("clicks", 0, numbered(1))
    token = writing.prepare("", {})
    monkeypatch.setattr(os, "pwrite", half)
    with pytest.raises(SystemProblem, match=r"could not write to .*journal: No space left"):
        producer.publish(token)
    monkeypatch.undo()
    producer.publish(token)
    assert read(log, "clicks") == numbered(1)
