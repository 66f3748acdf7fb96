"""Sources that have got more partitions: which task reads which, and what a plan can follow."""

from datetime import timedelta

import pytest

from fluvial.dsl import Pipeline, count, tumbling
from fluvial.planner import plan
from fluvial.planner.growths import before_growth, fits, grown, is_stateful, partitions_read
from fluvial.planner.plan import Plan


def planned(partitions: int = 2) -> Plan:
    """A stage with state reads one stream, another without reads one as well."""
    pipeline = Pipeline("p")
    pipeline.stream("kept", key=str, value=str).window(tumbling(timedelta(days=1)), count(), id="n").send_to("out")
    pipeline.stream("free", key=str, value=str).send_to("copies")
    return plan(pipeline, partitions={"kept": partitions, "free": partitions})


def test_tasks_and_all_other_streams_stay_as_they_are_and_tasks_read_several_partitions() -> None:
    before = planned()
    after = grown(before, {"kept": 6, "free": 3})
    assert [(one.tasks, one.inputs) for one in after.stages] == [(one.tasks, one.inputs) for one in before.stages]
    assert after.stores == before.stores
    assert {one.name: one.partitions for one in after.streams} == {"kept": 6, "out": 2, "free": 3, "copies": 2}
    assert partitions_read(after, "kept", 1) == {"kept": ("kept", 1), "kept+1": ("kept", 3), "kept+2": ("kept", 5)}
    assert [partitions_read(after, "free", number) for number in (0, 1)] == [
        {"free": ("free", 0), "free+1": ("free", 2)},
        {"free": ("free", 1)},
    ]


def test_what_has_grown_twice_has_the_tasks_that_it_began_with() -> None:
    once = grown(planned(), {"kept": 4})
    assert (once.stream("kept").spread, once.stream("kept").growths) == (2, 2)
    twice = grown(once, {"kept": 8})
    assert (twice.stream("kept").spread, twice.stream("kept").growths) == (2, 4)
    assert Plan.from_json(twice.to_json(), twice.pipeline) == twice


def test_a_plan_of_which_nothing_has_grown_is_itself_and_is_written_as_before() -> None:
    made = planned()
    assert grown(made, {"kept": 2, "free": 1, "out": 9}) is made
    assert "began_with" not in made.to_json()


def test_only_a_multiple_fits_tasks_that_keep_state() -> None:
    made = planned()
    assert [is_stateful(made, stream) for stream in ("kept", "free")] == [True, False]
    assert [fits(made, "kept", number) for number in (3, 4, 5, 6)] == [False, True, False, True]
    assert fits(made, "free", 3)
    # With 6 keys of partition 2 of 4 would be in partition 0, which is read already.
    assert [fits(grown(made, {"kept": 4}), "kept", number) for number in (6, 8)] == [False, True]
    # It had no state as it grew to 5: keys of the first task may be in partition 4, which is of another number.
    assert not fits(grown(made, {"kept": 5}), "kept", 5)


@pytest.mark.parametrize(
    ("began", "partition", "before"), [(1, 3, [0, 1, 2]), (2, 3, [1]), (2, 6, [0, 2, 4]), (3, 4, [1]), (2, 1, [])]
)
def test_keys_of_a_partition_were_in_these_before(began: int, partition: int, before: list[int]) -> None:
    assert [*before_growth(began, partition)] == before
