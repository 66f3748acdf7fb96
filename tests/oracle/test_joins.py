"""The oracle's joins, against results worked out by hand."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from engines.one_window import ms, panes
from fluvial.dsl import Pipeline, count, dead_letter, skip, tumbling
from fluvial.dsl.message import Headers, Record
from fluvial.dsl.operators import How, Retain
from oracle.interpreter import OracleFailure, Outputs, run_oracle

Sent = tuple[str, int]
"""A message of one key: its value, which begins with "l" for the left side or "r" for the right, and its time."""

Found = tuple[str, int]
"""A result: both values, "-" for None, and its time."""


def pair(left: str | None, right: str | None) -> str:
    return f"{left or '-'} {right or '-'}"


def sides(pipeline: Pipeline, out_of_order: int = 0) -> tuple[Any, Any]:
    """One stream of words as two: those that begin with l and the others."""
    words = pipeline.stream("in", value=str, key=str, out_of_order=ms(out_of_order))
    return words.filter(lambda word: word.startswith("l")), words.filter(lambda word: word.startswith("r"))


def joined(
    sent: Sequence[Sent],
    retain: Retain = "all",
    how: How = "inner",
    *,
    within: int = 10,
    out_of_order: int = 0,
    late: Counter[str] | None = None,
) -> list[Found]:
    """What a join of both sides writes, in its order, for messages of one key and one partition."""
    pipeline = Pipeline("p")
    left, right = sides(pipeline, out_of_order)
    left.join(right, pair, id="j", within=ms(within), how=how, retain=retain).send_to("out")
    records = [(b"k", word.encode(), time, ()) for word, time in sent]
    return shown(run_oracle(pipeline, {"in": [records]}, late=late))


def two_streams(
    left: list[Record],
    right: list[Record],
    fn: Callable[[Any, Any], Any] = pair,
    *,
    pipeline: Pipeline | None = None,
    **options: Any,
) -> Outputs:
    """What a join of two streams of words writes; their records are read in turn."""
    pipeline = pipeline or Pipeline("p")
    one, other = (pipeline.stream(name, value=str, key=str) for name in ("left", "right"))
    one.join(other, fn, id="j", within=ms(10), **options).send_to("out")
    return run_oracle(pipeline, {"left": [left], "right": [right]})


def record(word: str | None, time: int, *headers: tuple[str, bytes], key: bytes = b"k") -> Record:
    return key, None if word is None else word.encode(), time, headers


def shown(outputs: Outputs) -> list[Found]:
    return [((message.value or b"").decode(), message.timestamp) for message in outputs.get("out", [])]


@pytest.mark.parametrize(
    ("how", "alone"),
    [("inner", []), ("left", [("l2 -", 30)]), ("outer", [("l2 -", 30), ("- r2", 50)])],
)
@pytest.mark.parametrize("retain", ["all", "latest"])
def test_rows_near_each_other_join_and_others_are_alone_where_they_may(
    retain: Retain, how: How, alone: list[Found]
) -> None:
    assert joined([("l1", 0), ("r1", 9), ("l2", 30), ("r2", 50)], retain, how) == [("l1 r1", 9), *alone]


@pytest.mark.parametrize(("retain", "apart"), [("all", 10), ("latest", 9)])
@pytest.mark.parametrize(("one", "other"), [("l", "r"), ("r", "l")])
def test_the_farthest_that_rows_may_be_apart(retain: Retain, apart: int, one: str, other: str) -> None:
    assert joined([(one, 0), (other, apart)], retain) == [("l r", apart)]
    assert joined([(one, 0), (other, apart + 1)], retain) == []
    assert joined([(one, apart), (other, 0)], retain, out_of_order=20) == [("l r", apart)]
    assert joined([(one, apart + 1), (other, 0)], retain, out_of_order=20) == []


def test_all_rows_of_one_key_join_whatever_their_order() -> None:
    sent = [("l1", 0), ("r1", 4), ("l2", 8), ("r2", 11)]
    pairs = [("l1 r1", 4), ("l2 r1", 8), ("l2 r2", 11)]
    assert joined(sent) == pairs
    assert sorted(joined(sent[::-1], out_of_order=20)) == pairs


def test_the_results_of_a_row_come_in_the_order_of_the_others_times_and_then_of_arrival() -> None:
    sent = [("l1", 5), ("l2", 3), ("l3", 5), ("l4", 3), ("r", 4)]
    wanted = [("l2 r", 4), ("l4 r", 4), ("l1 r", 5), ("l3 r", 5)]
    assert joined(sent, out_of_order=5) == wanted
    mirrored = [(word.translate(str.maketrans("lr", "rl")), time) for word, time in sent]
    assert joined(mirrored, out_of_order=5) == [(f"l {word.split()[0].replace('l', 'r')}", at) for word, at in wanted]


@pytest.mark.parametrize(
    ("how", "alone"),
    [("inner", []), ("left", [("l1 -", 5)]), ("outer", [("l1 -", 5)])],
)
def test_the_latest_row_is_the_last_that_came(how: How, alone: list[Found]) -> None:
    sent = [("l1", 5), ("l2", 3), ("r1", 4), ("r2", 4), ("l3", 6)]
    wanted = [*alone, ("l2 r1", 4), ("l2 r2", 4), ("l3 r2", 6)]
    assert joined(sent, "latest", how, out_of_order=5) == wanted


def test_a_latest_row_too_far_away_hides_the_one_that_was_near() -> None:
    sent = [("l1", 20), ("l2", 0), ("r", 21)]
    assert joined(sent, "latest", out_of_order=30) == []
    assert joined(sent, "latest", "outer", out_of_order=30) == [("l1 -", 20), ("l2 -", 0), ("- r", 21)]


def test_a_row_that_another_takes_the_place_of_comes_at_once_and_before_what_the_other_joins() -> None:
    sent = [("r1", 0), ("l", 30), ("r2", 31), ("r3", 32)]
    assert joined(sent, "latest", "outer", out_of_order=60) == [("- r1", 0), ("l r2", 31), ("l r3", 32)]


def test_a_row_that_joined_is_never_alone() -> None:
    assert joined([("l1", 0), ("r", 1), ("l2", 2)], "latest", "outer") == [("l1 r", 1), ("l2 r", 2)]
    assert joined([("l1", 0), ("r", 1), ("l2", 2)], "all", "outer") == [("l1 r", 1), ("l2 r", 2)]


@pytest.mark.parametrize("retain", ["all", "latest"])
def test_a_row_behind_the_watermark_is_dropped_and_counted(retain: Retain) -> None:
    late = Counter[str]()
    assert joined([("l", 9), ("l2", 10), ("r1", 9), ("r2", 10)], retain, "outer", late=late)[-1] == ("l2 r2", 10)
    assert late == {"j": 1}
    late.clear()
    joined([("l", 10), ("r1", 8), ("r2", 7)], retain, out_of_order=2, late=late)
    assert late == {"j": 1}


@pytest.mark.parametrize(("retain", "end"), [("all", 11), ("latest", 10)])
def test_a_row_alone_comes_when_its_time_is_over(retain: Retain, end: int) -> None:
    # A message counts for time when it has been dealt with.
    pipeline = Pipeline("p")
    left, right = sides(pipeline)
    left.join(right, pair, id="j", within=ms(10), how="left", retain=retain).send_to("out")
    right.send_to("out")
    for tick, wanted in ((end - 1, ["r1", "r2", "l -"]), (end, ["r1", "l -", "r2"])):
        ticks = [record("r1", tick, key=b"z"), record("r2", tick, key=b"z")]
        found = shown(run_oracle(pipeline, {"in": [[record("l", 0), *ticks]]}))
        assert [value for value, _ in found] == wanted


def test_rows_alone_come_in_the_order_of_their_times() -> None:
    sent = [("l1", 3), ("r1", 50), ("l2", 20), ("l3", 100)]
    wanted = [("l1 -", 3), ("l2 -", 20), ("- r1", 50), ("l3 -", 100)]
    assert joined(sent, "all", "outer", out_of_order=200) == wanted
    assert joined(sent, "all", "outer", out_of_order=40) == wanted


def test_within_nothing_rows_of_one_time_join() -> None:
    assert joined([("l1", 1), ("r1", 1), ("r2", 2)], within=0) == [("l1 r1", 1)]


def test_time_is_the_lesser_of_both_sides() -> None:
    left = [record("l1", 0), record("l2", 100), record("l3", 200)]
    right = [record("r1", 100), record("r2", 95), record("r3", 190)]
    # By l2 the right side is at 100 and the left at 0; then r2 is late, for both are at 100.
    assert shown(two_streams(left, right)) == [("l2 r1", 100), ("l3 r3", 200)]


def test_values_of_none_are_rows_and_so_are_results_of_none() -> None:
    def told(left: str | None, right: str | None) -> str | None:
        return right and pair(left, right)

    outputs = two_streams([record(None, 0)], [record(None, 1), record("r", 2), record(None, 30)], told, how="outer")
    assert [(message.value, message.timestamp) for message in outputs["out"]] == [
        (None, 1),
        (b'"- r"', 2),
        (None, 30),
    ]


def test_headers_are_the_left_rows_and_without_one_the_rights() -> None:
    def written(left: list[Record], right: list[Record]) -> list[Headers]:
        return [message.headers for message in two_streams(left, right, how="outer")["out"]]

    one, other = record("l", 0, ("h", b"1")), record("r", 5, ("h", b"2"))
    assert written([one], [other]) == [(("h", b"1"),)]
    assert written([record("l", 0)], [other]) == [()]
    assert written([], [other]) == [(("h", b"2"),)]
    assert written([one], []) == [(("h", b"1"),)]


def test_keys_are_apart_and_go_on() -> None:
    left, right = [record("l", 0, key=b"a"), record("l", 0, key=b"b")], [record("r", 0, key=b"b")]
    outputs = two_streams(left, right, how="left")
    assert sorted(message[:2] for message in outputs["out"]) == [(b"a", b"l -"), (b"b", b"l r")]


def test_a_message_without_key_fails_at_a_join() -> None:
    with pytest.raises(OracleFailure, match="without key"):
        two_streams([(None, b"l", 0, ())], [])


def test_a_result_that_fails_is_lost_alone_and_its_rows_have_joined() -> None:
    def refuse(left: str | None, right: str | None) -> str:
        if "1" in pair(left, right):
            raise ValueError
        return pair(left, right)

    left = [record("l", 0), record("l1", 100)]
    right = [record("r1", 1), record("r2", 2)]
    pipeline = Pipeline("p", on_error=dead_letter())
    outputs = two_streams(left, right, refuse, pipeline=pipeline, how="outer")
    assert shown(outputs) == [("l r2", 2)]
    assert outputs["p-dead-letters"] == [(b"k", None, 1, ()), (b"k", None, 100, ())]


def test_a_message_that_fails_leaves_no_row() -> None:
    def refuse(word: str) -> str:
        raise ValueError(word)

    pipeline = Pipeline("p", on_error=skip())
    left, right = sides(pipeline)
    left.join(right, pair, id="j", within=ms(10), how="outer").send_to("out")
    left.filter(lambda word: word == "l1").map(refuse).send_to("never")
    records = [record("l1", 0), record("r1", 1), record("l2", 2)]
    assert shown(run_oracle(pipeline, {"in": [records]})) == [("l2 r1", 2)]


def test_the_function_is_given_rows_as_read_anew() -> None:
    def spoil(left: list[int], right: list[int]) -> list[int]:
        left.append(0)
        return left + right

    pipeline = Pipeline("p")
    numbers = pipeline.stream("in", value=list[int], key=str)
    left, right = numbers.filter(lambda n: len(n) == 1), numbers.filter(lambda n: len(n) == 2)
    left.join(right, spoil, id="j", within=ms(10)).send_to("out")
    records = [(b"k", data, 0, ()) for data in (b"[1]", b"[2,2]", b"[3,3]")]
    assert [value for value, _ in shown(run_oracle(pipeline, {"in": [records]}))] == ["[1,0,2,2]", "[1,0,3,3]"]


@pytest.mark.parametrize(
    ("left_first", "between"),
    # The second message meets the first one of the other side, unless it has taken that one's place before.
    [(True, ["2 1"]), (False, ["1 2"])],
)
def test_a_message_comes_to_the_sides_in_the_order_of_the_branches(left_first: bool, between: list[str]) -> None:
    def found(retain: Retain) -> list[str]:
        pipeline = Pipeline("p")
        words = pipeline.stream("in", value=str, key=str)
        one, other = words.filter(bool), words.filter(bool)
        left, right = (one, other) if left_first else (other, one)
        left.join(right, pair, id="j", within=ms(10), retain=retain).send_to("out")
        return [value for value, _ in shown(run_oracle(pipeline, {"in": [[record("1", 0), record("2", 1)]]}))]

    assert found("latest") == ["1 1", *between, "2 2"]
    assert sorted(found("all")) == ["1 1", "1 2", "2 1", "2 2"]


def test_results_follow_all_that_their_message_does() -> None:
    pipeline = Pipeline("p")
    words = pipeline.stream("in", value=str, key=str)
    words.join(words.filter(bool), pair, id="j", within=ms(10)).send_to("out")
    words.send_to("out")
    found = shown(run_oracle(pipeline, {"in": [[record("1", 0)]]}))
    assert found == [("1", 0), ("1 1", 0)]


@pytest.mark.parametrize(("how", "windows"), [("inner", [(0, 10)]), ("outer", [(0, 10), (20, 30)])])
@pytest.mark.parametrize("crosses", [False, True])
def test_a_window_behind_a_join_finds_nothing_late(how: How, windows: list[tuple[int, int]], crosses: bool) -> None:
    pipeline = Pipeline("p")
    left, right = sides(pipeline)
    together = left.join(right, pair, id="j", within=ms(10), how=how)
    if crosses:
        together = together.partition_by(str, id="b", key_type=str)
    together.window(tumbling(ms(10)), count(), id="w").send_to("panes")
    records = [record("l1", 0), record("r1", 5), record("l2", 21)]
    ticks = [record("z", time, key=b"z") for time in range(22, 60)]
    late = Counter[str]()
    outputs = run_oracle(pipeline, {"in": [[*records, *ticks]]}, late=late)
    assert [(pane.window.start, pane.window.end) for _, pane in panes(outputs)] == windows
    assert not late


@pytest.mark.parametrize(("how", "time"), [("inner", 10), ("left", 17), ("outer", 17)])
@pytest.mark.parametrize("crosses", [False, True])
def test_time_behind_a_join_that_is_not_inner_is_so_much_behind(how: How, time: int, crosses: bool) -> None:
    pipeline = Pipeline("p")
    left, right = sides(pipeline)
    together = left.join(right, pair, id="j", within=ms(7), how=how)
    if crosses:
        together = together.partition_by(str, id="b", key_type=str)
    together.window(tumbling(ms(10)), count(), id="w").map(lambda _: "pane").send_to("out")
    left.filter(lambda word: word == "l").send_to("out")
    ticks = [record("l", time, key=b"z") for time in range(40)]
    found = shown(run_oracle(pipeline, {"in": [[record("l1", 0), record("r1", 0), *ticks]]}))
    # The pane follows the message by which time came to its end.
    place = found.index(('"pane"', 9))
    assert found[place - 1] == ("l", time)


@pytest.mark.parametrize("sent", [[], [("l", 5)], [("r", 5), ("l", 100)]])
def test_at_the_end_of_input_all_that_are_left_come(sent: list[Sent]) -> None:
    wanted = [(word + " -" if word == "l" else "- " + word, time) for word, time in sent]
    for retain in ("all", "latest"):
        assert joined(sent, retain, "outer", within=1000 if len(sent) < 2 else 20) == wanted
    assert joined(sent, "all", "inner") == []
