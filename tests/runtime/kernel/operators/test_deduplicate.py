"""Deduplication: what is a duplicate, what is late, and until when times are kept."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.eviction import mark_committed
from fluvial.runtime.kernel.operators.deduplicate import DeduplicateContext, DeduplicateOperator
from fluvial.runtime.kernel.time.bounds import END, START
from fluvial.runtime.state import MemoryStore

WITHIN = 10


class LoneDeduplication:
    """A deduplication of messages without value: `passed` and `late` tell what came of them, by key and time."""

    def __init__(
        self,
        within: int = WITHIN,
        name: Callable[[Any], bytes] | None = None,
        backend: MemoryStore | None = None,
        watermark: int = START,
    ) -> None:
        self._name = name
        self.watermark = watermark
        self.backend = backend or MemoryStore()
        self.passed: list[tuple[bytes, int]] = []
        self.late = 0
        self.operator = DeduplicateOperator(
            DeduplicateContext(
                id="once",
                backend=self.backend,
                empty=backend is None,
                watermark=watermark,
                within=within,
                identity=name,
                emit=lambda key, _, timestamp, __: self.passed.append((key, timestamp)),
                late=self._late,
                schedule=lambda _: None,
            )
        )

    def _late(self) -> None:
        self.late += 1

    def add(self, time: int, key: bytes | None = b"k", value: Any = None) -> None:
        self.operator.add(key, value, time, (), self.watermark)

    def advance(self, watermark: int) -> None:
        self.watermark = watermark
        self.operator.advance(watermark)

    def times(self) -> list[int]:
        """The times that were passed on since the last call."""
        taken, self.passed = self.passed, []
        return [time for _, time in taken]

    def stored(self) -> int:
        """How many bytes of keys and values are kept, after a commit."""
        self.backend.write([*self.operator.changes()])
        mark_committed(self.operator, 0)
        return sum(len(key) + len(value) for key, value in self.backend._entries.items())

    def remembered(self) -> int:
        """How many entries of times are kept, after a commit."""
        self.stored()
        return sum(1 for _ in self.backend.scan(b"once\0p"))

    def restarted(self, within: int = WITHIN) -> "LoneDeduplication":
        """Commit, keeping nothing in memory, and begin again from what was written."""
        self.stored()
        return LoneDeduplication(within, self._name, self.backend, self.watermark)


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("apart", [-11, -10, -9, 0, 9, 10, 11])
def test_a_message_is_a_duplicate_if_its_time_is_less_than_within_apart(apart: int, restarts: bool) -> None:
    once = LoneDeduplication()
    once.add(100)
    once.passed.clear()
    once = once.restarted() if restarts else once
    once.add(100 + apart)
    assert once.times() == ([100 + apart] if abs(apart) >= WITHIN else [])


def test_what_counts_is_what_was_passed_on_not_what_was_left_out() -> None:
    once = LoneDeduplication()
    for time in (0, 9, 18, 27):
        once.add(time)
    assert once.times() == [0, 18]


def test_a_message_out_of_order_is_judged_by_those_before_and_behind_it() -> None:
    once = LoneDeduplication()
    for time in (40, 20, 30, 31, 50, 55):
        once.add(time)
    assert once.times() == [40, 20, 30, 50]


def test_keys_and_names_are_told_apart() -> None:
    once = LoneDeduplication(name=str.encode)
    for key, value in ((b"k", "a"), (b"l", "a"), (b"k", "b"), (b"k", "a"), (b"ka", ""), (b"", "ka")):
        once.add(0, key, value)
    assert [key for key, _ in once.passed] == [b"k", b"l", b"k", b"ka", b""]


def test_a_message_more_than_within_behind_the_watermark_is_late() -> None:
    once = LoneDeduplication()
    once.advance(100)
    once.add(89)
    assert (once.times(), once.late) == ([], 1)
    once.add(90)
    assert (once.times(), once.late) == ([90], 1)


def test_no_duplicate_passes_at_the_moment_in_which_it_becomes_late() -> None:
    for watermark in range(90, 130):
        once = LoneDeduplication()
        once.add(100)
        once.advance(watermark)
        once.add(91)
        once.add(109)
        assert once.times() == [100], watermark


def test_times_are_kept_for_twice_within_and_then_nothing_is_left() -> None:
    once = LoneDeduplication()
    once.add(100)
    once.add(85)
    once.advance(119)
    assert once.remembered() == 1
    once.advance(120)
    assert once.remembered() == 0
    once.advance(100_000)  # the timers' slot is over, too
    assert (once.stored(), once.operator.next_due()) == (0, END)


def test_of_a_key_that_comes_again_and_again_old_times_are_not_kept() -> None:
    once = LoneDeduplication()
    sizes = []
    for time in range(0, 5000, WITHIN):
        once.advance(time)
        once.add(time)
        sizes.append(once.stored())
    assert len(once.times()) == 500
    assert max(sizes[250:]) <= max(sizes[:250])


def test_the_end_of_input_forgets_nothing() -> None:
    once = LoneDeduplication()
    once.add(100)
    once.operator.advance(END)
    again = once.restarted()
    again.add(109)
    assert again.times() == []


def test_a_message_that_is_read_again_behind_the_end_of_input_is_judged_by_the_watermark_before_it() -> None:
    once = LoneDeduplication()
    once.advance(100)
    once.operator.advance(END)
    once.watermark = END
    once.add(95)
    assert (once.times(), once.late) == ([95], 0)


def test_a_message_without_key_is_an_error() -> None:
    once = LoneDeduplication()
    with pytest.raises(TypeError, match="a message without key cannot be kept by key"):
        once.add(0, None)


def test_what_a_message_did_can_be_taken_back() -> None:
    once = LoneDeduplication()
    once.add(0)
    take_back = once.operator.undo(b"k", 20)
    once.add(20)
    take_back()
    once.add(25)
    assert once.times() == [0, 20, 25]


def test_a_message_that_fails_leaves_nothing_to_take_back_with_the_next() -> None:
    def refuse(_: Any) -> bytes:
        raise ValueError("no name")

    once = LoneDeduplication(name=refuse)
    once.operator.undo(b"k", 0)
    with pytest.raises(ValueError, match="no name"):
        once.add(0)
    assert once.operator._scope.undo_log is None


def test_another_within_holds_for_what_is_kept() -> None:
    once = LoneDeduplication()
    once.add(100)
    shorter = once.restarted(within=5)
    shorter.add(106)
    assert shorter.times() == [106]
    longer = shorter.restarted(within=30)
    longer.add(129)
    longer.add(136)
    assert longer.times() == [136]
    longer.advance(195)
    assert longer.remembered() == 1
    longer.advance(196)
    assert longer.remembered() == 0


@given(steps=st.lists(st.tuples(st.integers(-25, 25), st.integers(0, 15), st.booleans()), max_size=40))
def test_what_passes_is_what_a_plain_list_of_all_times_says(steps: list[tuple[int, int, bool]]) -> None:
    once, passed, late = LoneDeduplication(), list[int](), 0
    for step, forward, restarts in steps:
        time = max(once.watermark, 0) + step
        if time + WITHIN < once.watermark:
            late += 1
        elif all(abs(time - one) >= WITHIN for one in passed):
            passed.append(time)
        once.add(time)
        once.advance(max(once.watermark, 0) + forward)
        if restarts:
            again = once.restarted()
            again.passed, again.late, once = once.passed, once.late, again
    assert (once.times(), once.late) == (passed, late)
