"""Damaged files: whatever is cut, removed or changed, what was committed is read, or an error names the file."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from itertools import count, islice
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluvial.dsl.errors import SystemProblem
from fluvial.dsl.message import Record
from fluvial.runtime.systems.contract import StreamPartition
from fluvial.runtime.systems.log import LogReader, LogSystem, accept_loss, frames, marks
from generators.how_many import examples

Contents = dict[StreamPartition, list[Record]]
Numbered = Callable[..., list[Record]]
STREAM_PARTITIONS: list[StreamPartition] = [("clicks", 0), ("clicks", 1), ("visits", 0)]


def small(directory: Path) -> LogSystem:
    """A log that compacts its journal and begins new segments all the time."""
    writers = count()
    return LogSystem(
        directory,
        fsync=False,
        compact_bytes=600,
        segment_bytes=300,
        new_writer=lambda: f"w{os.getpid()}-{next(writers)}",
    )


def contents(log: LogSystem) -> tuple[Contents, dict[str, bytes]]:
    """All that a log says it has, read by a process that opens it anew."""
    admin, reader = log.admin(), LogReader(log.directory)
    found: Contents = {}
    for stream, partitions in admin.streams().items():
        for number, end in zip(range(partitions), admin.ends(stream), strict=True):
            batches = reader.read(stream, number, admin.starts(stream)[number], end)
            found[stream, number] = [record for batch in batches for record in batch.records]
    return found, admin.checkpoints("group")


def write(log: LogSystem, partition: StreamPartition, records: list[Record]) -> None:
    with closing(log.producer()) as producer:
        writing = producer.begin()
        writing.append(*partition, records)
        writing.commit("group", {"task": b"%d" % len(records)})


@dataclass
class History:
    """What was done to a log, with what it has to hold."""

    log: LogSystem
    expected: Contents = field(default_factory=lambda: {partition: [] for partition in STREAM_PARTITIONS})
    checkpoints: dict[str, bytes] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=count)
    torn: bool = False


def go_on(history: History, data: st.DataObject) -> None:
    """Some steps of writers: commits, transactions that are staged or prepared alone, deaths, torn tails."""
    producer = history.log.producer()
    for step in data.draw(
        st.lists(st.sampled_from(["commit", "checkpoint", "stage", "prepare", "die", "tear"]), max_size=12)
    ):
        if step == "die":
            producer = history.log.producer()  # the one before is never closed
            continue
        if step == "tear" and history.torn:
            continue  # a writer cuts what is torn before it writes
        history.torn = step == "tear" or (history.torn and step not in ("commit", "checkpoint"))
        if step == "tear":
            with (history.log.directory / "journal").open("ab") as journal:
                journal.write(frames.make(1, [b"an entry that was never finished"])[: data.draw(st.integers(1, 40))])
            continue
        writing, staged = producer.begin(), Contents()
        if step != "checkpoint":
            for partition in data.draw(st.lists(st.sampled_from(STREAM_PARTITIONS), min_size=1, max_size=3)):
                size = data.draw(st.integers(1, 5))
                records: list[Record] = [(b"key", b"%d" % one, one, ()) for one in islice(history.numbers, size)]
                writing.append(*partition, records)
                staged.setdefault(partition, []).extend(records)
        task = {data.draw(st.sampled_from(["one", "two"])): b"%d" % next(history.numbers)}
        if step == "prepare":
            writing.prepare("group", task)
        elif step != "stage":
            writing.commit("group", task)
            history.checkpoints |= task
            for partition, records in staged.items():
                history.expected[partition] += records


def damage(path: Path, data: st.DataObject) -> str:
    """Remove a file, cut it, or change a bit of it."""
    size = path.stat().st_size
    kinds = ["remove", *(["cut", "change"] if size else [])]
    kind = data.draw(st.sampled_from(kinds))
    if kind == "remove":
        path.unlink()
    elif kind == "cut":
        os.truncate(path, data.draw(st.integers(0, size - 1) | st.integers(max(0, size - 100), size - 1)))
    else:
        bytes_of = bytearray(path.read_bytes())
        bytes_of[data.draw(st.integers(0, size - 1) | st.integers(max(0, size - 100), size - 1))] ^= 1 << data.draw(
            st.integers(0, 7)
        )
        with path.open("r+b") as file:
            file.write(bytes_of)
    return kind


def lose_a_bit(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def files(directory: Path) -> list[Path]:
    return [directory / "journal", directory / "lock", *marks.segments(directory)]


@settings(max_examples=examples(600))
@given(st.data())
def test_a_damaged_file_is_named_or_does_no_harm(data: st.DataObject) -> None:
    with TemporaryDirectory() as home, ExitStack() as stack:
        history = History(small(Path(home)))
        history.log.admin().create("clicks", 2)
        history.log.admin().create("visits", 1)
        go_on(history, data)
        follower = stack.enter_context(closing(history.log.consumer(max_records=2)))
        follower.assign(dict.fromkeys(STREAM_PARTITIONS, 0))
        seen: Contents = {partition: [] for partition in STREAM_PARTITIONS}
        for batch in follower.poll():
            seen[batch.stream, batch.partition] += batch.records
        go_on(history, data)

        damaged = [
            (path, damage(path, data))
            for path in data.draw(st.lists(st.sampled_from(files(Path(home))), min_size=1, max_size=3, unique=True))
        ]

        # those who were reading
        problems = []
        try:
            while batches := follower.poll():
                for batch in batches:
                    seen[batch.stream, batch.partition] += batch.records
            assert seen == history.expected
        except SystemProblem as problem:
            problems.append(str(problem))
        assert all(records == history.expected[partition][: len(records)] for partition, records in seen.items())

        # those who come, and write
        more_of: list[list[Record]] = [[], [(None, b"more", 0, ())]]
        for more in more_of:
            try:
                if more:
                    write(history.log, ("clicks", 1), more)
                    history.expected["clicks", 1] += more
                    history.checkpoints["task"] = b"1"
                assert contents(history.log) == (history.expected, history.checkpoints)
            except SystemProblem as problem:
                problems.append(str(problem))
        for told in problems:
            assert any(path.name in told for path, _ in damaged), (told, damaged)
            assert "xpected" in told


@pytest.fixture
def three(log: LogSystem, numbered: Numbered) -> LogSystem:
    """A log with three commits."""
    for start in range(0, 9, 3):
        write(log, ("clicks", 0), numbered(start, start + 3))
    return log


def test_a_journal_that_is_cut_at_any_byte_is_refused(three: LogSystem) -> None:
    journal = three.directory / "journal"
    whole = journal.read_bytes()
    for size in range(len(whole)):
        journal.write_bytes(whole[:size])
        with pytest.raises(SystemProblem, match=r"(?s)journal .*expected: .*restore the whole log.*accept_loss"):
            three.admin()
    journal.write_bytes(whole)
    assert three.admin().ends("clicks") == [9, 0]


def test_a_bit_of_the_last_entry_is_missed(three: LogSystem) -> None:
    lose_a_bit(three.directory / "journal", -1)
    expected = r"(?s)journal ends with entry 5, at byte \d+: .*entry 6, which was committed: .*lock has a mark of it"
    with pytest.raises(SystemProblem, match=expected):
        three.admin()


@pytest.mark.parametrize("others", [[], ["lock"]])
def test_a_journal_is_not_made_anew_over_segments(three: LogSystem, others: list[str]) -> None:
    for name in ["journal", *others]:
        (three.directory / name).unlink()
    for attempt in (three.admin, three.consumer, three.producer, lambda: LogReader(three.directory).ends("clicks")):
        with pytest.raises(SystemProblem, match=r"(?s)journal is gone\n.*restore the whole log from a copy"):
            attempt()
    assert not (three.directory / "journal").exists()


def test_segments_tell_of_a_journal_that_was_brought_back_with_its_lock(
    log: LogSystem, tmp_path: Path, numbered: Numbered
) -> None:
    write(log, ("clicks", 0), numbered(1))
    for name in ("journal", "lock"):
        shutil.copy(log.directory / name, tmp_path / f"{name}.copy")
    write(log, ("clicks", 1), numbered(1))
    for name in ("journal", "lock"):
        shutil.copy(tmp_path / f"{name}.copy", log.directory / name)
    with pytest.raises(
        SystemProblem, match=r"expected: entry 5, which was committed: .*/clicks/1/.*\.seg has a mark of it"
    ):
        log.admin()


def test_what_was_only_staged_is_no_loss(log: LogSystem, numbered: Numbered) -> None:
    writing = log.producer().begin()
    writing.append("clicks", 0, numbered(5_000))
    assert writing.size
    assert log.admin().ends("clicks") == [0, 0]


def test_a_reader_that_has_read_all_notices_that_it_had_not(three: LogSystem, numbered: Numbered) -> None:
    reading = three.consumer()
    reading.assign({("clicks", 0): 9})
    journal = three.directory / "journal"
    before = journal.read_bytes()
    write(three, ("clicks", 0), numbered(1))
    os.truncate(journal, len(before))
    with pytest.raises(SystemProblem, match=r"(?s)journal ends with entry 6.*expected: entry 7"):
        reading.poll()


def test_a_writer_notices_that_its_journal_was_cut(three: LogSystem, numbered: Numbered) -> None:
    writing = three.producer().begin()
    writing.append("clicks", 0, numbered(1))
    os.truncate(three.directory / "journal", 300)
    with pytest.raises(SystemProblem, match=r"(?s)journal was cut to 300 bytes\n.*the \d+ bytes that were read before"):
        writing.commit()


def test_a_lock_that_is_gone_is_missed(three: LogSystem) -> None:
    (three.directory / "lock").unlink()
    with pytest.raises(
        SystemProblem, match=r"(?s)lock was removed, cut or damaged\n.*expected: the number of the last entry"
    ):
        three.admin()
    accept_loss(three.directory)
    assert three.admin().ends("clicks") == [9, 0]


def test_a_mark_that_could_not_be_written_is_made_up_for(three: LogSystem, numbered: Numbered) -> None:
    lock = (three.directory / "lock").read_bytes()
    write(three, ("clicks", 0), numbered(1))
    (three.directory / "lock").write_bytes(lock)  # as if the writer had died before
    assert three.admin().ends("clicks") == [10, 0]
    write(three, ("clicks", 0), numbered(1))
    os.truncate(three.directory / "journal", (three.directory / "journal").stat().st_size - 1)
    with pytest.raises(SystemProblem, match="expected: entry 8"):
        three.admin()


def test_a_log_that_has_lost_commits_goes_on_where_that_is_accepted(three: LogSystem, numbered: Numbered) -> None:
    os.truncate(three.directory / "journal", (three.directory / "journal").stat().st_size - 1)
    accept_loss(three.directory)
    assert contents(three)[0]["clicks", 0] == numbered(6)
    write(three, ("clicks", 0), numbered(20, 22))
    assert contents(three)[0]["clicks", 0] == [*numbered(6), *numbered(20, 22)]


def test_a_damaged_mark_of_a_segment_is_named(three: LogSystem) -> None:
    [path, *_] = marks.segments(three.directory)
    with path.open("r+b") as file:
        file.write(bytes(range(marks.MARK_BYTES)))
    with pytest.raises(SystemProblem, match=rf"mark at the start of .*{path.name} is damaged"):
        three.admin()
    accept_loss(three.directory)
    assert three.admin().ends("clicks") == [9, 0]


KEPT = Path(__file__).with_name("version_1")
"""A log that the first version wrote: a snapshot and entries behind it, what a trim has left, and a token."""


@pytest.fixture
def kept(tmp_path: Path) -> LogSystem:
    return LogSystem(shutil.copytree(KEPT, tmp_path / "kept"), fsync=False)


def test_a_log_of_the_first_version_is_read_and_stays_as_it_is(kept: LogSystem) -> None:
    before = (kept.directory / "journal").read_bytes()
    admin, reader = kept.admin(), LogReader(kept.directory)
    assert (admin.starts("own"), admin.ends("own"), admin.ends("clicks")) == ([7], [12], [37, 4])
    assert admin.checkpoints("visits") == {"task-0": b"checkpoint 10", "task-1": b"checkpoint 11"}
    [own] = reader.read("own", 0, 7, 12)
    assert own.records[0] == (b"key107", b"value 107", 107, ())
    clicks = [record[2] for batch in reader.read("clicks", 0, 0, 37) for record in batch.records]
    assert clicks == [*(number for number in range(40) if number % 10 != 3), 300]
    assert (kept.directory / "journal").read_bytes() == before


def test_a_log_of_the_first_version_is_written_and_then_has_marks(kept: LogSystem, numbered: Numbered) -> None:
    producer = kept.producer()
    for _ in range(2):
        producer.publish((kept.directory / "token").read_bytes())
    writing = producer.begin()
    writing.append("own", 0, numbered(2))
    writing.commit()
    producer.trim({("own", 0): 9})
    admin = kept.admin()
    assert (admin.ends("own"), admin.ends("clicks"), admin.checkpoints("visits")["task-1"]) == (
        [14],
        [37, 6],
        b"from the token",
    )
    journal = kept.directory / "journal"
    os.truncate(journal, journal.stat().st_size - 1)
    with pytest.raises(SystemProblem, match="journal ends with entry"):
        kept.admin()
