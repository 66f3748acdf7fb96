"""The checkpoints of tasks that are split or merged."""

from datetime import timedelta

import pytest

from fluvial.dsl import Pipeline, count, tumbling
from fluvial.dsl.errors import PlanError
from fluvial.planner import Plan, Settings, plan
from fluvial.planner.state_schema import StateSchema
from fluvial.planner.task_assignment import TaskId
from fluvial.runtime.kernel.time.position import Position
from fluvial.runtime.local.checkpoints.checkpoint import Checkpoint
from fluvial.runtime.local.checkpoints.rescaled import (
    apart,
    ended_apart,
    plan_before,
    rescaled,
    rescaled_numbers,
)


def planned(elasticity: int) -> Plan:
    pipeline = Pipeline("p")
    keyed = pipeline.stream("in", value=str, key=str)
    keyed.window(tumbling(timedelta(seconds=1)), count(), id="n").map(str).send_to("out")
    return plan(pipeline, partitions={"in": 2}, settings=Settings(elasticity=elasticity))


def tasks(elasticity: int) -> list[TaskId]:
    return [TaskId("in", 0, bucket, elasticity) for bucket in range(elasticity)]


def test_the_elasticity_of_before_is_that_of_the_checkpoints() -> None:
    stored = {"in/0-1-2": Checkpoint(offsets={"in": 5})}
    assert [stage.elasticity for stage in plan_before(planned(8), stored).stages] == [2]
    same = planned(2)
    assert plan_before(same, stored) is same
    assert plan_before(same, {}) is same


KEPT = {"n": StateSchema(kind="window")}


@pytest.mark.parametrize(
    ("stored", "elasticity"),
    [
        ({"before/0": Checkpoint(offsets={"in": 5}, states=KEPT)}, 2),
        ({"before/0-1-4": Checkpoint(states=KEPT)}, 1),
        ({"in/0": Checkpoint(offsets={"in": 5}), "behind/0": Checkpoint(states=KEPT)}, 2),
        ({"in/0-0-2": Checkpoint(offsets={"in": 5}), "behind/0": Checkpoint(states=KEPT)}, 2),
    ],
)
def test_where_operators_are_and_the_elasticity_do_not_change_at_once(
    stored: dict[str, Checkpoint], elasticity: int
) -> None:
    with pytest.raises(PlanError, match=r"goes on from the tasks of stage '(before|behind)', and is to have"):
        plan_before(planned(elasticity), stored)


def test_what_has_moved_before_is_no_change() -> None:
    stored = {
        "before/0": Checkpoint(offsets={"in": 3}, states=KEPT),
        "in/0-0-2": Checkpoint(offsets={"in": 5}, states=KEPT),
    }
    assert [stage.elasticity for stage in plan_before(planned(4), stored).stages] == [2]
    same = planned(1)
    assert plan_before(same, {"before/0": Checkpoint(offsets={"in": 3}, states=KEPT)}) is same


@pytest.mark.parametrize(
    "other",
    [Position(reached={"n": 5}), Position(idle={"in": [0]})],
)
def test_tasks_are_apart_that_have_fired_something_else(other: Position) -> None:
    same = Checkpoint(offsets={"in": 5}, position=other)
    assert not apart(planned(2), planned(1), {task.name: same for task in tasks(2)})
    assert apart(planned(2), planned(1), {"in/0-0-2": same, "in/0-1-2": Checkpoint(offsets={"in": 5})})


def test_an_end_of_input_counts_as_long_as_time_has_not_passed_it() -> None:
    ended = Checkpoint(offsets={"in": 5}, position=Position(fired_at_end={"n": 5}, reached={"n": 4}))
    passed = Checkpoint(offsets={"in": 5}, position=Position(fired_at_end={"n": 5}, reached={"n": 5}))
    none = Checkpoint(offsets={"in": 5})
    assert ended_apart(planned(2), planned(1), {"in/0-0-2": ended, "in/0-1-2": none})
    assert not ended_apart(planned(2), planned(1), {"in/0-0-2": passed, "in/0-1-2": none})
    assert not ended_apart(planned(2), planned(1), {"in/0-0-2": ended, "in/0-1-2": ended})


def test_tasks_within_a_firing_are_apart() -> None:
    within = Checkpoint(offsets={"in": 5}, position=Position(cursors={"n": (1000, b"user")}))
    assert apart(planned(2), planned(1), {task.name: within for task in tasks(2)})


def test_tasks_that_are_to_be_merged_are_apart_until_they_have_read_the_same() -> None:
    stored = {task.name: Checkpoint(offsets={"in": 5}) for task in tasks(2)}
    assert not apart(planned(2), planned(1), stored)
    stored["in/0-1-2"] = Checkpoint(offsets={"in": 6})
    assert apart(planned(2), planned(1), stored)
    assert not apart(planned(2), planned(4), stored), "a split leaves each where it is"
    del stored["in/0-1-2"]
    assert apart(planned(2), planned(1), stored), "one that has not read yet is behind"


def test_each_number_is_rescaled_by_itself() -> None:
    found = [
        (len(old), len(new), {task.number for task in (*old, *new)})
        for old, new in rescaled_numbers(planned(2), planned(4))
    ]
    assert found == [(2, 4, {0}), (2, 4, {1})]
    assert [*rescaled_numbers(planned(2), planned(2))] == []


def test_buckets_share_keys_if_the_smaller_elasticity_puts_them_together() -> None:
    pairs = [(one.bucket, other.bucket) for one in tasks(2) for other in tasks(4) if one.shares_keys(other)]
    assert pairs == [(0, 0), (0, 2), (1, 1), (1, 3)]
    assert not TaskId("in", 0, 0, 2).shares_keys(TaskId("in", 0, 1, 2))
    assert not TaskId("in", 0).shares_keys(TaskId("in", 1))


def test_a_split_gives_each_the_checkpoint_of_before() -> None:
    old = Checkpoint(offsets={"in": 5}, position=Position(highs={"in": 7}), changelogs={"n": 3}, number=4, run="r")
    made = rescaled(tasks(2), tasks(4), {"in/0-1-2": old})
    assert [task.bucket for task in made] == [1, 3]
    for one in made.values():
        assert (one.offsets, one.position.highs, one.changelogs, one.number, one.run) == (
            {"in": 5},
            {"in": 7},
            {"n": 3},
            5,
            "",
        )


def test_a_merge_has_the_ends_of_all_and_what_holds_for_the_keys_of_all() -> None:
    one = Checkpoint(
        offsets={"in": 5},
        position=Position(
            highs={"in": 7},
            producers={"p-by": {0: 4, 1: 9}},
            idle={"in": [0], "p-by": [1]},
            rested={"p-by": {1: 20}},
            reached={"n": 6},
            versions={"t": 3},
            built={"j": 3},
            fired_at_end={"n": 50},
            clock=100,
        ),
        changelogs={"n": 3},
        states={"n": StateSchema(kind="window")},
        atomic=True,
        number=4,
        tables={"t": 2},
    )
    other = Checkpoint(
        offsets={"in": 5},
        position=Position(
            highs={"in": 7},
            producers={"p-by": {0: 4, 1: 8}},
            idle={"p-by": [1, 2]},
            rested={"p-by": {1: 18, 2: 3}},
            reached={"n": 6},
            versions={"t": 2},
            built={"j": 2},
            clock=90,
        ),
        changelogs={"n": 8},
        number=9,
        tables={"t": 2},
    )
    made = rescaled(tasks(2), tasks(1), {"in/0-0-2": one, "in/0-1-2": other})
    merged = made[TaskId("in", 0)]
    assert (merged.offsets, merged.changelogs, merged.number, merged.atomic) == ({"in": 5}, {"n": 8}, 10, False)
    assert (merged.states, merged.tables) == (one.states, {"t": 2})
    position = merged.position
    assert (position.highs, position.producers, position.reached) == ({"in": 7}, {"p-by": {0: 4, 1: 8}}, {"n": 6})
    assert (position.idle, position.rested) == ({"p-by": [1]}, {"p-by": {1: 18}})
    assert (position.versions, position.built) == ({"t": 5}, {"j": 5}), "a joined table stays up to date"
    assert (position.fired_at_end, position.clock) == ({"n": 50}, 90)


def test_every_fact_of_a_position_has_a_way_to_be_merged() -> None:
    of_operator: dict[str, int] = {"n": 1}
    of_stream: dict[str, int] = {"in": 1}
    full = Position(
        highs=of_stream,
        producers={"b": {0: 1}},
        idle={"b": [0]},
        rested={"b": {0: 1}},
        met=of_operator,
        lateness=of_operator,
        out_of_order=of_stream,
        forgotten=of_operator,
        reached=of_operator,
        clock_fired=of_operator,
        versions=of_operator,
        built=of_operator,
        quiet_since=of_stream,
        fired_at_end=of_operator,
        clock=1,
    )
    made = rescaled(tasks(2), tasks(1), {task.name: Checkpoint(position=full) for task in tasks(2)})
    merged = made[TaskId("in", 0)].position
    lost = [name for name in Position.__struct_fields__ if getattr(full, name) and not getattr(merged, name)]
    assert lost == []
