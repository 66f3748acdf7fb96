"""Which container has a task, by the assignment and by the checkpoints."""

from fluvial.runtime.local.checkpoints.checkpoint import Checkpoint
from fluvial.runtime.local.coordination.assignments import Assignment
from fluvial.runtime.local.handover.owners import owned_by, owners_of, unsettled

BEGUN = Assignment(generation=3, containers=2, tasks={"a/0": 0, "a/1": 1}, run="r", until="stopped")
SCALED = Assignment(
    generation=4, containers=3, tasks={"a/0": 2, "a/1": 1}, run="r", until="stopped", epoch=3, owners={**BEGUN.tasks}
)


def test_without_a_change_it_is_the_container_of_the_assignment() -> None:
    assert owners_of(BEGUN, {"a/0": Checkpoint()}) == {"a/0": 0, "a/1": 1}
    assert not unsettled(BEGUN, owners_of(BEGUN, {}))


def test_a_task_stays_where_it_was_until_its_checkpoint_names_another_container() -> None:
    before, after = owners_of(SCALED, {"a/0": Checkpoint()}), owners_of(SCALED, {"a/0": Checkpoint(owner=("r", 2))})
    assert (before["a/0"], after["a/0"]) == (0, 2)
    assert unsettled(SCALED, before) == {"a/0": (0, 2)}
    assert not unsettled(SCALED, after)
    assert owned_by(2, after) == {"a/0"}


def test_what_a_checkpoint_of_containers_of_before_names_does_not_count() -> None:
    assert owners_of(BEGUN, {"a/0": Checkpoint(owner=("q", 1))}) == BEGUN.tasks


def test_a_task_may_be_with_a_container_that_no_assignment_wants_for_it() -> None:
    """It was handed over while another process decided otherwise."""
    owners = owners_of(SCALED, {"a/1": Checkpoint(owner=("r", 0))})
    assert unsettled(SCALED, owners) == {"a/0": (0, 2), "a/1": (0, 1)}
