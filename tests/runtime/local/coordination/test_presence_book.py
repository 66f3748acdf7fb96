"""The last presence of each container, and which of them are gone."""

from fluvial.runtime.local.coordination.assignments import (
    Assignment,
    CoordinatorState,
    Gone,
    Presence,
    RunPhase,
    read_record,
    record_of,
)
from fluvial.runtime.local.coordination.presence_book import PresenceBook


def presence(incarnation: str, state: RunPhase = "running") -> Presence:
    return Presence(container=1, generation=1, run="r", incarnation=incarnation, state=state)


GONE = Gone(container=1, generation=2, run="r", incarnation="a")


def test_one_that_is_gone_is_done_whatever_it_writes_later() -> None:
    book = PresenceBook()
    book.add(presence("a"))
    book.part_with(GONE)
    assert book.presences[1].state == "done"
    book.add(presence("a"))
    assert book.presences[1].state == "done"


def test_another_process_is_not_gone_whichever_record_comes_first() -> None:
    book = PresenceBook()
    book.add(presence("a"))
    book.add(presence("b", "starting"))
    book.part_with(GONE)
    assert book.presences[1] == presence("b", "starting")
    book = PresenceBook()
    book.part_with(GONE)
    book.add(presence("b"))
    assert book.presences[1] == presence("b")


def test_it_goes_on_from_what_was_read_before() -> None:
    before = PresenceBook({1: presence("a")})
    before.part_with(GONE)
    book = PresenceBook(before.presences, before.gone)
    book.add(presence("a"))
    assert book.presences[1].state == "done"


def test_one_that_sends_no_heartbeats_is_written_as_it_was_before_there_were_any() -> None:
    assert b"heartbeats" not in record_of(presence("a"))[1]
    for record in (presence("a"), GONE):
        assert read_record(*record_of(record)) == record


def test_one_that_was_gone_before_it_ran_has_fenced_nobody() -> None:
    assignment = Assignment(generation=1, containers=2, tasks={"in/0": 0}, run="r", until="stopped")
    book = PresenceBook()
    book.add(presence("a", "starting"))
    book.part_with(GONE)
    assert not CoordinatorState(assignment, book.presences, gone=book.gone).generation_running
    book.add(presence("b"))
    assert CoordinatorState(assignment, book.presences, gone=book.gone).generation_running
