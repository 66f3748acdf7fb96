"""The oracle itself, against results worked out by hand."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from engines.comparing import assert_same, difference
from engines.one_window import ms
from fluvial.dsl import (
    Aggregate,
    Message,
    Pane,
    Pipeline,
    Retry,
    aggregate,
    collect,
    count,
    dead_letter,
    mean,
    session,
    skip,
    total,
    tumbling,
)
from fluvial.dsl.keyed_stream import KeyedStream
from fluvial.dsl.message import Record
from oracle.interpreter import OracleFailure, OutputMessage, Outputs, run_oracle


def records(*given: tuple[str | None, object, int]) -> list[Record]:
    """Records of one partition: key, value to be JSON, timestamp."""
    return [(None if key is None else key.encode(), msgspec.json.encode(value), time, ()) for key, value, time in given]


Shown = tuple[str, tuple[int, int], Any, str, list[tuple[int, int]]]
"""A pane: key, window, value, kind, replaces."""


def panes(outputs: Outputs, stream: str = "panes") -> list[Shown]:
    """The panes of a stream as plain tuples, in order of key and window."""
    found: list[Shown] = []
    for message in outputs.get(stream, []):
        pane = msgspec.json.decode(message.value or b"", type=Pane[str, Any])
        window = pane.window.start, pane.window.end
        assert (message.timestamp, message.headers) == (pane.window.end - 1, ())
        assert message.key == pane.key.encode()
        found.append((pane.key, window, pane.value, pane.kind, [(one.start, one.end) for one in pane.replaces]))
    return sorted(found, key=lambda one: (one[0], one[1], one[3], repr(one[2])))


def windowed(
    given: Sequence[tuple[str | None, object, int]],
    assigner: Any,
    made: Aggregate[Any, Any] | None = None,
    *,
    out_of_order: int = 0,
    remember_sessions: bool = True,
    **options: Any,
) -> Outputs:
    """One keyed stream of ints, one window, its panes in `panes`."""
    pipeline = Pipeline("p", on_error=options.pop("on_error", skip()))
    numbers = pipeline.stream("in", value=int, key=str, out_of_order=ms(out_of_order))
    numbers.window(assigner, made or collect(), id="w", **options).send_to("panes")
    return run_oracle(pipeline, {"in": [records(*given)]}, remember_sessions=remember_sessions)


def test_stateless_operators_keep_key_timestamp_and_headers() -> None:
    async def twice(number: int) -> list[int]:
        return [number, number]

    def halves(number: int) -> list[int]:
        return [number // 2, number - number // 2]

    pipeline = Pipeline("p")
    numbers = pipeline.stream("in", value=int)
    numbers.filter(lambda n: n % 2).flat_map(halves).map(lambda n: n + 1).async_flat_map(twice, id="a").send_to("out")
    given = [(b"\xff", b"5", 7, (("h", b"1"),)), (None, b"4", 8, ())]
    same = [OutputMessage(b"\xff", number, 7, (("h", b"1"),)) for number in (b"3", b"3", b"4", b"4")]
    assert_same(run_oracle(pipeline, {"in": [given]}), {"out": same})


def test_merging_a_stream_with_itself_doubles_it() -> None:
    pipeline = Pipeline("p")
    words = pipeline.stream("in", value=str)
    words.merge(words).send_to("twice")
    words.merge(words, words.map(str.upper)).send_to("thrice")
    outputs = run_oracle(pipeline, {"in": [[(None, b"a", 1, ())]]})
    assert [message.value for message in outputs["twice"]] == [b"a", b"a"]
    # Nothing tells what str.upper returns, so all three are written as JSON.
    assert sorted(message.value or b"" for message in outputs["thrice"]) == [b'"A"', b'"a"', b'"a"']


def test_none_is_written_and_read_as_no_value() -> None:
    def odd(number: int) -> int | None:
        return number if number % 2 else None

    def shown(number: int | None) -> str:
        return repr(number)

    pipeline = Pipeline("p")
    odds = pipeline.stream("in", value=int).map(odd)
    odds.send_to("odds")
    odds.partition_by(lambda n: 0 if n is None else n, id="b", key_type=int).map(shown).send_to("shown")
    outputs = run_oracle(pipeline, {"in": [records((None, 1, 5), (None, 2, 6))]})
    assert outputs["odds"] == [(None, b"1", 5, ()), (None, None, 6, ())]
    assert outputs["shown"] == [(bytes(7) + b"\x01", b"1", 5, ()), (bytes(8), b"None", 6, ())]


def test_map_messages_gives_whole_messages_and_outputs_their_keys() -> None:
    def change(message: Message[int]) -> Message[str]:
        return Message(("k", message.value), "x", message.timestamp - 1, (("h", b""),))

    pipeline = Pipeline("p")
    changed = pipeline.stream("in", value=int, key=str).map_messages(change)
    changed.send_to("own")
    changed.send_to("given", key=len, value=str)
    outputs = run_oracle(pipeline, {"in": [records(("a", 3, 5))]})
    assert outputs["own"] == [(msgspec.msgpack.encode(("k", 3)), b"x", 4, (("h", b""),))]
    assert outputs["given"] == [(bytes(7) + b"\x01", b"x", 4, (("h", b""),))]


def test_a_border_carries_values_as_bytes_of_its_type() -> None:
    @dataclasses.dataclass
    class Pair:
        left: int
        right: tuple[int, ...] = ()

    pipeline = Pipeline("p")
    pairs = pipeline.stream("in", value=Pair).map(lambda pair: {"left": pair.left, "ignored": 1})
    pairs.partition_by(lambda _: ("a", 1), id="b", key_type=tuple[str, int], value=Pair).map(repr).send_to("out")  # type: ignore[arg-type]
    (out,) = run_oracle(pipeline, {"in": [records((None, {"left": 2}, 5))]})["out"]
    assert b"Pair(left=2, right=())" in (out.value or b"")
    assert out.key == msgspec.msgpack.encode(("a", 1))


def test_w28_sessions_behind_a_border_count_over_partitions() -> None:
    pipeline = Pipeline("p")
    users = pipeline.stream("views", value=str)
    counts = users.partition_by(lambda user: user, id="b", key_type=str).window(session(ms(3000)), count(), id="w")
    counts.map(lambda pane: f"{pane.key} {pane.value}").send_to("out")
    views = [["userId1", "userId1"], ["userId2", "userId1"], ["userId1"]]
    given = [[(None, user.encode(), 10 * at, ()) for at, user in enumerate(part)] for part in views]
    outputs = run_oracle(pipeline, {"views": given}, partitions={"views": 3})
    assert {message.value for message in outputs["out"]} == {b'"userId1 4"', b'"userId2 1"'}


def test_w05_sessions_end_when_a_key_is_silent() -> None:
    given = [("1", 0, 1), ("1", 0, 1), ("2", 0, 1001), ("2", 0, 1001), ("3", 0, 1001), ("3", 0, 1001)]
    given += [("2", 0, 2001), ("2", 0, 2001)]
    found = panes(windowed(given, session(ms(500)), count(), accumulate=False))
    assert [(key, window, number) for key, window, number, _, _ in found] == [
        ("1", (1, 502), 2),
        ("2", (1001, 1502), 2),
        ("2", (2001, 2502), 2),
        ("3", (1001, 1502), 2),
    ]
    assert {(kind, tuple(replaces)) for _, _, _, kind, replaces in found} == {("on_time", ())}


def test_w06_a_session_takes_all_of_its_messages() -> None:
    given = [("1", 0, 1)] * 2 + [("2", 0, 1001)] * 4
    found = panes(windowed(given, session(ms(500)), count()))
    assert [(key, number) for key, _, number, _, _ in found] == [("1", 2), ("2", 4)]


def test_tumbling_windows_are_aligned_before_the_epoch_too() -> None:
    found = panes(windowed([("a", 1, -11), ("a", 2, -10), ("a", 3, -1), ("a", 4, 0)], tumbling(ms(10))))
    assert [pane[1:3] for pane in found] == [
        ((-20, -10), [1]),
        ((-10, 0), [2, 3]),
        ((0, 10), [4]),
    ]


def test_messages_at_a_gap_are_one_session_and_beyond_it_two() -> None:
    found = panes(windowed([("a", 1, 0), ("a", 2, 10), ("a", 3, 21)], session(ms(10))))
    assert [pane[1:3] for pane in found] == [((0, 21), [1, 2]), ((21, 32), [3])]


def test_a_message_that_comes_later_bridges_two_sessions() -> None:
    given = [("a", 1, 0), ("a", 2, 20), ("a", 3, 10)]
    assert panes(windowed(given, session(ms(10)), out_of_order=20)) == [("a", (0, 31), [1, 2, 3], "on_time", [])]


def test_lateness_is_judged_before_the_own_timestamp_counts() -> None:
    # 30 ends the window of 1 at once; 2 then is late, though it is no older than 1.
    given = [("a", 1, 5), ("b", 3, 30), ("a", 2, 5)]
    outputs = windowed(given, tumbling(ms(10)), late_to="late")
    assert panes(outputs)[0] == ("a", (0, 10), [1], "on_time", [])
    assert outputs["late"] == [(b"a", b"2", 5, ())]
    assert "late" not in windowed(given, tumbling(ms(10)))


@pytest.mark.parametrize(("accumulate", "second"), [(True, [1, 2]), (False, [2])])
def test_within_the_lateness_each_message_fires_again(accumulate: bool, second: list[int]) -> None:
    given = [("a", 1, 5), ("b", 0, 19), ("a", 2, 6), ("b", 0, 20), ("a", 3, 7)]
    outputs = windowed(given, tumbling(ms(10)), lateness=ms(10), late_to="late", accumulate=accumulate)
    found = [pane for pane in panes(outputs) if pane[0] == "a"]
    assert found == [("a", (0, 10), second, "late", []), ("a", (0, 10), [1], "on_time", [])]
    assert outputs["late"] == [(b"a", b"3", 7, ())]


def test_the_first_message_of_a_window_may_be_late_and_fires_it_once() -> None:
    found = panes(windowed([("b", 0, 15), ("a", 1, 5)], tumbling(ms(10)), lateness=ms(10)))
    assert found == [("a", (0, 10), [1], "late", []), ("b", (10, 20), [0], "on_time", [])]


def test_a_session_that_grows_after_its_pane_replaces_it() -> None:
    given = [("a", 1, 0), ("b", 0, 12), ("a", 2, 8)]
    found = panes(windowed(given, session(ms(10)), lateness=ms(5)))
    assert found[:2] == [("a", (0, 11), [1], "on_time", []), ("a", (0, 19), [1, 2], "on_time", [(0, 11)])]


def test_a_late_message_that_bridges_two_sessions_replaces_both_panes() -> None:
    given = [("a", 1, 0), ("a", 2, 20), ("b", 0, 40), ("a", 3, 10), ("a", 4, 10)]
    found = panes(windowed(given, session(ms(10)), lateness=ms(50)))
    assert found[:4] == [
        ("a", (0, 11), [1], "on_time", []),
        ("a", (0, 31), [1, 2, 3, 4], "late", []),
        ("a", (0, 31), [1, 2, 3], "late", [(0, 11), (20, 31)]),
        ("a", (20, 31), [2], "on_time", []),
    ]


def test_without_accumulation_a_bridging_message_stands_alone() -> None:
    given = [("a", 1, 0), ("a", 2, 20), ("b", 0, 40), ("a", 3, 10)]
    found = panes(windowed(given, session(ms(10)), lateness=ms(50), accumulate=False))
    assert found[1] == ("a", (0, 31), [3], "late", [(0, 11), (20, 31)])


def test_a_forgotten_session_is_joined_only_where_it_is_remembered() -> None:
    # At watermark 11 the session of 1 is over; the window of 2, [5, 16), is not.
    given = [("a", 1, 0), ("b", 0, 11), ("a", 2, 5)]
    forgotten = panes(windowed(given, session(ms(10)), remember_sessions=False))
    assert forgotten[:2] == [("a", (0, 11), [1], "on_time", []), ("a", (5, 16), [2], "on_time", [])]
    remembered = panes(windowed(given, session(ms(10))))
    assert remembered[:2] == [("a", (0, 11), [1], "on_time", []), ("a", (0, 16), [1, 2], "on_time", [(0, 11)])]


def test_panes_are_not_late_at_the_next_window() -> None:
    pipeline = Pipeline("p")
    small = pipeline.stream("in", value=int, key=str).window(tumbling(ms(10)), count(), id="small")
    numbers = small.map(lambda pane: pane.value)
    numbers.window(tumbling(ms(10)), total(int), id="same", late_to="late").send_to("panes")
    crossed: KeyedStream[str, Any] = small.partition_by(lambda pane: pane.key, id="b", key_type=str)
    crossed.window(tumbling(ms(100)), count(), id="wide", late_to="late").send_to("wide")
    outputs = run_oracle(pipeline, {"in": [records(("a", 0, 5), ("a", 0, 25), ("a", 0, 5000))]})
    assert [pane[1:3] for pane in panes(outputs)] == [
        ((0, 10), 1),
        ((20, 30), 1),
        ((5000, 5010), 1),
    ]
    assert [pane[1:3] for pane in panes(outputs, "wide")] == [
        ((0, 100), 2),
        ((5000, 5100), 1),
    ]
    assert "late" not in outputs


def test_the_slowest_partition_and_stream_hold_the_watermark() -> None:
    pipeline = Pipeline("p")
    one, other = (pipeline.stream(name, value=int, key=str) for name in ("one", "other"))
    one.merge(other).window(tumbling(ms(10)), collect(), id="w", late_to="late").send_to("panes")
    ahead, behind = records(("a", 1, 5), ("a", 2, 500)), records(("b", 3, 5), ("b", 4, 7), ("b", 5, 500), ("b", 6, 5))
    outputs = run_oracle(pipeline, {"one": [ahead, []], "other": [[], behind]})
    assert [pane[:3] for pane in panes(outputs) if pane[1] == (0, 10)] == [("a", (0, 10), [1]), ("b", (0, 10), [3, 4])]
    assert outputs["late"] == [(b"b", b"6", 5, ())]


def test_aggregates_of_ints() -> None:
    def joined(text: str, number: int) -> str:
        return f"{text}{number}"

    given = [("a", 1, 0), ("a", 3, 1)]
    made: list[Aggregate[Any, Any]] = [count(), total(int), mean(int), aggregate(str, joined)]
    assert [panes(windowed(given, tumbling(ms(10)), one))[0][2] for one in made] == [2, 4, 2.0, "13"]


def picky(number: int) -> int:
    if number == 13:
        raise ValueError("thirteen")
    return number


def test_a_failing_message_leaves_no_trace_in_its_stage_and_its_time_counts() -> None:
    pipeline = Pipeline("p", on_error=dead_letter())
    numbers = pipeline.stream("in", value=int, key=str)
    numbers.send_to("copy")
    numbers.window(tumbling(ms(10)), collect(), id="w", late_to="late").send_to("panes")
    numbers.map(picky).send_to("out")
    given = [("a", 1, 5), ("a", 13, 5), ("b", 13, 10), ("a", 2, 6)]
    garbage: list[Record] = [(b"a", b"{", 1000, ())]
    outputs = run_oracle(pipeline, {"in": [garbage + records(*given)]})
    assert [message.value for message in outputs["copy"]] == [b"1", b"2"]
    assert panes(outputs) == [("a", (0, 10), [1], "on_time", [])]
    assert [message.value for message in outputs["late"]] == [b"2"]
    assert [message.value for message in outputs["p-dead-letters"]] == [b"{", b"13", b"13"]


def test_a_message_that_fails_behind_a_border_has_passed_the_stage_before() -> None:
    pipeline = Pipeline("p", on_error=skip())
    numbers = pipeline.stream("in", value=int)
    numbers.send_to("before")
    numbers.partition_by(lambda n: n, id="b", key_type=int).map(picky).send_to("after")
    outputs = run_oracle(pipeline, {"in": [records((None, 13, 1), (None, 1, 1))]})
    assert {stream: len(messages) for stream, messages in outputs.items()} == {"before": 2, "after": 1}


def test_a_failing_pane_is_lost_alone() -> None:
    pipeline = Pipeline("p", on_error=dead_letter())
    counted = pipeline.stream("in", value=int, key=str).window(tumbling(ms(10)), total(int), id="w")
    counted.send_to("panes")
    counted.map(lambda pane: picky(pane.value)).send_to("out")
    outputs = run_oracle(pipeline, {"in": [records(("a", 6, 1), ("a", 7, 2), ("b", 1, 3), ("a", 1, 15))]})
    assert [(key, number) for key, _, number, _, _ in panes(outputs)] == [("a", 1), ("b", 1)]
    assert [message.value for message in outputs["p-dead-letters"]] == [None]


def test_a_message_without_key_fails_at_a_window() -> None:
    assert panes(windowed([(None, 1, 5), ("a", 2, 5)], tumbling(ms(10)))) == [("a", (0, 10), [2], "on_time", [])]


def test_on_error_fail_raises() -> None:
    pipeline = Pipeline("p")
    pipeline.stream("in", value=int).map(picky).send_to("out")
    with pytest.raises(OracleFailure, match="thirteen"):
        run_oracle(pipeline, {"in": [records((None, 13, 1))]})


def test_an_async_call_is_repeated_as_often_as_it_may() -> None:
    calls: list[int] = []

    async def unsteady(number: int) -> list[int]:
        calls.append(number)
        if len(calls) < 3:
            raise ConnectionError
        return [number]

    pipeline = Pipeline("p")
    retry = Retry(attempts=3, on=(ConnectionError,))
    pipeline.stream("in", value=int).async_flat_map(unsteady, id="a", retry=retry).send_to("out")
    assert len(run_oracle(pipeline, {"in": [records((None, 1, 1))]})["out"]) == 1
    assert calls == [1, 1, 1]


def test_the_difference_names_what_is_missing_and_what_is_unexpected() -> None:
    one, other = OutputMessage(b"a", b"1", 5, ()), OutputMessage(b"b", b"2", 6, ())
    assert difference({"out": [one, other], "none": []}, {"out": [other, one]}) == ""
    text = difference({"out": [one, one]}, {"out": [one, other]})
    assert "missing     b'b': b'2' @6" in text
    assert "unexpected  b'a': b'1' @5" in text
    with pytest.raises(AssertionError, match="outputs differ"):
        assert_same({"out": []}, {"out": [one]})


@pytest.mark.parametrize(("watermark", "windows"), [(20, [(0, 11), (0, 22)]), (21, [(0, 11), (5, 22)])])
def test_a_session_is_remembered_for_one_gap_more(watermark: int, windows: list[tuple[int, int]]) -> None:
    # The message at 11 is not late, and the one at 5 joins it to the one at 0 if that is not forgotten.
    given = [("a", 1, 0), ("b", 0, watermark), ("a", 2, 11), ("a", 3, 5)]
    found = panes(windowed(given, session(ms(10))))
    assert [window for key, window, *_ in found if key == "a"] == windows
