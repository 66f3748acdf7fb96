"""What joins of streams share: rows as they are kept, and how two of them become a value."""

from typing import Any

import pytest

from fluvial.runtime.kernel.operators.join_context import LEFT, RIGHT, JoinContext, JoinRow
from fluvial.runtime.kernel.time.bounds import START
from fluvial.runtime.state import MemoryStore


def context(emitted: list[Any], failed: list[Any], fn: Any = lambda left, right: (left, right)) -> JoinContext:
    return JoinContext(
        id="join",
        backend=MemoryStore(),
        empty=True,
        watermark=START,
        within=10,
        alone=(True, False),
        fn=fn,
        encode=(str.encode, lambda number: b"%d" % number),
        decode=(bytes.decode, int),
        emit=lambda *output: emitted.append(output),
        fail=lambda *failure: failed.append(failure),
        late=lambda: None,
        schedule=lambda _: None,
        firing=lambda _: None,
        pauses=lambda: False,
    )


def test_a_row_is_kept_as_bytes_and_reported_where_it_is_never_emitted_alone() -> None:
    made = context([], [])
    assert made.row(LEFT, "a", 5, ()) == JoinRow(5, b"a", (), reported=False)
    assert made.row(RIGHT, 7, 5, ()) == JoinRow(5, b"7", (), reported=True)
    assert made.row(LEFT, None, 5, ()).value is None


@pytest.mark.parametrize("side", [LEFT, RIGHT])
def test_two_rows_are_joined_as_left_and_right_with_the_later_time_and_the_left_headers(side: int) -> None:
    emitted: list[Any] = []
    made = context(emitted, [])
    rows = [made.row(LEFT, "a", 5, (("h", b"1"),)), made.row(RIGHT, 7, 8, ())]
    made.join_from(side, b"k", rows[side], rows[1 - side])
    assert emitted == [(b"k", ("a", 7), 8, (("h", b"1"),))]


def test_a_row_leaves_alone_once_unless_it_was_reported() -> None:
    emitted: list[Any] = []
    made = context(emitted, [])
    left, right = made.row(LEFT, "a", 5, ()), made.row(RIGHT, 7, 8, ())
    for _ in range(2):
        made.leave(LEFT, b"k", left)
        made.leave(RIGHT, b"k", right)
    assert emitted == [(b"k", ("a", None), 5, ())]


def test_a_pair_whose_function_raises_fails_by_itself() -> None:
    emitted: list[Any] = []
    failed: list[Any] = []
    made = context(emitted, failed, lambda left, _: left.nothing)
    made.join(b"k", made.row(LEFT, "a", 5, ()), None)
    ((key, value, time, error),) = failed
    assert (emitted, key, value, time, type(error)) == ([], b"k", None, 5, AttributeError)


def test_an_interruption_is_no_failure_of_a_pair() -> None:
    def stop(_: Any, __: Any) -> None:
        raise KeyboardInterrupt

    failed: list[Any] = []
    made = context([], failed, stop)
    with pytest.raises(KeyboardInterrupt):
        made.join(b"k", made.row(LEFT, "a", 5, ()), None)
    assert failed == []
