"""The journal: what is visible, what a torn or damaged file means, and compaction."""

import shutil
from pathlib import Path

import pytest
from msgspec.msgpack import encode

from fluvial.dsl.errors import SystemProblem
from fluvial.runtime.systems.log import frames
from fluvial.runtime.systems.log.index import Created, JournalEntry, Published, Snapshot
from fluvial.runtime.systems.log.journal import Journal


def add(journal: Journal, entry: JournalEntry) -> None:
    with journal.exclusive():
        journal.add(entry)


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path, create=True, fsync=False)


def test_entries_are_seen_by_others(journal: Journal, tmp_path: Path) -> None:
    other = Journal(tmp_path)
    add(journal, Created("clicks", 2))
    assert list(other.refresh().streams) == ["clicks"]


def test_a_log_that_is_not_there_is_not_made_by_reading(tmp_path: Path) -> None:
    with pytest.raises(SystemProblem, match=r"(?s)there is no log in .*nowhere.*correct the path"):
        Journal(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()


def test_a_torn_tail_is_ignored_and_then_cut(journal: Journal, tmp_path: Path) -> None:
    other = Journal(tmp_path)
    entry = frames.make(1, [encode(Created("torn", 1))])
    for cut in range(1, len(entry)):
        with (tmp_path / "journal").open("ab") as file:
            file.write(entry[:cut])
        assert "torn" not in other.refresh().streams
        add(journal, Created(f"after-{cut}", 1))
        assert f"after-{cut}" in other.refresh().streams
    assert Journal(tmp_path).refresh().streams.keys() == other.refresh().streams.keys()


def test_nothing_of_a_long_torn_entry_is_left_behind_a_short_one(journal: Journal, tmp_path: Path) -> None:
    with (tmp_path / "journal").open("ab") as file:
        file.write(frames.make(1, [encode(Created("x" * 200, 1))])[:-1])
    add(journal, Created("clicks", 1))
    assert list(Journal(tmp_path).refresh().streams) == ["clicks"]


def test_a_torn_tail_replaced_by_an_entry_of_its_length_is_seen(tmp_path: Path) -> None:
    other, entry = Journal(tmp_path, create=True), frames.make(1, [encode(Created("clicks", 1))])
    path = tmp_path / "journal"
    whole = path.read_bytes()
    path.write_bytes(whole + bytes(len(entry)))
    assert list(other.refresh().streams) == []
    path.write_bytes(whole + entry)
    assert list(other.refresh().streams) == ["clicks"]


def test_an_entry_that_is_damaged_is_not_cut_with_those_behind_it(journal: Journal, tmp_path: Path) -> None:
    path = tmp_path / "journal"
    at = path.stat().st_size
    add(journal, Created("clicks", 1))
    add(journal, Created("visits", 1))
    for place in (at, at + frames.HEADER_BYTES):
        data = bytearray(path.read_bytes())
        data[place] ^= 1
        path.write_bytes(data)
        with pytest.raises(
            SystemProblem, match=rf"(?s)journal is damaged at byte {at}: .*restore the whole log from a copy"
        ):
            Journal(tmp_path)
        data[place] ^= 1
        path.write_bytes(data)
    assert len(Journal(tmp_path).refresh().streams) == 2


def test_a_long_journal_is_replaced_by_what_it_says(tmp_path: Path) -> None:
    journal, other = (Journal(tmp_path, create=True, fsync=False, compact_bytes=500) for _ in range(2))
    add(journal, Created("clicks", 1))
    for number in range(100):
        add(journal, Published([], [("writer", number)], {"group": {"task": b"%d" % number}}))
        assert (tmp_path / "journal").stat().st_size < 600
    add(other, Created("visits", 1))
    for index in (journal.refresh(), other.refresh(), Journal(tmp_path).refresh()):
        assert (set(index.streams), index.checkpoints) == ({"clicks", "visits"}, {"group": {"task": b"99"}})
        assert index.has_published("writer", 50)
        assert not index.has_published("writer", 100)


def test_a_full_disk_at_compaction_is_no_failure_of_the_entry(tmp_path: Path) -> None:
    journal = Journal(tmp_path, create=True, fsync=False, compact_bytes=1)
    (tmp_path / "journal.new").mkdir()
    add(journal, Created("clicks", 1))
    assert list(Journal(tmp_path).refresh().streams) == ["clicks"]


@pytest.mark.parametrize("payload", [encode(Snapshot(99, {}, {}, {})), b"\xc1"])
def test_another_format_is_refused(tmp_path: Path, payload: bytes) -> None:
    (tmp_path / "journal").write_bytes(frames.make(1, [payload]))
    with pytest.raises(SystemProblem, match=r"(?s)has the format .*the format 2\n.*use that version"):
        Journal(tmp_path)


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemProblem, match=r"could not make .*file/log: Not a directory"):
        Journal(tmp_path / "file" / "log", create=True)


def test_a_log_that_goes_away_is_named(journal: Journal, tmp_path: Path) -> None:
    (tmp_path / "journal").unlink()
    with pytest.raises(SystemProblem, match=r"(?s)journal is gone\n.*restore the whole log from a copy"):
        journal.refresh()


def test_a_journal_knows_that_its_log_was_removed_or_made_anew(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    journal = Journal(folder, create=True, compact_bytes=1)
    for number in range(9):  # long enough for a file with a snapshot to replace it
        add(journal, Created(f"clicks-{number}", 1))
    assert not journal.removed
    shutil.rmtree(folder)
    assert journal.removed
    again = Journal(folder, create=True)
    assert (journal.removed, again.removed) == (True, False)
