"""Kept results of calls: the names of calls, what is answered and in which order, and results that cannot be kept."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from fluvial.dsl import SystemProblem
from fluvial.dsl.message import Pane, Window
from fluvial.dsl.serde import Serde, value_serde
from fluvial.runtime.kernel.calls.call import Call
from fluvial.runtime.kernel.calls.call_journal import (
    CallJournal,
    JournalledQueues,
    MessageName,
    PaneName,
    call_names,
    named,
    queues_for,
)
from fluvial.runtime.kernel.calls.in_flight import InFlightMessage, InFlightQueue
from fluvial.runtime.kernel.message_failures import FedBatch


class Kept(dict[bytes, bytes]):
    """Results in memory."""

    def take(self, name: bytes) -> bytes | None:
        return self.pop(name, None)

    def keep(self, name: bytes, results: bytes) -> None:
        self[name] = results


def message(offset: int, start: str = "in") -> InFlightMessage:
    batch = FedBatch("in", 2, [offset], [], 0, bytearray())
    return InFlightMessage(0, (batch, 0), InFlightQueue(start))


def pane(value: Any = 1, kind: Any = "on_time", *, at_end: bool = False) -> InFlightMessage:
    one = InFlightMessage(0, ("w", "ann", Pane("ann", Window(0, 10), value, kind), ()), InFlightQueue("w"))
    one.at_end = at_end
    return one


NAMES = call_names({"in"}, {"w"}, "run 1")


def call(of: InFlightMessage, value: Any = None, path: Any = 1) -> Call:
    return Call(b"k", value, (0, (), of), path)


def name_of(of: InFlightMessage, value: Any = None, path: Any = 1) -> bytes | None:
    return NAMES(of, call(of, value, path))


def ended(one: Call, *results: Any) -> Call:
    one.results = [*results]
    return one


def made(journal: CallJournal, one: Call, *results: Any) -> None:
    """A call that is not answered, and has ended."""
    assert not journal.answered(one)
    journal.keep(ended(one, *results))


def test_a_call_is_named_by_its_record_and_its_number() -> None:
    name = name_of(message(7), path=((1, 2), 1)) or b""
    found = named(name)
    assert isinstance(found, MessageName)
    assert found == MessageName("in", 2, 7, found.argument, [[1, 2], 1])
    assert name == name_of(message(7), path=((1, 2), 1))
    assert len({name, name_of(message(8), path=((1, 2), 1)), name_of(message(7), path=1)}) == 3


@dataclass
class One:
    a: int


@dataclass
class Two:
    a: int


@pytest.mark.parametrize("of", [message(7), pane()])
@pytest.mark.parametrize(("value", "other"), [("a", "b"), (One(1), Two(1)), (1, True), ({1: "a"}, {2: "a"})])
def test_the_result_of_one_call_is_not_given_to_another_of_its_message(
    of: InFlightMessage, value: Any, other: Any
) -> None:
    kept = Kept()
    before, after = (CallJournal("ask", "here", value_serde(int), NAMES, kept) for _ in range(2))
    made(before, call(of, value), 1)
    assert not after.answered(call(of, other))
    assert after.answered(call(of, value))


class Odd:
    """A value that has no encoding, and no text of its own."""


@pytest.mark.parametrize("of", [message(7), pane()])
def test_a_call_whose_argument_cannot_be_encoded_is_made_and_not_kept(
    of: InFlightMessage, caplog: pytest.LogCaptureFixture
) -> None:
    kept = Kept()
    journal = CallJournal("ask", "here", value_serde(int), NAMES, kept)
    for value in (Odd(), [Odd()], 1 << 70, "\ud800"):
        made(journal, call(of, value), 1)
    assert not kept
    assert caplog.messages[0].startswith("ask: results are not kept where what the function is given cannot be encoded")
    assert len(caplog.messages) == 1


def test_a_pane_whose_key_cannot_be_encoded_has_no_name() -> None:
    of = InFlightMessage(0, ("w", Odd(), Pane("ann", Window(0, 10), 1, "on_time"), ()), InFlightQueue("w"))
    kept = Kept()
    made(CallJournal("ask", "here", value_serde(int), NAMES, kept), call(of), 1)
    assert not kept


@pytest.mark.parametrize("of", [message(7), pane()])
def test_a_function_that_changes_its_argument_is_answered(of: InFlightMessage) -> None:
    journal = CallJournal("ask", "here", value_serde(int), NAMES, Kept())
    one = call(of, [1])
    assert not journal.answered(one)
    one.value.append(2)
    journal.keep(ended(one, 5))
    assert journal.answered(call(of, [1]))


def test_a_call_for_a_pane_is_named_by_its_window_and_what_is_in_it() -> None:
    name = name_of(pane(), {"a": {1, 2}}) or b""
    found = named(name)
    assert isinstance(found, PaneName)
    assert (found.window, found.start, found.end, found.run) == ("w", 0, 10, "")
    assert name == name_of(pane(), {"a": {2, 1}})
    assert name != name_of(pane(), {"a": {1}})
    ended = named(name_of(pane(at_end=True)) or b"")
    assert isinstance(ended, PaneName)
    assert ended.run == "run 1"


@pytest.mark.parametrize("of", [pane(kind="early"), pane(kind="late"), message(1, "elsewhere")])
def test_what_nothing_names_has_no_name(of: InFlightMessage) -> None:
    assert name_of(of) is None
    kept = Kept()
    journal = CallJournal("ask", "here", value_serde(int), NAMES, kept)
    one = call(of)
    assert not journal.answered(one)
    journal.keep(one)
    assert not kept


def test_panes_of_an_end_of_input_have_no_name_where_the_run_has_none() -> None:
    names = call_names({"in"}, {"w"}, None)
    one = pane(at_end=True)
    assert names(one, call(one)) is None


def test_results_come_back_as_they_were() -> None:
    kept = Kept()
    journal = CallJournal("ask", "here", value_serde(list[int]), NAMES, kept)
    first, again = call(message(1)), call(message(1))
    made(journal, first, [1, 2], None, [])
    assert journal.answered(again)
    assert again.results == first.results
    assert not journal.answered(again)


def test_results_that_cannot_be_encoded_are_an_error_of_their_message() -> None:
    kept = Kept()
    journal = CallJournal("async_flat_map ask", "users.py:3", value_serde(float), NAMES, kept)
    one = call(message(1))
    made(journal, one, float("nan"))
    assert not kept
    assert one.results == []
    assert "a result cannot be kept in the journal" in str(one.error)
    assert "users.py:3" in str(one.error)


def test_kept_results_of_another_type_are_called_for_again(caplog: pytest.LogCaptureFixture) -> None:
    kept = Kept()
    before = CallJournal("ask", "here", value_serde(str), NAMES, kept)
    for offset in (1, 2):
        made(before, call(message(offset)), "text")

    def refuse(_: bytes) -> int:
        raise ValueError("\x1b[2Jgone")

    now = CallJournal("ask", "here", Serde("numbers", int, str, refuse), NAMES, kept)  # type: ignore[arg-type]
    assert not now.answered(call(message(1)))
    assert not now.answered(call(message(2)))
    (told,) = [text for text in caplog.messages if "kept results are not of numbers any more" in text]
    assert told.endswith("made again: ValueError: \\x1b[2Jgone")


def test_a_serde_that_cannot_reach_its_registry_ends_the_run() -> None:
    def lost(_: bytes) -> int:
        raise SystemProblem("no registry")

    kept = Kept()
    journal = CallJournal("ask", "here", Serde("odd", int, lambda _: b"", lost), NAMES, kept)
    made(journal, call(message(1)), 1)
    with pytest.raises(SystemProblem):
        journal.answered(call(message(1)))


def queues(order: str, kept: Kept, begun: list[Call], delivered: Callable[[Call], None]) -> JournalledQueues:
    journal = CallJournal("ask", "here", value_serde(int), NAMES, kept)
    lines = queues_for(order, 10, begun.append, delivered, journal)
    assert isinstance(lines, JournalledQueues)
    return lines


def test_what_is_answered_does_not_begin_and_keeps_its_place() -> None:
    async def main() -> None:
        kept, begun, delivered = Kept(), list[Call](), list[Call]()
        made(CallJournal("ask", "here", value_serde(int), NAMES, kept), call(message(2)), 5)
        lines = queues("key", kept, begun, delivered.append)
        first, second = call(message(1)), call(message(2))
        lines.submit(first)
        lines.submit(second)
        assert begun == [first]
        await asyncio.sleep(0)
        assert delivered == []
        lines.end(ended(first, 4))
        assert [one.results for one in delivered] == [[4], [5]]
        assert lines.outstanding == 0
        assert [*kept] == [name_of(message(1))]

    asyncio.run(main())


def test_results_are_kept_when_a_call_ends_whatever_it_waits_for() -> None:
    kept, begun, delivered = Kept(), list[Call](), list[Call]()
    lines = queues("key", kept, begun, delivered.append)
    calls = [call(message(offset)) for offset in (1, 2, 3)]
    for one in calls:
        lines.submit(one)
    lines.end(ended(calls[1], 2))
    calls[2].error = ValueError("failed")
    lines.end(calls[2])
    assert delivered == []
    assert [*kept] == [name_of(message(2))]


def test_nothing_is_delivered_once_the_pool_is_closed() -> None:
    async def main() -> None:
        kept, delivered = Kept(), list[Call]()
        made(CallJournal("ask", "here", value_serde(int), NAMES, kept), call(message(2)), 5)
        lines = queues("none", kept, [], delivered.append)
        lines.submit(call(message(2)))
        lines.clear()
        await asyncio.sleep(0)
        assert delivered == []

    asyncio.run(main())
