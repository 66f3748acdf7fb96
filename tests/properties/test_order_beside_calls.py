"""Order beside asynchronous calls: pipelines of random shape, whose calls take random times, fail, are made again and
expire, write what a loop over the messages says, in its order; what is in flight has a bound, and all of it ends.

The oracle knows nothing of calls in flight: it goes through the messages one by one, and asks of each branch what it
writes. Of results it knows how far their order is promised.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any, Literal

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engines.targets import PATIENT
from faults.mutants import Replaced, planted
from fluvial.dsl import (
    ErrorPolicy,
    KeyedStream,
    MessageError,
    Pipeline,
    Retry,
    after_count,
    collect,
    dead_letter,
    fail,
    repeat,
    skip,
    tumbling,
)
from fluvial.dsl.operators.calls import Order
from fluvial.planner import Settings
from fluvial.planner.settings import Guarantee
from fluvial.runtime.kernel.calls.ordered_queues import OrderedQueues
from fluvial.runtime.testing import PipelineDriver
from generators.how_many import examples
from generators.seen_numbers import SeenNumbers

DAY = timedelta(days=1)
TIMEOUT = 50
"""How many ms an attempt has; what takes longer expires."""
FLAKY, DEAD, SLOW = -1, -2, 2 * TIMEOUT
"""What an attempt may do instead of taking some ms: fail every other time, fail each time, or take too long."""
POLICIES: dict[str, ErrorPolicy] = {"skip": skip(), "dead_letter": dead_letter(), "fail": fail()}

Numbers = KeyedStream[str, int]
Where = Literal["out", "processor", "window"]
"""What becomes of messages, or of results: they are written, or kept by an operator that writes the list so far, or the
list of the day."""


@dataclass(frozen=True)
class Beside:
    """Takes every `every`-th message without a call. A copy behind a "border" has another key, "pairs" are panes."""

    every: int
    to: Where | Literal["border", "table", "pairs"]


@dataclass(frozen=True)
class Calls:
    """Calls for every `every`-th message, and for what they give again, if there is a `then`. `panes` are called for in
    place of messages: pairs of messages of a key."""

    every: int
    order: Order
    at_once: int
    to: Where
    then: Order | None = None
    panes: bool = False

    @property
    def most_in_flight(self) -> int:
        """The most messages that may be in flight for these calls: in each pool twice as many as may run, and as many
        that wait behind slow calls of their keys."""
        orders = [self.order] if self.then is None else [self.order, self.then]
        return sum(self.at_once * (3 if order == "key" else 2) for order in orders)

    @property
    def promised(self) -> Order:
        """The order that is promised to what comes out."""
        orders = {self.order, self.then or "input"}
        return "none" if "none" in orders else "key" if "key" in orders or self.panes else "input"


Branch = Beside | Calls
TAKES = st.sampled_from([0, 0, 0, 1, 2, 5, 20, FLAKY])


@dataclass(frozen=True)
class Case:
    """Branches of one stream, and its messages: the key of each, and what its calls do."""

    branches: tuple[Branch, ...]
    keys: str
    takes: tuple[tuple[int, int, int], ...]
    on_error: str = "skip"
    guarantee: Guarantee = "exactly_once"

    def does(self, number: int, index: int, turn: int) -> int:
        """What the calls for a message do in a branch, the first or the second."""
        return self.takes[number][(index + turn) % 3]

    def fails(self, number: int) -> bool:
        """Whether a message fails: one of the calls that it makes does in all attempts."""
        return any(
            self.does(number, index, turn) in (DEAD, SLOW)
            for index, branch in enumerate(self.branches)
            if isinstance(branch, Calls) and not branch.panes and number % branch.every == 0
            for turn in range(2 if branch.then else 1)
        )

    def taken(self, branch: Branch) -> list[int]:
        """The messages that a branch is given and that do not fail, as they came."""
        return [n for n in range(len(self.keys)) if n % branch.every == 0 and not self.fails(n)]


@st.composite
def cases(draw: st.DrawFn, on_error: Sequence[str] = ("skip", "dead_letter")) -> Case:
    orders: st.SearchStrategy[Any] = st.sampled_from(["key", "input", "none"])
    places: st.SearchStrategy[Any] = st.sampled_from(["out", "processor", "window"])
    every = st.integers(1, 3)
    beside = st.builds(Beside, every, places | st.sampled_from(["border", "table", "pairs"]))
    calls = st.builds(Calls, every, orders, st.integers(1, 4), places, st.none() | orders, st.booleans())
    branches = draw(st.lists(beside | calls, min_size=1, max_size=3))
    keys = draw(st.text("klm", min_size=1, max_size=16))
    bad = st.sampled_from([DEAD, SLOW]) if draw(st.booleans(), label="some fail") else TAKES
    each = st.tuples(*3 * [TAKES | bad])
    takes = draw(st.lists(each, min_size=len(keys), max_size=len(keys)))
    guarantees: Sequence[Guarantee] = ("exactly_once", "at_least_once")
    made = (draw(calls), *branches)
    return Case(made, keys, tuple(takes), draw(st.sampled_from(on_error)), draw(st.sampled_from(guarantees)))


class Made:
    """The pipeline of a case, and how many of its messages were in flight at once."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.most = 0
        self.in_flight: Callable[[], int] = lambda: 0
        self._tries = Counter[tuple[int, int, int]]()
        self.pipeline = Pipeline("p", on_error=POLICIES[case.on_error])
        source = self.pipeline.stream("in", key=str, value=int)
        for index, branch in enumerate(case.branches):
            part = source.filter(partial(divisible, branch.every))
            if isinstance(branch, Beside):
                self._beside(part, branch, f"out-{index}")
            else:
                self._calls(part, branch, index)

    def _beside(self, part: Numbers, branch: Beside, out: str) -> None:
        if branch.to == "border":
            part.partition_by(lambda n: f"{n % 2}", id=out + "-by", key_type=str, value=int).send_to(out)
        elif branch.to == "table":
            part.send_to(self.pipeline.table(out, key=str, value=int))
        elif branch.to == "pairs":
            self._panes(part, out).send_to(out)
        else:
            keep(part, branch.to, out)

    def _calls(self, part: Numbers, branch: Calls, index: int) -> None:
        out = f"out-{index}"
        called = self._panes(part, out).map(first_of) if branch.panes else part
        again = Retry(attempts=2, delay=timedelta(milliseconds=3))
        orders: list[Order] = [branch.order, branch.then] if branch.then else [branch.order]
        for turn, order in enumerate(orders):
            called = called.async_flat_map(
                self._function(index, turn, spared=branch.panes),
                id=f"{out}-call-{turn}",
                order=order,
                max_in_flight=branch.at_once,
                timeout=timedelta(milliseconds=TIMEOUT),
                retry=again,
            )
        keep(called, branch.to, out)

    def _panes(self, part: Numbers, out: str) -> KeyedStream[str, list[int]]:
        """Pairs of the messages of a key, and what is left at the end."""
        each = repeat(after_count(2))
        panes = part.window(tumbling(DAY), collect(), id=out + "-pairs", trigger=each, accumulate=False)
        return panes.map(value_of)

    def _function(self, index: int, turn: int, *, spared: bool) -> Any:
        """What is called for; calls for panes, which would fail alone, are spared that."""

        async def call(number: int) -> list[int]:
            self.most = max(self.most, self.in_flight())
            takes, call_id = self.case.does(number, index, turn), (index, turn, number)
            self._tries[call_id] += 1
            if takes == FLAKY and self._tries[call_id] % 2:
                raise ValueError(number)
            if takes == DEAD and not spared:
                raise ValueError(number)
            await asyncio.sleep(0 if takes < 0 or (spared and takes == SLOW) else takes / 1000)
            return [number]

        return call


def divisible(by: int, number: int) -> bool:
    return number % by == 0


def value_of(pane: Any) -> list[int]:
    numbers: list[int] = pane.value
    return numbers


def first_of(numbers: list[int]) -> int:
    return numbers[0]


def keep(part: Numbers, to: str, out: str) -> None:
    if to == "out":
        part.send_to(out)
    elif to == "processor":
        part.process(SeenNumbers(), id=out + "-seen").send_to(out)
    else:
        part.window(tumbling(DAY), collect(), id=out + "-day").map(value_of).send_to(out)


Then = Literal["go on", "advance", "commit", "crash"]
Step = tuple[int, Then]
"""How many messages come at once, and what happens then."""


def steps(*names: Then) -> st.SearchStrategy[list[Step]]:
    step: st.SearchStrategy[Step] = st.tuples(st.integers(1, 8), st.sampled_from(names))
    return st.lists(step, max_size=6)


def run(case: Case, made: Made, told: Sequence[Step], watch: Callable[[PipelineDriver], None]) -> None:
    """Send all messages and end the input; `watch` sees the driver before each crash, and at the end or an error."""
    bound = sum(branch.most_in_flight for branch in case.branches if isinstance(branch, Calls))
    with PipelineDriver(made.pipeline, settings=Settings(guarantee=case.guarantee), commits="timed") as driver:
        trackers = [task._work.tracker for task in driver._tasks if "in" in task.setup.inputs]
        made.in_flight = lambda: sum(not message.done for message in trackers[0].queue("in"))
        left = list(range(len(case.keys)))
        try:
            last: Step = (len(left), "go on")
            for size, step in [*told, last]:
                part, left = left[:size], left[size:]
                driver.records.send("in", [(case.keys[n].encode(), b"%d" % n, n, ()) for n in part])
                take(driver, step, watch)
                trackers[:] = [task._work.tracker for task in driver._tasks if "in" in task.setup.inputs]
            driver.end()
            assert not trackers[0]._lines
            assert not trackers[0].waiting
        finally:
            watch(driver)
    assert made.most <= bound


def take(driver: PipelineDriver, step: Then, watch: Callable[[PipelineDriver], None]) -> None:
    if step == "advance":
        driver.advance(timedelta(milliseconds=4))
    elif step == "commit":
        driver.commit()
    elif step == "crash":
        driver.crash()
        watch(driver)
        driver.restart()


class Written:
    """What runs have written: the messages of each output, as (key, value), the rows of tables, and how many dead
    letters. `parts` are what each run has written by itself, from crash to crash."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.outputs: dict[int, list[tuple[Any, Any]]] = {}
        self.parts: list[dict[int, list[tuple[Any, Any]]]] = []
        self.rows: dict[int, dict[Any, Any]] = {}
        self.dead_letters = 0

    def look(self, driver: PipelineDriver) -> None:
        before, self.outputs = self.outputs, {}
        for index, branch in enumerate(self.case.branches):
            if branch.to != "table":
                self.outputs[index] = [(message.key, message.value) for message in driver.read(f"out-{index}")]
            elif driver._container is not None:
                self.rows[index] = driver.state.table(f"out-{index}")
        self.parts.append({index: found[len(before.get(index, ())) :] for index, found in self.outputs.items()})
        self.dead_letters = len(driver.dead_letters)


def by_key(pairs: Iterable[tuple[Any, Any]]) -> dict[Any, list[Any]]:
    grouped = defaultdict[Any, list[Any]](list)
    for key, value in pairs:
        grouped[key].append(value)
    return dict(grouped)


def so_far(numbers: Sequence[int]) -> list[list[int]]:
    return [list(numbers[: length + 1]) for length in range(len(numbers))]


def pairs_of(numbers: Sequence[int]) -> list[list[int]]:
    return [list(numbers[at : at + 2]) for at in range(0, len(numbers), 2)]


def judge(case: Case, written: Written) -> None:
    """Compare what was written with what a loop over the messages says."""
    for index, branch in enumerate(case.branches):
        taken = [(case.keys[n], n) for n in case.taken(branch)]
        if branch.to == "table":
            assert written.rows[index] == dict(taken), branch
            continue
        found = written.outputs[index]
        if isinstance(branch, Calls):
            judge_results(branch, found, taken)
        elif branch.to == "out":
            assert found == taken, branch
        elif branch.to == "border":
            assert found == [(f"{n % 2}", n) for _, n in taken], branch
        else:
            make = {"processor": so_far, "window": lambda ns: [ns], "pairs": pairs_of}[branch.to]
            assert by_key(found) == {key: make(ns) for key, ns in by_key(taken).items()}, branch
    failed = sum(map(case.fails, range(len(case.keys))))
    assert written.dead_letters == (failed if case.on_error == "dead_letter" else 0)


def judge_results(branch: Calls, found: list[tuple[Any, Any]], taken: list[tuple[str, int]]) -> None:
    if branch.panes:
        taken = [(key, pair[0]) for key, ns in by_key(taken).items() for pair in pairs_of(ns)]
    wanted, seen = by_key(taken), by_key(found)
    if branch.to == "window":
        assert all(len(days) == 1 for days in seen.values()), branch
        seen = {key: days[0] for key, days in seen.items()}
    elif branch.to == "processor":
        assert all(lists == so_far(lists[-1]) for lists in seen.values()), branch
        seen = {key: lists[-1] for key, lists in seen.items()}
    elif branch.promised == "input":
        assert found == taken, branch
    if branch.promised == "none":
        seen = {key: sorted(numbers) for key, numbers in seen.items()}
    assert seen == wanted, branch


MANY = settings(max_examples=examples(400), deadline=None, suppress_health_check=PATIENT)
OVERTAKEN = Case((Calls(1, "key", 4, "out"), Beside(2, "out")), "kmll", ((20, 0, 0), *3 * [(0, 0, 0)]))
"""The last message is not in the copy; the one of its key waits there for the first of all."""

BESIDE_OTHERS = Case((Calls(1, "key", 4, "out"), Calls(1, "none", 4, "out")), "kk", ((0, 20, 0), (0, 0, 0)))
"""The other call for the first message ends last."""
PILED_UP = Case((Calls(1, "none", 2, "out"), Beside(1, "out")), 16 * "k", ((20, 0, 0), *15 * [(0, 0, 0)]))
"""All wait for the first one."""
PARKED = Case((Calls(1, "key", 2, "out"), Beside(1, "out")), "kkkkkklmk", tuple(9 * [(0, 0, 0)]))
"""Two wait behind the first of their key, and take no room of the others."""


@MANY
@given(case=cases(), told=steps("go on", "advance", "commit"))
@example(case=OVERTAKEN, told=[])
@example(case=BESIDE_OTHERS, told=[])
@example(case=PILED_UP, told=[])
@example(case=PARKED, told=[])
def test_order_holds_however_calls_end(case: Case, told: list[Step]) -> None:
    written = Written(case)
    run(case, Made(case), told, written.look)
    judge(case, written)


@pytest.mark.parametrize("order", ["key", "input"])
def test_calls_that_overtake_each_other_are_found(order: Order) -> None:
    """A mistake that is planted: what the property says is worth something."""
    case = Case((Calls(1, order, 4, "out"),), "kk", ((20, 0, 0), (0, 0, 0)))
    written, without_order = Written(case), Replaced("calls overtake each other", OrderedQueues, "__init__", unordered)
    with planted(without_order):
        run(case, Made(case), [], written.look)
    with pytest.raises(AssertionError):
        judge(case, written)


def unordered(init: Callable[..., None], queues: OrderedQueues, _: str, *rest: Any) -> None:
    init(queues, "none", *rest)


@MANY
@given(case=cases(), told=steps("go on", "advance", "commit", "crash"))
def test_order_holds_after_crashes(case: Case, told: list[Step]) -> None:
    case = replace(case, guarantee="exactly_once")
    written = Written(case)
    run(case, Made(case), told, written.look)
    judge(case, written)


@MANY
@given(case=cases(), told=steps("go on", "advance", "commit", "crash"))
def test_each_run_writes_in_order_and_none_is_lost_under_at_least_once(case: Case, told: list[Step]) -> None:
    case = replace(case, guarantee="at_least_once")
    written = Written(case)
    run(case, Made(case), told, written.look)
    for index, branch in enumerate(case.branches):
        if branch.to == "out":
            parts = [part.get(index, []) for part in written.parts]
            if isinstance(branch, Beside):
                assert all(numbers == sorted(numbers) for numbers in ([n for _, n in part] for part in parts)), branch
            if not (isinstance(branch, Calls) and branch.panes):
                assert {n for part in parts for _, n in part} == set(case.taken(branch)), branch


@MANY
@given(case=cases(on_error=["fail"]), told=steps("go on", "advance", "commit"))
def test_nothing_is_written_past_a_message_that_ends_the_run(case: Case, told: list[Step]) -> None:
    written = Written(case)
    numbers = range(len(case.keys))
    if not any(map(case.fails, numbers)):
        run(case, Made(case), told, written.look)
        judge(case, written)
        return
    with pytest.raises(MessageError):
        run(case, Made(case), told, written.look)
    for index, branch in enumerate(case.branches):
        if isinstance(branch, Beside) and branch.to == "out":
            came = [(case.keys[n], n) for n in numbers if n % branch.every == 0]
            until = next((at for at, (_, n) in enumerate(came) if case.fails(n)), len(came))
            found = written.outputs.get(index, [])
            assert found == came[:until][: len(found)], branch
