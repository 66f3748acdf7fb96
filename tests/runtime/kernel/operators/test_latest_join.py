"""Joins with the latest row of the other side: which rows join, which are emitted alone, and what is kept."""

import pytest

from fluvial.runtime.kernel.operators.join_context import LEFT, RIGHT, JoinContext
from fluvial.runtime.kernel.operators.latest_join import LatestJoinOperator
from fluvial.runtime.kernel.time.bounds import START
from fluvial.runtime.state import MemoryStore

WITHIN = 10


class LoneJoin:
    """A join of text for one key: what it has emitted, and how many rows were late."""

    def __init__(self, backend: MemoryStore | None = None, alone: tuple[bool, bool] = (True, True)) -> None:
        self.joined: list[tuple[str, int]] = []
        self.late = 0
        self.operator = LatestJoinOperator(
            JoinContext(
                id="join",
                backend=backend or MemoryStore(),
                empty=backend is None,
                watermark=START,
                within=WITHIN,
                alone=alone,
                fn=lambda left, right: f"{left or '-'}{right or '-'}",
                encode=(str.encode, str.encode),
                decode=(bytes.decode, bytes.decode),
                emit=lambda _, value, time, __: self.joined.append((value, time)),
                fail=lambda *_: None,
                late=self._count_late,
                schedule=lambda _: None,
                firing=lambda _: None,
                pauses=lambda: False,
            )
        )

    def _count_late(self) -> None:
        self.late += 1

    def add(self, side: int, value: str, time: int, watermark: int = START) -> None:
        self.operator.add(b"k", value, time, (), watermark, side)


def test_a_row_joins_the_latest_of_the_other_side() -> None:
    join = LoneJoin()
    join.add(LEFT, "a", 5)
    join.add(LEFT, "b", 6)
    join.add(RIGHT, "x", 9)
    assert ("bx", 9) in join.joined
    assert "ax" not in dict(join.joined)


@pytest.mark.parametrize(("time", "joins"), [(WITHIN - 1, True), (WITHIN, False)])
def test_rows_join_that_are_less_than_within_apart(time: int, joins: bool) -> None:
    join = LoneJoin(alone=(False, False))
    join.add(LEFT, "a", 0)
    join.add(RIGHT, "x", time)
    assert bool(join.joined) is joins


def test_a_row_that_joined_none_is_emitted_alone_when_it_is_replaced_or_has_expired() -> None:
    join = LoneJoin()
    join.add(LEFT, "a", 5)
    join.add(LEFT, "b", 6)
    assert join.joined == [("a-", 5)]
    join.operator.advance(6 + WITHIN)
    assert join.joined == [("a-", 5), ("b-", 6)]


def test_an_inner_join_emits_no_row_alone() -> None:
    join = LoneJoin(alone=(False, False))
    join.add(LEFT, "a", 5)
    join.operator.advance(100)
    assert join.joined == []


def test_a_row_behind_the_watermark_is_late() -> None:
    join = LoneJoin()
    join.add(LEFT, "a", 5, watermark=6)
    join.operator.advance(20)
    join.add(LEFT, "b", 19)
    assert (join.late, join.joined) == (2, [])


def test_a_message_without_key_cannot_be_kept() -> None:
    with pytest.raises(TypeError, match="without key"):
        LoneJoin().operator.add(None, "a", 5, (), START, LEFT)


def test_an_added_row_can_be_taken_back() -> None:
    join = LoneJoin()
    join.add(LEFT, "a", 5)
    take_back = join.operator.undo(b"k", 6)
    join.add(LEFT, "b", 6)
    take_back()
    join.joined.clear()
    join.add(RIGHT, "x", 7)
    assert join.joined == [("ax", 7)]


def test_rows_are_kept_by_a_commit_and_gone_once_they_have_expired() -> None:
    backend, join = MemoryStore(), LoneJoin()
    join.add(LEFT, "a", 5)
    backend.write(join.operator.changes())
    join.operator.mark_committed()
    again = LoneJoin(backend)
    again.add(RIGHT, "x", 7)
    again.operator.advance(7 + WITHIN)
    assert again.joined == [("ax", 7)]
    assert (b"join\0k", b"k", None) in [(prefix[:6], key, value) for prefix, key, value in again.operator.changes()]
