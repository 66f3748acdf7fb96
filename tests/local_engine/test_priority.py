"""Messages of an input of a higher priority come before those of others that wait beside them."""

from collections import Counter

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.few_records import FewRecords
from engines.targets import contents, write
from explained import assert_explains, error_of
from fluvial.dsl import Pipeline, PipelineError, collect, unbounded
from fluvial.planner import Settings, plan
from fluvial.runtime import run
from fluvial.runtime.systems.provisioning import input_priorities
from fluvial.runtime.testing import PipelineDriver

priorities = st.dictionaries(st.sampled_from("abc"), st.integers(-1, 2), min_size=2)


def merged(priority: dict[str, int]) -> Pipeline:
    """All streams in one window, which keeps the order in which the messages were processed."""
    pipeline = Pipeline("p")
    first, *others = (pipeline.stream(name, value=str, key=str, priority=priority[name]) for name in sorted(priority))
    first.merge(*others).window(unbounded(), collect(), id="w").map(lambda pane: pane.value).send_to("out")
    return pipeline


def merged_behind_borders(priority: dict[str, int]) -> Pipeline:
    """The same behind a border for each stream, which has the priority."""
    pipeline = Pipeline("p")
    first, *others = (
        pipeline.stream(name, value=str).partition_by(lambda _: "k", id=name, key_type=str, priority=priority[name])
        for name in sorted(priority)
    )
    first.merge(*others).window(unbounded(), collect(), id="w").map(lambda pane: pane.value).send_to("out")
    return pipeline


@given(priorities, st.lists(st.integers(0, 20), min_size=3, max_size=3), st.sampled_from([1, 2]))
def test_behind_borders_nothing_is_missing_and_no_stream_waits_for_ever(
    priority: dict[str, int], counts: list[int], elasticity: int
) -> None:
    system, sizes = FewRecords(), dict(zip(priority, counts, strict=False))
    write(system, {name: [[(None, name.encode(), 0, ())] * size] for name, size in sizes.items()})
    run(merged_behind_borders(priority), system=system, settings=Settings(elasticity=elasticity), until="end")
    panes = contents(system, "out")
    assert Counter(msgspec.json.decode(panes[0][1] or b"") if panes else []) == +Counter(sizes)


def test_streams_of_borders_have_their_priority() -> None:
    assert input_priorities(plan(merged({"a": 0, "b": -1}))) == {"b": -1}
    assert input_priorities(plan(merged_behind_borders({"a": 2, "b": 0}))) == {"p-a": 2}


@given(priorities, st.lists(st.integers(0, 20), min_size=3, max_size=3), st.sampled_from([1, 2]))
def test_what_waits_is_processed_by_priority(priority: dict[str, int], counts: list[int], elasticity: int) -> None:
    system, sizes = FewRecords(), dict(zip(priority, counts, strict=False))
    write(system, {name: [[(b"k", b"%s" % name.encode(), 0, ())] * size] for name, size in sizes.items()})
    run(merged(priority), system=system, settings=Settings(elasticity=elasticity), until="end")
    panes = contents(system, "out")
    seen = msgspec.json.decode(panes[0][1] or b"", type=list[str]) if panes else []
    assert Counter(seen) == +Counter(sizes)
    levels = [priority[name] for name in seen]
    assert levels == sorted(levels, reverse=True)


def test_what_comes_later_is_processed_as_it_comes() -> None:
    with PipelineDriver(merged({"a": 0, "b": 1})) as driver:
        for stream in "abab":
            driver.send(stream, stream, key="k", timestamp=0)
        driver.end()
        assert [message.value for message in driver.read("out")] == [["a", "b", "a", "b"]]


def test_the_plan_shows_it() -> None:
    details = [operator.details for operator in plan(merged({"a": 0, "b": -1})).operators if operator.reads]
    assert [found.get("priority") for found in details] == [None, "-1"]
    details = [operator.details for operator in plan(merged_behind_borders({"a": 3, "b": 0})).operators]
    assert [found["priority"] for found in details if "priority" in found] == ["3"]


@pytest.mark.parametrize("wrong", [True, 1.5, "1", None])
def test_anything_but_a_whole_number_is_refused(wrong: int) -> None:
    numbers = Pipeline("p").stream("in", value=int)
    error = error_of(lambda: Pipeline("p").stream("in", value=int, priority=wrong), PipelineError)
    assert_explains(error, f"stream 'in': priority={wrong!r}", None, "a whole number")
    error = error_of(lambda: numbers.partition_by(abs, id="b", key_type=int, priority=wrong), PipelineError)
    assert_explains(error, f"partition_by 'b': priority={wrong!r}", None, "a whole number")


def test_it_may_be_another_one_in_the_next_run() -> None:
    system = FewRecords()
    for first in ("a", "b"):
        write(system, {name: [[(b"k", name.encode(), 0, ())] * 5] for name in "ab"})
        run(merged({"a": 0, "b": 0} | {first: 1}), system=system, until="caught-up")
    run(merged({"a": 0, "b": 0}), system=system, until="end")
    (pane,) = contents(system, "out")
    assert msgspec.json.decode(pane[1] or b"") == list("aaaaabbbbbbbbbbaaaaa")
