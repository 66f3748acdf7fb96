"""The checkpoints of a changed pipeline: which of those that are kept a task, a stream and an operator go on from."""

from datetime import timedelta

import pytest

from engines.sending import ProducingSystem
from fluvial.dsl import Pipeline, PlanError, SystemProblem, count, tumbling
from fluvial.planner import Plan, Settings, plan
from fluvial.planner.grouping import OnlyInput
from fluvial.planner.growths import partitions_read
from fluvial.planner.settings import Grouping
from fluvial.planner.state_schema import StateSchema
from fluvial.runtime.kernel.time.position import Position
from fluvial.runtime.local.checkpoints.checkpoint import Checkpoint
from fluvial.runtime.local.checkpoints.migration import (
    holder_of,
    holders_of,
    kept_states,
    migrate_checkpoints,
    number_of,
    read_before,
    refuse_other_grouping,
    refuse_recreated,
    with_operator,
    without,
)
from fluvial.runtime.local.task_setup import TaskSetup
from fluvial.runtime.state import MemoryStore

DAY = timedelta(days=1)
SCHEMA = StateSchema(kind="window", facts={"windows": "1 d"})


def counting(*streams: str) -> Pipeline:
    pipeline = Pipeline("p")
    first, *others = [pipeline.stream(name, value=str, key=str) for name in streams]
    keyed = first.merge(*others) if others else first
    keyed.window(tumbling(DAY), count(), id="n").map(lambda pane: pane.value).send_to("out")
    return pipeline


def planned() -> Plan:
    return plan(counting("a"), partitions={"a": 2})


def test_offsets_and_changelogs_come_from_whichever_name_went_furthest() -> None:
    made = plan(counting("a", "b"), partitions={"a": 2, "b": 2})
    kept = {
        "b/0": Checkpoint(offsets={"b": 7}, position=Position(highs={"b": 70}), changelogs={"n": 9}),
        "a/0": Checkpoint(
            offsets={"a": 3, "b": 5, "z": 8},
            position=Position(highs={"a": 30, "b": 50, "z": 80}),
            changelogs={"n": 4, "y": 2},
        ),
        "b/1": Checkpoint(offsets={"b": 1}),
        "z/0": Checkpoint(offsets={"z": 9}),
    }
    setups = [TaskSetup(f"a/{number}", "a", number, MemoryStore(), {"n": "p-n-changelog"}) for number in (0, 1, 2)]
    found = migrate_checkpoints(made, setups, kept)
    assert found == {
        # What it had read and kept besides is carried along.
        "a/0": Checkpoint(
            offsets={"a": 3, "b": 7, "z": 8},
            position=Position(highs={"a": 30, "b": 70, "z": 80}),
            changelogs={"n": 9, "y": 2},
        ),
        "a/1": Checkpoint(offsets={"b": 1}),
    }


def test_the_offset_of_a_journal_is_that_of_whichever_name_went_furthest() -> None:
    async def ask(value: str) -> list[str]:
        return [value]

    pipeline = Pipeline("p")
    first, second = (pipeline.stream(name, value=str, key=str) for name in ("a", "b"))
    first.merge(second).async_flat_map(ask, id="ask", journal=True).send_to("out")
    made = plan(pipeline, partitions={"a": 2, "b": 2})
    kept = {
        "a/0": Checkpoint(offsets={"a": 3}, journals={"ask": 4, "old": 1}),
        "b/0": Checkpoint(offsets={"b": 7}, journals={"ask": 9, "old": 2}),
        "b/1": Checkpoint(offsets={"b": 1}, journals={"ask": 5}),
    }
    stage = made.operator("ask").stage
    setups = [TaskSetup(f"{stage}/{number}", stage, number, MemoryStore(), {}) for number in (0, 1)]
    found = migrate_checkpoints(made, setups, kept)
    assert stage == "a"
    assert found["a/0"].journals == {"ask": 9, "old": 1}
    assert found["a/1"].journals == {"ask": 5}


def test_a_task_keeps_its_number_when_its_stage_is_renamed() -> None:
    assert number_of("a/b/12") == "12"


def test_a_task_without_a_checkpoint_is_left_out() -> None:
    setups = [TaskSetup("a/0", "a", 0, MemoryStore(), {}, {"a": ("a", 0)})]
    assert migrate_checkpoints(planned(), setups, {"b/0": Checkpoint(offsets={"b": 3})}) == {}


def test_a_new_task_has_the_clock_that_went_furthest() -> None:
    setups = [TaskSetup("a/0", "a", 0, MemoryStore(), {}, {"a": ("a", 0)})]
    kept = {f"{name}/0": Checkpoint(offsets={"a": 1}, position=Position(clock=at)) for name, at in (("b", 5), ("c", 9))}
    assert migrate_checkpoints(planned(), setups, kept)["a/0"].position.clock == 9


@pytest.mark.parametrize(
    ("other", "holder"),
    [
        (Checkpoint(states={"n": SCHEMA}, changelogs={"n": 5}), "b/0"),
        (Checkpoint(states={"n": SCHEMA}, changelogs={"n": 3}), "a/0"),
        (Checkpoint(states={"n": SCHEMA}, changelogs={"n": 4}, offsets={"a": 8}), "b/0"),
        (Checkpoint(offsets={"a": 100}), "a/0"),
    ],
    ids=["more changes", "fewer changes", "read further", "no state"],
)
def test_state_is_where_it_was_last(other: Checkpoint, holder: str) -> None:
    own = Checkpoint(states={"n": SCHEMA}, changelogs={"n": 4}, offsets={"a": 7})
    assert holder_of("n", "a/0", {"a/0": own, "b/0": other, "b/1": other}) == holder


def test_state_that_nobody_has_is_nowhere() -> None:
    assert holder_of("n", "a/0", {"a/0": Checkpoint(offsets={"a": 1})}) is None


def test_each_number_of_a_task_has_its_holder() -> None:
    kept = {name: Checkpoint(states={"n": SCHEMA}) for name in ("old/0", "a/1")}
    assert holders_of("n", "a", {**kept, "a/2": Checkpoint()}) == ["old/0", "a/1"]


def test_the_schemas_that_are_kept_are_those_of_the_holders() -> None:
    kept = {"old/0": Checkpoint(states={"n": SCHEMA}), "a/1": Checkpoint(changelogs={"n": 1})}
    assert kept_states(planned(), kept) == [("n", SCHEMA)]


def test_the_streams_that_any_task_has_read() -> None:
    assert read_before({"a/0": Checkpoint(offsets={"a": 1}), "b/0": Checkpoint(offsets={"b": 0})}) == {"a", "b"}


def test_the_facts_of_an_operator_are_taken_over_and_away_together() -> None:
    position = Position(reached={"n": 7}, lateness={"n": 1})
    holder = Checkpoint(states={"n": SCHEMA}, changelogs={"n": 3}, position=position, offsets={"b": 2})
    taken = with_operator(Checkpoint(offsets={"a": 1}), "n", holder)
    assert (taken.states, taken.changelogs, taken.position.reached) == ({"n": SCHEMA}, {"n": 3}, {"n": 7})
    assert taken.offsets == {"a": 1}
    left = without(taken, ["n"])
    assert (left.states, left.changelogs, left.position.reached) == ({}, {}, {})


def test_a_stream_that_was_made_anew_is_refused() -> None:
    system = ProducingSystem()
    system.admin().create("a", 2)
    with pytest.raises(SystemProblem, match="'a'"):
        refuse_recreated(planned(), system, {"a/0": Checkpoint(identities={"a": "older"})}, "reset")


def test_a_stream_that_is_the_same_is_gone_on_with() -> None:
    system = ProducingSystem()
    system.admin().create("a", 2)
    same = {"a": system.admin().identity("a"), "not read": "any"}
    refuse_recreated(planned(), system, {"a/0": Checkpoint(identities=same)}, "reset")


@pytest.mark.parametrize(
    ("before", "now", "streams", "read"),
    [
        ("partition", "stream-partition", "ab", "'b' by task 'a/0'"),
        ("stream-partition", "partition", "ab", "'b' by task 'a/2'"),
        ("stream-partition", "stream-partition", "ba", "'a' by task 'a/0'"),
    ],
)
def test_partitions_that_are_grouped_otherwise_are_refused(
    before: Grouping, now: Grouping, streams: str, read: str
) -> None:
    def grouped(names: str, grouping: Grouping) -> Plan:
        pipeline = Pipeline("p")
        first, second = (pipeline.stream(name, value=str, key=str) for name in names)
        first.merge(second).send_to("out")
        return plan(pipeline, partitions={"a": 2, "b": 1}, settings=Settings(group_by=grouping))

    then = grouped("ab", before)
    tasks = range(then.stage("a").tasks)
    read_by = {at: dict.fromkeys(partitions_read(then, "a", at), 1) for at in tasks}
    apart = [OnlyInput("a", 0, 2), OnlyInput("a", 1, 2), OnlyInput("b", 0, 1)]
    only = apart if before == "stream-partition" else [None] * 3
    stored = {f"a/{at}": Checkpoint(offsets=read_by[at], input=only[at]) for at in tasks}
    refuse_other_grouping(then, stored, "reset")
    with pytest.raises(PlanError, match=rf"as of {read}: its inputs .*\n(.*\n)*.*reset --all") as refused:
        refuse_other_grouping(grouped(streams, now), stored, "reset")
    assert "test_migration.py" in str(refused.value)
