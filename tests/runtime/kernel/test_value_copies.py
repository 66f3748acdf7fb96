"""Who owns a value: a pane its own, whatever a function does to it; branches of a stream share what passes."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluvial.dsl import (
    Pane,
    Pipeline,
    after,
    after_count,
    aggregate,
    collect,
    hopping,
    reduce,
    repeat,
    session,
    tumbling,
    unbounded,
)
from fluvial.planner import Settings
from fluvial.runtime.kernel.value_copies import own_copy
from fluvial.runtime.testing import PipelineDriver
from generators.how_many import examples


def ms(number: int) -> timedelta:
    return timedelta(milliseconds=number)


@dataclass(frozen=True, slots=True)
class Frozen:
    number: int
    inner: list[int] | None = None


@dataclass
class Open:
    number: int


class Record(msgspec.Struct, frozen=True):
    text: str


class Same(msgspec.Struct, eq=False):
    """Hashes by identity, and can be changed."""

    number: int


class Nothing(msgspec.Struct, frozen=True):
    """Has no fields."""


class Colour(Enum):
    RED = 1


UNCHANGING = [
    1,
    1.5,
    "a",
    b"a",
    None,
    True,
    (1, "a"),
    Frozen(1),
    Record("a"),
    Colour.RED,
    datetime(2026, 1, 2, tzinfo=UTC),
    (Frozen(1),),
    frozenset((Record("a"),)),
    frozenset((1, "a")),
    Nothing(),
]
CHANGING = [
    [1],
    [[1]],
    {"a": 1},
    {"a": [1]},
    {1},
    ([1],),
    Frozen(1, [1]),
    [Frozen(1, [2])],
    Open(1),
    [Open(1)],
    bytearray(b"a"),
]


@pytest.mark.parametrize("value", UNCHANGING, ids=lambda value: type(value).__name__)
def test_what_nobody_can_change_is_not_copied(value: Any) -> None:
    assert own_copy(value) is value


@pytest.mark.parametrize("value", CHANGING, ids=repr)
def test_a_copy_is_equal_and_another(value: Any) -> None:
    copy = own_copy(value)
    assert copy == value
    assert type(copy) is type(value)
    assert copy is not value


def test_nothing_that_can_be_changed_is_shared_with_a_copy() -> None:
    value = {"a": [Frozen(1, [1]), (Open(1), [2])]}
    copy = own_copy(value)
    copy["a"][0].inner.append(2)
    copy["a"][1][0].number = 2
    copy["a"][1][1].clear()
    copy["a"].append(3)
    assert value == {"a": [Frozen(1, [1]), (Open(1), [2])]}


@pytest.mark.parametrize("hold", [lambda one: {one}, lambda one: frozenset((one,)), lambda one: {one: 1}])
def test_members_and_keys_that_can_be_changed_are_copied(hold: Callable[[Same], Any]) -> None:
    one = Same(1)
    value = hold(one)
    (copied,) = copy = own_copy(value)
    assert type(copy) is type(value)
    copied.number = 2
    assert one.number == 1


WINDOWS: dict[str, Any] = {
    "tumbling": {"assigner": tumbling(ms(10))},
    "tumbling, late": {"assigner": tumbling(ms(10)), "lateness": ms(20)},
    "hopping, late": {"assigner": hopping(ms(10), ms(5)), "lateness": ms(20)},
    "session": {"assigner": session(ms(5)), "lateness": ms(20)},
    "early": {"assigner": tumbling(ms(10)), "lateness": ms(20), "trigger": repeat(after_count(2))},
    "early by time": {"assigner": tumbling(ms(10)), "trigger": repeat(after(first=ms(3)))},
    "early and late": {
        "assigner": hopping(ms(10), ms(5)),
        "lateness": ms(20),
        "trigger": repeat(after_count(2)),
        "late_trigger": repeat(after_count(2)),
    },
    "early session": {
        "assigner": session(ms(5)),
        "lateness": ms(20),
        "trigger": repeat(after_count(2)),
        "late_trigger": repeat(after_count(2)),
    },
    "unbounded": {"assigner": unbounded(), "trigger": repeat(after_count(2))},
}


def kept(pane: Pane[str, list[list[int]]]) -> tuple[str, int, list[list[int]]]:
    return pane.kind, pane.window.end, [list(part) for part in pane.value]


def ruined(pane: Pane[str, list[list[int]]]) -> tuple[str, int, list[list[int]]]:
    """The same, from a function that changes all it can."""
    told = kept(pane)
    for part in pane.value:
        part.append(-1)
    pane.value.clear()
    return told


def flat(one: list[list[int]], other: list[list[int]]) -> list[list[int]]:
    """Changes an accumulator in place."""
    one.extend(other)
    return one


def put(one: list[list[int]], value: list[int]) -> list[list[int]]:
    """The same for one value."""
    one.append(value)
    return one


AGGREGATES: dict[str, Callable[[], Any]] = {
    "collect": collect,
    "aggregate": lambda: aggregate(list[list[int]], put, merge=flat),
}
EVENTS = st.lists(st.tuples(st.integers(0, 60), st.sampled_from("ab"), st.sampled_from(["", "", "commit", "restart"])))


def panes(window: Any, of: Callable[[], Any], accumulate: bool, show: Callable[..., Any], events: Any) -> list[Any]:
    options = dict(window)
    pipeline = Pipeline("p")
    stream = pipeline.stream("in", key=str, value=list[int], out_of_order=ms(5))
    shown = stream.window(options.pop("assigner"), of(), id="w", accumulate=accumulate, **options)
    shown.map(show).send_to("out", value=tuple[str, int, list[list[int]]])
    with PipelineDriver(pipeline) as driver:
        for time, key, then in events:
            driver.send("in", [time], key=key, timestamp=time)
            if then:
                getattr(driver, then)()
        driver.end()
        return [(message.key, message.value) for message in driver.read("out")]


@pytest.mark.parametrize("of", AGGREGATES)
@pytest.mark.parametrize("window", WINDOWS)
def test_what_a_function_does_to_a_pane_changes_no_state(window: str, of: str) -> None:
    @settings(max_examples=examples(20), deadline=None)
    @given(EVENTS, st.booleans())
    def check(events: Any, accumulate: bool) -> None:
        found = [panes(WINDOWS[window], AGGREGATES[of], accumulate, show, events) for show in (kept, ruined)]
        assert found[0] == found[1]

    check()


def test_a_pane_of_reduce_is_its_own() -> None:
    pipeline = Pipeline("p")
    stream = pipeline.stream("in", key=str, value=list[int])
    window = stream.window(
        tumbling(ms(10)), reduce(lambda one, other: one + other), id="w", trigger=repeat(after_count(1))
    )
    window.map(lambda pane: [pane.value.pop(0), *pane.value]).send_to("out", value=list[int])
    with PipelineDriver(pipeline) as driver:
        for number in (1, 2):
            driver.send("in", [number], key="a", timestamp=number)
        assert [message.value for message in driver.read("out")] == [[1], [1, 2]]


class Uncopied(list[int]):
    """Fails where it is copied."""

    def __deepcopy__(self, _: Any) -> Any:
        raise AssertionError("copied")


def added(numbers: list[int], number: int) -> list[int]:
    numbers.append(number)
    return numbers


@pytest.mark.parametrize(
    ("window", "options"),
    [
        (tumbling(ms(10)), {}),
        (tumbling(ms(10)), {"accumulate": False, "lateness": ms(20), "trigger": repeat(after_count(2))}),
        (tumbling(ms(10)), {"lateness": ms(20)}),
        (hopping(ms(10), ms(5)), {"lateness": ms(20)}),
        (session(ms(5)), {"accumulate": False}),
        (unbounded(), {"accumulate": False, "trigger": repeat(after_count(2))}),
    ],
)
def test_a_pane_whose_value_state_gives_up_is_not_copied(window: Any, options: Any) -> None:
    pipeline = Pipeline("p")
    of = aggregate(Uncopied, added, merge=lambda one, other: Uncopied([*one, *other]), type=list[int])
    pipeline.stream("in", key=str, value=int).window(window, of, id="w", **options).map(
        lambda pane: pane.value
    ).send_to("out", value=list[int])
    with PipelineDriver(pipeline, settings=Settings(forget_at_end=True)) as driver:
        for number in (1, 2, 3, 100, 101):  # at the end of a window time is far past its lateness
            driver.send("in", number, key="a", timestamp=number)
        driver.end()
        assert driver.read("out")


def test_a_pane_owns_the_members_of_a_set() -> None:
    def add(items: set[Same], number: int) -> set[Same]:
        items.add(Same(number))
        return items

    def show(pane: Pane[str, set[Same]]) -> list[int]:
        numbers = sorted(item.number for item in pane.value)
        for item in pane.value:
            item.number = 0
        return numbers

    pipeline = Pipeline("p")
    stream = pipeline.stream("in", key=str, value=int)
    window = stream.window(tumbling(ms(10)), aggregate(set[Same], add), id="w", trigger=repeat(after_count(2)))
    window.map(show).send_to("out")
    with PipelineDriver(pipeline) as driver:
        for number in (1, 2, 3, 4):
            driver.send("in", number, key="a", timestamp=number)
        assert [message.value for message in driver.read("out")] == [[1, 2], [1, 2, 3, 4]]


def test_branches_share_a_value() -> None:
    """A function changes nothing in place, where others are given the same value: it says so in `MessageStream`."""
    seen: list[list[int]] = []

    def see(value: list[int]) -> list[int]:
        seen.append(value)
        return value

    pipeline = Pipeline("p")
    stream = pipeline.stream("in", key=str, value=list[int])
    one, rest = stream.split(lambda value: len(value) == 1)
    for branch, output in ((stream, "whole"), (one, "one"), (one, "again"), (rest, "rest")):
        branch.map(see).send_to(output)
    with PipelineDriver(pipeline) as driver:
        driver.send("in", [1], key="a")
        assert len(seen) == 3
        assert seen[0] is seen[1] is seen[2]


def test_branches_behind_a_window_share_a_pane_and_nothing_else_does() -> None:
    seen: list[Any] = []
    pipeline = Pipeline("p")
    stream = pipeline.stream("in", key=str, value=int)
    window = stream.window(tumbling(ms(10)), collect(), id="w", trigger=repeat(after_count(1)))
    for output in ("one", "other"):
        window.map(lambda pane: seen.append(pane.value)).send_to(output)
    with PipelineDriver(pipeline) as driver:
        for number in (1, 2):
            driver.send("in", number, key="a", timestamp=number)
        assert seen == [[1], [1], [1, 2], [1, 2]]
        assert seen[0] is seen[1] is not seen[2]
