"""Joins of streams: which rows join, what is emitted alone, and until when rows are kept."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.eviction import mark_committed
from fluvial.dsl.message import Headers
from fluvial.runtime.kernel.operators.interval_join import JoinOperator
from fluvial.runtime.kernel.operators.join_context import LEFT, RIGHT, JoinContext
from fluvial.runtime.kernel.operators.latest_join import LatestJoinOperator
from fluvial.runtime.kernel.stateful_operator import StatefulOperator
from fluvial.runtime.kernel.time.bounds import END, START
from fluvial.runtime.state import MemoryStore

WITHIN = 10
Joined = tuple[str, int]
"""What a join emits, as tests look at it: value and timestamp."""

ALONE = {"inner": (False, False), "left": (True, False), "outer": (True, True)}


class LoneJoin:
    """One key's view of a join whose rows are text: `joined` and `late` tell what came of them."""

    def __init__(
        self,
        make: Callable[[JoinContext], StatefulOperator],
        how: str = "inner",
        fn: Callable[[Any, Any], Any] = lambda left, right: f"{left}{right}",
        backend: MemoryStore | None = None,
        watermark: int = START,
        decode_left: Callable[[bytes], Any] = bytes.decode,
        within: int = WITHIN,
    ) -> None:
        self._made = make, how, fn
        self.watermark = watermark
        self.backend = backend or MemoryStore()
        self.joined: list[Joined] = []
        self.headers: list[Headers] = []
        self.failed: list[tuple[int, BaseException]] = []
        self.late = 0
        self.operator = make(
            JoinContext(
                id="join",
                backend=self.backend,
                empty=backend is None,
                watermark=watermark,
                within=within,
                alone=ALONE[how],
                fn=fn,
                encode=(str.encode, str.encode),
                decode=(decode_left, bytes.decode),
                emit=self._emit,
                fail=lambda _, __, timestamp, error: self.failed.append((timestamp, error)),
                late=self._late,
                schedule=lambda _: None,
                firing=lambda _: None,
                pauses=lambda: False,
            )
        )

    def _emit(self, key: bytes, value: Any, timestamp: int, headers: Headers) -> None:
        assert key == b"k"
        self.joined.append((value, timestamp))
        self.headers.append(headers)

    def _late(self) -> None:
        self.late += 1

    def add(self, side: int, value: str | None, time: int, headers: Headers = ()) -> None:
        self.operator.add(b"k", value, time, headers, self.watermark, side)

    def left(self, value: str | None, time: int, headers: Headers = ()) -> None:
        self.add(LEFT, value, time, headers)

    def right(self, value: str | None, time: int, headers: Headers = ()) -> None:
        self.add(RIGHT, value, time, headers)

    def advance(self, watermark: int) -> None:
        self.watermark = watermark
        self.operator.advance(watermark)

    def take(self) -> list[Joined]:
        """What was emitted since the last call."""
        taken, self.joined = self.joined, []
        return taken

    def restarted(self) -> "LoneJoin":
        """Commit, keeping nothing in memory, and begin again from what was written."""
        self.backend.write([*self.operator.changes()])
        mark_committed(self.operator, 0)
        again = LoneJoin(*self._made, backend=self.backend, watermark=self.watermark)
        again.joined, again.late = self.joined, self.late
        return again


both = pytest.mark.parametrize("make", [JoinOperator, LatestJoinOperator])


@pytest.mark.parametrize(("make", "most"), [(JoinOperator, 10), (LatestJoinOperator, 9)])
def test_rows_join_that_are_near_enough_whoever_comes_first(make: Any, most: int) -> None:
    for first, second in ((LEFT, RIGHT), (RIGHT, LEFT)):
        for apart in (-most - 1, -most, 0, most, most + 1):
            join = LoneJoin(make)
            join.add(first, "lr"[first], 25)
            join.add(second, "lr"[second], 25 + apart)
            near = abs(apart) <= most
            assert join.take() == ([("lr", max(25, 25 + apart))] if near else []), apart


@both
def test_a_result_has_the_left_row_s_headers(make: Any) -> None:
    join = LoneJoin(make, "outer")
    join.left("l", 0, (("a", b"1"),))
    join.right("r", 1, (("b", b"2"),))
    join.right("alone", 50, (("c", b"3"),))
    join.advance(END)
    assert join.headers == [(("a", b"1"),), (("c", b"3"),)]


@both
def test_a_row_behind_the_watermark_is_late(make: Any) -> None:
    join = LoneJoin(make)
    join.left("l", 9)
    join.advance(10)
    join.right("r", 9)
    assert (join.take(), join.late) == ([], 1)
    join.right("r", 10)
    assert (join.take(), join.late) == ([("lr", 10)], 1)


@both
def test_a_value_of_none_joins_as_any_other(make: Any) -> None:
    join = LoneJoin(make, "outer")
    join.left(None, 0)
    join.right("r", 1)
    join.advance(END)
    assert join.take() == [("Noner", 1)]


@both
def test_a_pair_that_fails_fails_alone_and_its_rows_stay(make: Any) -> None:
    def picky(left: str, right: str) -> str:
        if right == "bad":
            raise ValueError(right)
        return left + right

    join = LoneJoin(make, fn=picky)
    join.left("l", 0)
    join.right("bad", 3)
    join.right("r", 4)
    assert (join.take(), [(time, str(error)) for time, error in join.failed]) == ([("lr", 4)], [(3, "bad")])


@both
def test_what_a_function_does_to_its_rows_is_nobody_else_s_business(make: Any) -> None:
    def appended(left: list[str], right: str) -> str:
        left.append(right)
        return " ".join(left)

    join = LoneJoin(make, fn=appended, decode_left=lambda data: [data.decode()])
    join.left("l", 0)
    join.right("r", 1)
    join.right("s", 2)
    assert join.take() == [("l r", 1), ("l s", 2)]


def test_several_rows_join_in_the_order_of_their_times() -> None:
    join = LoneJoin(JoinOperator)
    for value, time in (("c", 12), ("a", 2), ("b", 8), ("d", 12)):
        join.left(value, time)
    join.right("r", 10)
    assert [value for value, _ in join.take()] == ["ar", "br", "cr", "dr"]


@pytest.mark.parametrize(("how", "alone"), [("inner", []), ("left", [("lNone", 0)]), ("outer", [("lNone", 0)])])
def test_a_row_that_joined_none_is_emitted_when_its_time_is_over(how: str, alone: list[Joined]) -> None:
    join = LoneJoin(JoinOperator, how)
    join.left("l", 0)
    join.advance(10)
    assert join.take() == []
    join.advance(11)
    assert join.take() == alone
    join.advance(END)
    assert join.take() == []


def test_a_timer_that_stands_for_rows_of_two_slots_forgets_neither() -> None:
    join = LoneJoin(JoinOperator, "left", within=64)
    join.left("one", 63)
    join.left("two", 64)
    join.advance(128)
    assert join.take() == [("oneNone", 63)]
    join.advance(129)
    assert join.take() == [("twoNone", 64)]


def test_under_latest_a_row_s_time_is_over_a_moment_sooner() -> None:
    join = LoneJoin(LatestJoinOperator, "left")
    join.left("l", 0)
    join.advance(9)
    assert join.take() == []
    join.advance(10)
    assert join.take() == [("lNone", 0)]


def test_the_latest_row_is_the_last_that_came_whatever_its_time() -> None:
    join = LoneJoin(LatestJoinOperator, "outer")
    join.left("a", 5)
    join.left("b", 2)
    assert join.take() == [("aNone", 5)]
    join.right("r", 6)
    join.right("s", 7)
    assert join.take() == [("br", 6), ("bs", 7)]
    join.advance(END)
    assert join.take() == []


def test_rows_are_emitted_alone_in_the_order_of_their_times() -> None:
    join = LoneJoin(JoinOperator, "outer")
    for side, time in ((RIGHT, 19), (LEFT, 31), (LEFT, 8), (RIGHT, 57), (LEFT, 45)):
        join.add(side, "lr"[side], time)
    join.advance(END)
    assert join.take() == [("lNone", 8), ("Noner", 19), ("lNone", 31), ("lNone", 45), ("Noner", 57)]


@pytest.mark.parametrize("how", ["inner", "outer"])
@both
def test_a_message_that_is_taken_back_leaves_nothing_behind(make: Any, how: str) -> None:
    join = LoneJoin(make, how)
    join.left("l", 0)
    take_back = join.operator.undo(b"k", 5)
    join.right("r", 5)
    take_back()
    join.take()
    join.advance(END)
    assert join.take() == ([("lNone", 0)] if how == "outer" else [])
    assert [*join.restarted().backend.scan(b"")] == []


@both
def test_rows_that_a_message_reported_are_as_before_once_it_is_taken_back(make: Any) -> None:
    join = LoneJoin(make, "outer")
    join.left("l", 0)
    join.right("r", 3)  # reports the first
    join.take()
    join.left("m", 2)
    take_back = join.operator.undo(b"k", 4)
    join.right("s", 4)
    take_back()
    join.take()
    join.right("t", 5)
    assert "mt" in [value for value, _ in join.take()]
    join.advance(END)
    assert join.take() == []


STEPS = st.lists(
    st.one_of(st.tuples(st.sampled_from([LEFT, RIGHT]), st.integers(0, 60)), st.tuples(st.just(2), st.integers(0, 60))),
    max_size=30,
)


def run(join: LoneJoin, steps: list[tuple[int, int]], *, restarts: bool = False) -> LoneJoin:
    for number, (kind, time) in enumerate(steps):
        if kind == 2:
            join.advance(max(time, join.watermark))
        else:
            join.add(kind, f"{'lr'[kind]}{number}", time)
        join = join.restarted() if restarts else join
    join.advance(max(500, join.watermark))
    return join


@both
@pytest.mark.parametrize("how", ALONE)
def test_a_restart_at_any_time_changes_nothing_and_in_the_end_nothing_is_left(make: Any, how: str) -> None:
    @given(STEPS)
    def check(steps: list[tuple[int, int]]) -> None:
        whole = run(LoneJoin(make, how), steps)
        broken = run(LoneJoin(make, how), steps, restarts=True)
        assert (broken.joined, broken.late) == (whole.joined, whole.late)
        assert [*broken.restarted().backend.scan(b"")] == []

    check()


@given(STEPS, st.sampled_from([*ALONE]))
def test_all_pairs_that_are_near_enough_are_joined_in_any_order_of_arrival(
    steps: list[tuple[int, int]], how: str
) -> None:
    watermark, rows = START, []
    for number, (kind, time) in enumerate(steps):
        if kind == 2:
            watermark = max(watermark, time)
        elif time >= watermark:
            rows.append((kind, f"{'lr'[kind]}{number}", time))
    pairs = [
        (one[1], other[1], max(one[2], other[2]))
        for one in rows
        for other in rows
        if (one[0], other[0]) == (LEFT, RIGHT) and abs(one[2] - other[2]) <= WITHIN
    ]
    wanted = Counter((left + right, time) for left, right, time in pairs)
    met = {name for pair in pairs for name in pair[:2]}
    for kind, name, time in rows:
        if name not in met and ALONE[how][kind]:
            wanted[f"{name}None" if kind == LEFT else f"None{name}", time] += 1
    assert Counter(run(LoneJoin(JoinOperator, how), steps).joined) == wanted


def test_rows_that_came_out_of_order_join_in_the_order_of_their_times() -> None:
    join = LoneJoin(JoinOperator)
    join.left("b", 5)
    join.left("a", 3)
    join.right("1", 4)
    assert join.joined == [("a1", 4), ("b1", 5)]


@pytest.mark.parametrize("how", ["left", "outer"])
def test_a_row_that_has_joined_is_not_emitted_alone_when_its_time_is_over(how: str) -> None:
    join = LoneJoin(JoinOperator, how)
    join.left("l", 0)
    join.right("r", 1)
    join.advance(END - 1)
    assert join.joined == [("lr", 1)]
