"""Reading: from any offset, by any process, and never damaged bytes."""

import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from fluvial.dsl.errors import SystemProblem
from fluvial.dsl.message import Record
from fluvial.runtime.systems.log import LogReader, LogSystem
from fluvial.runtime.systems.log.consumer import LogConsumer
from fluvial.runtime.systems.log.frames import HEADER_BYTES
from fluvial.runtime.systems.log.marks import MARK_BYTES

Numbered = Callable[..., list[Record]]
Read = Callable[..., list[Record]]


def commit(log: LogSystem, records: list[Record]) -> None:
    producer = log.producer()
    writing = producer.begin()
    writing.append("clicks", 0, records)
    writing.commit()


def test_records_larger_than_frames_and_chunks_are_read(log: LogSystem, read: Read) -> None:
    sizes = [10, 100_000, 3_000_000, 10, 140_000, 140_000, 300_000, 10]
    records: list[Record] = [(None, bytes(size), size, ()) for size in sizes]
    commit(log, records)
    for offset in range(len(records)):
        assert read(log, "clicks", 0, offset) == records[offset:]


def test_large_records_come_in_small_batches(log: LogSystem) -> None:
    commit(log, [(None, bytes(100_000), 0, ()) for _ in range(10)])
    consumer = log.consumer()
    consumer.assign({("clicks", 0): 0})
    assert [len(batch.records) for _ in range(4) for batch in consumer.poll()] == [3, 3, 3, 1]


def test_any_offset_of_many_small_frames_is_found(log: LogSystem, read: Read, numbered: Numbered) -> None:
    producer = log.producer()
    for number in range(300):
        writing = producer.begin()
        writing.append("clicks", 0, numbered(number * 3, number * 3 + 3))
        writing.commit()
    for offset in (0, 1, 449, 450, 898, 899):
        assert read(log, "clicks", 0, offset) == numbered(offset, 900)


@pytest.mark.parametrize("place", [MARK_BYTES, MARK_BYTES + HEADER_BYTES, -1])
def test_a_damaged_frame_is_named(log: LogSystem, read: Read, numbered: Numbered, place: int) -> None:
    commit(log, numbered(5))
    [path] = log.directory.glob("streams/*/*/*.seg")
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)
    with pytest.raises(
        SystemProblem,
        match=rf"{path.name} is damaged at byte {MARK_BYTES}\n.*'clicks', partition 0, from offset 0",
    ):
        read(log, "clicks")


def test_a_frame_that_was_cut_is_named(log: LogSystem, read: Read, numbered: Numbered) -> None:
    commit(log, numbered(5))
    [path] = log.directory.glob("streams/*/*/*.seg")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(SystemProblem, match=f"is damaged at byte {MARK_BYTES}"):
        read(log, "clicks")


def test_records_of_the_wrong_types_are_named(log: LogSystem, read: Read) -> None:
    commit(log, [("text", b"", 0, ())])  # type: ignore[list-item]
    with pytest.raises(SystemProblem, match=f"is damaged at byte {MARK_BYTES}"):
        read(log, "clicks")


def test_a_file_that_is_gone_is_named(log: LogSystem, read: Read, numbered: Numbered) -> None:
    commit(log, numbered(5))
    [path] = log.directory.glob("streams/*/*/*.seg")
    path.unlink()
    with pytest.raises(
        SystemProblem, match=rf"{path.name} is gone\n  at stream .clicks., partition 0, from offset 0 on"
    ):
        read(log, "clicks")


def test_waiting_looks_ever_less_often(log: LogSystem) -> None:
    pauses: list[float] = []
    consumer = LogConsumer(log.directory, max_records=10, sleep=pauses.append)
    consumer.assign({("clicks", 0): 0})
    assert consumer.poll(timeout=0.03) == []
    assert pauses == pytest.approx([0.0005, 0.001, 0.002, 0.004, 0.008, 0.01, 0.0045])


def test_waiting_ends_with_the_first_record(log: LogSystem, numbered: Numbered) -> None:
    consumer = LogConsumer(log.directory, max_records=10, sleep=lambda _: commit(log, numbered(1)))
    consumer.assign({("clicks", 0): 0})
    assert [batch.records for batch in consumer.poll(timeout=60)] == [numbered(1)]


def test_a_reader_travels_as_a_path(log: LogSystem, numbered: Numbered) -> None:
    commit(log, numbered(100))
    reader = LogReader(log.directory)
    assert reader.ends("clicks") == [100, 0]
    travelled: LogReader = pickle.loads(pickle.dumps(reader))
    batches = list(travelled.read("clicks", 0, 10, 90, max_records=30))
    assert [list(batch.offsets) for batch in batches] == [[*range(10, 40)], [*range(40, 70)], [*range(70, 90)]]
    assert [record for batch in batches for record in batch.records] == numbered(10, 90)
    travelled.close()
    assert travelled.ends("clicks") == [100, 0]


def test_a_log_travels_as_its_settings(log: LogSystem, numbered: Numbered) -> None:
    commit(pickle.loads(pickle.dumps(log)), numbered(1))
    assert log.admin().ends("clicks") == [1, 0]


@pytest.mark.parametrize(("start", "end"), [(0, 6), (-1, 2), (6, 6)])
def test_a_range_that_is_not_published_is_refused(log: LogSystem, numbered: Numbered, start: int, end: int) -> None:
    commit(log, numbered(5))
    with pytest.raises(SystemProblem, match=r"(?s)lies outside partition 0 .*expected: 0 to 5"):
        LogReader(log.directory).read("clicks", 0, start, end)


def test_a_reader_makes_no_log(tmp_path: Path) -> None:
    with pytest.raises(SystemProblem, match="there is no log in"):
        LogReader(tmp_path / "nowhere").ends("clicks")


def test_a_folder_that_was_removed_is_no_matter_of_permissions(log: LogSystem, numbered: Numbered) -> None:
    commit(log, numbered(5))
    shutil.rmtree(log.directory / "streams")
    with pytest.raises(SystemProblem, match=r"(?s)streams/clicks/0.* removed.*restore the whole log") as caught:
        commit(log, numbered(5))
    assert "permissions" not in str(caught.value)
