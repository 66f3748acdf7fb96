"""What a task has of its journal in memory, and from where it has to be read again."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from fluvial.runtime.kernel.calls.call_journal import MessageName, PaneName
from fluvial.runtime.local.journals.task_journal import MOST_STRETCHES, TaskJournal, entries_between
from fluvial.runtime.local.task_setup import TaskSetup
from fluvial.runtime.size_limit import SizeLimit
from fluvial.runtime.state import MemoryStore
from fluvial.runtime.systems import MemorySystem
from fluvial.runtime.systems.contract import StreamPartition

PARTITION = ("p-ask-journal", 0)
IN = ("in", 0)


class Written:
    """A writer whose entries become durable when a test says so."""

    def __init__(self, end: int = 0) -> None:
        self.entries: list[tuple[bytes, bytes]] = []
        self.begin = end
        self.flushed: int | None = None

    def write(self, partition: StreamPartition, name: bytes, entry: bytes) -> None:
        assert partition == PARTITION
        self.entries.append((name, entry))

    def flush(self) -> None:
        self.flushed = self.begin + len(self.entries)

    def end(self, _: StreamPartition) -> int | None:
        return self.flushed

    def close(self) -> None:
        pass


def of_message(offset: int, number: int = 1) -> bytes:
    return msgspec.msgpack.encode(MessageName(*IN, offset, b"digest", number))


def of_pane(end: int, run: str = "") -> bytes:
    return msgspec.msgpack.encode(PaneName("w", b"key", end - 10, end, run, b"digest", 1))


def journal(writer: Any, start: int = 0, bucket: int = 0, elasticity: int = 1, **options: Any) -> TaskJournal:
    setup = TaskSetup("in/0", "in", 0, MemoryStore(), {}, bucket=bucket, elasticity=elasticity)
    return TaskJournal(PARTITION, setup, writer, start, **options)


def start(one: TaskJournal, offset: int, fired: int | None = None) -> int:
    return one.start({IN: offset}, lambda _: fired)


def commit(one: TaskJournal, writer: Written, offset: int) -> int:
    """The offset of the journal in a commit up to an offset of the input."""
    found = start(one, offset)
    writer.flush()
    one.committed()
    return found


def test_a_journal_is_read_from_the_first_stretch_with_a_message_above_the_checkpoint() -> None:
    writer = Written()
    one = journal(writer)
    for offset in (0, 1, 9):
        one.keep(of_message(offset), b"r")
    assert commit(one, writer, 2) == 0
    one.keep(of_message(2), b"r")
    assert commit(one, writer, 3) == 0  # the result of message 9 is there
    one.keep(of_message(20), b"r")
    assert commit(one, writer, 10) == 4
    assert commit(one, writer, 11) == 4
    assert commit(one, writer, 21) == 5
    assert one.kept == 5


def test_what_is_written_while_a_commit_is_under_way_is_not_passed_over() -> None:
    writer = Written()
    one = journal(writer)
    assert start(one, 0) == 0
    one.keep(of_message(0), b"r")
    writer.flush()
    one.keep(of_message(5), b"r")
    one.committed()
    assert start(one, 1) == 0


def test_stretches_behind_a_call_that_takes_long_are_bounded() -> None:
    writer = Written()
    one = journal(writer)
    for offset in range(1, 4 * MOST_STRETCHES):
        one.keep(of_message(offset), b"r")
        assert commit(one, writer, 0) == 0
    assert len(one._done) == MOST_STRETCHES
    assert start(one, 3 * MOST_STRETCHES) == 0  # the first ones were put together
    assert start(one, 4 * MOST_STRETCHES) == writer.flushed


def test_entries_at_and_above_the_checkpoint_answer_once() -> None:
    one = journal(Written(3), start=0)
    entries = [(of_message(offset), b"\1\0" + b"%d" % offset) for offset in (3, 4, 5)]
    one.load(entries, 3, {IN: 4})
    assert one.take(of_message(3)) is None
    assert one.take(of_message(4)) == b"4"
    assert one.take(of_message(4)) is None
    assert one.answered == 1
    # What was taken is not committed yet, nor is what nobody has asked for.
    assert [start(one, offset) for offset in (4, 5, 6)] == [0, 0, 3]
    assert one.take(of_message(5)) is None


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        (b"\xff\xff", b"\1\0r"),
        (b"x", b"\1\0r"),
        (b"\x93\1\2\3", b"\1\0r"),
        (b"\x95\1\2\3\4\5", b"\1\0r"),
        (b"\x97\1\2\3\4\5\6\7", b"\1\0r"),
        (b"\x95\xa1\xff\0\0\xc4\0\0", b"\1\0r"),
        (of_message(1), b"r"),
        (of_message(1), b"\0\0r"),
    ],
)
def test_what_something_else_has_written_is_left_out(
    name: bytes, entry: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    one = journal(Written(3))
    one.load([(name, entry), (of_message(2), b"\1\0r"), (name, entry)], 3, {IN: 0})
    assert (one.take(of_message(1)), one.take(of_message(2))) == (None, b"r")
    assert [text for text in caplog.messages if "has 2 records that are no entries of a journal" in text]


def test_entries_of_partitions_that_the_task_does_not_read_are_left_out() -> None:
    one = journal(Written(1))
    one.load([(of_message(0), b"\1\0r")], 1, {("other", 0): 0})
    assert one.take(of_message(0)) is None
    assert start(one, 0) == 1


@pytest.mark.parametrize(
    ("written", "now", "own"),
    [((1, 0), (4, 3), True), ((4, 3), (1, 0), True), ((4, 3), (2, 1), True), ((4, 2), (2, 1), False)],
)
def test_entries_of_other_key_buckets_are_left_out(written: tuple[int, int], now: tuple[int, int], own: bool) -> None:
    writer = Written()
    journal(writer, bucket=written[1], elasticity=written[0]).keep(of_message(1), b"r")
    one = journal(Written(1), bucket=now[1], elasticity=now[0])
    one.load(writer.entries, 1, {IN: 0})
    assert one.take(of_message(1)) == (b"r" if own else None)


def test_panes_are_needed_until_their_window_has_fired() -> None:
    one = journal(Written(2))
    one.load([(of_pane(10), b"\1\0a"), (of_pane(20), b"\1\0b")], 2, {IN: 0})
    assert start(one, 5, 9) == 0
    assert start(one, 5, 19) == 0
    assert one.take(of_pane(10)) is None
    assert one.take(of_pane(20)) == b"b"
    assert start(one, 5, 19) == 2


def test_panes_of_a_window_that_is_in_the_stage_no_longer_are_forgotten() -> None:
    one = journal(Written(1))
    one.load([(of_pane(10), b"\1\0a")], 1, {IN: 0})
    assert start(one, 5, None) == 1


def test_panes_that_the_end_of_another_run_has_fired_are_left_out() -> None:
    one = journal(Written(2), run="now")
    one.load([(of_pane(10, "before"), b"\1\0a"), (of_pane(20, "now"), b"\1\0b")], 2, {IN: 0})
    assert one.take(of_pane(10, "before")) is None
    assert start(one, 5, 9) == 0
    assert one.take(of_pane(20, "now")) == b"b"
    assert start(one, 5, 9) == 2


def test_results_that_are_too_large_are_not_kept_and_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    writer = Written()
    one = journal(writer, limit=SizeLimit(100, "raise it"))
    for size in (10, 200, 300):
        one.keep(of_message(size), b"r" * size)
    assert (len(writer.entries), one.kept) == (1, 1)
    assert len([text for text in caplog.messages if "takes records of up to 100 bytes" in text]) == 1


def test_what_is_large_and_fits_nevertheless_is_kept() -> None:
    writer = Written()
    one = journal(writer, limit=SizeLimit(100, fits=lambda _, value, __: len(value or b"") < 250))
    for size in (200, 300):
        one.keep(of_message(size), b"r" * size)
    assert len(writer.entries) == 1


@pytest.mark.parametrize(("first", "end", "found"), [(0, 3, b"012"), (1, 2, b"1"), (2, 2, b"")])
def test_entries_are_read_between_two_offsets(first: int, end: int, found: bytes) -> None:
    system = MemorySystem()
    system.admin().create(PARTITION[0], 1)
    transaction = system.producer().begin()
    transaction.append(*PARTITION, [(b"%d" % number, b"r", 0, ()) for number in range(4)])
    transaction.commit()
    read: Mapping[bytes, bytes] = dict(entries_between(system, PARTITION, first, end))
    assert b"".join(read) == found
