"""Which container has a task, by the assignment and by the checkpoints."""

from fluvial.planner.task_assignment import is_whole
from fluvial.runtime.local.checkpoints.checkpoint import Checkpoint
from fluvial.runtime.local.coordination.assignments import Assignment
from fluvial.runtime.local.handover.owners import future_of, last_numbers, owned_by, owners_of, unsettled

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


SPLIT = Assignment(
    generation=4,
    containers=2,
    tasks={"a/0-0-2": 0, "a/0-1-2": 1, "a/1-0-2": 1, "a/1-1-2": 1},
    run="r",
    until="stopped",
    epoch=3,
    owners={**BEGUN.tasks},
)


def at(number: int, owner: int | None = None) -> Checkpoint:
    return Checkpoint(number=number, owner=None if owner is None else ("r", owner))


def test_those_that_a_task_was_split_into_have_taken_its_place() -> None:
    stored = {"a/0": at(7), "a/0-0-2": at(8, 0), "a/0-1-2": at(8, 1)}
    assert owners_of(SPLIT, stored) == {"a/0-0-2": 0, "a/0-1-2": 1, "a/1": 1}
    assert owners_of(SPLIT, {name: stored[name] for name in ("a/0-0-2", "a/0-1-2")}).keys() == {
        "a/0-0-2",
        "a/0-1-2",
        "a/1",
    }


def test_of_those_that_were_merged_again_the_one_with_the_last_checkpoint_is_there() -> None:
    stored = {"a/0": at(12, 1), "a/0-0-2": at(11, 0), "a/0-1-2": at(9, 1)}
    assert owners_of(SPLIT, stored) == {"a/0": 1, "a/1": 1}


def test_where_a_split_has_been_read_in_part_the_rest_is_not_settled() -> None:
    owners = owners_of(SPLIT, {"a/0": at(7), "a/0-0-2": at(8, 0)})
    assert owners == {"a/0-0-2": 0, "a/1": 1}
    assert unsettled(SPLIT, owners) == {"a/0-1-2": (1, 1), "a/1-0-2": (1, 1), "a/1-1-2": (1, 1)}


def test_what_is_to_become_of_tasks_is_a_move_a_split_or_a_merge() -> None:
    future = future_of(SPLIT, ["a/0-0-4", "a/0-2-4", "a/0-1-2", "a/1"])
    assert future.moves == {"a/0-0-4": 0, "a/0-2-4": 0, "a/0-1-2": 1}
    assert future.splits == {"a/1": ("a/1-0-2", "a/1-1-2")}
    assert future.merges == {"a/0-0-2": ("a/0-0-4", "a/0-2-4")}


def test_a_task_is_whole_once_all_of_its_keys_are_there() -> None:
    assert is_whole("a/0-0-2", ["a/0-0-4", "a/0-2-4"])
    assert not is_whole("a/0", ["a/0-0-4", "a/0-1-2"])


def test_a_commit_counts_as_seen_once_a_task_that_goes_on_from_it_is() -> None:
    assert last_numbers(["a/0", "a/0-1-2", "b/0"], {"a/0-1-4": at(9, 0), "a/0-0-4": at(5, 0), "a/1": at(20)}) == {
        "a/0": 9,
        "a/0-1-2": 9,
        "b/0": -1,
    }


def test_what_a_run_began_with_does_not_come_back_where_a_split_has_been_read_in_part() -> None:
    begun = Assignment(
        generation=5,
        containers=2,
        tasks={"a/0-0-2": 0, "a/0-1-2": 1},
        run="r",
        until="stopped",
        epoch=2,
        owners={"a/0-0-2": 0, "a/0-1-2": 1},
    )
    merged = {"a/0": at(27, 0)}
    assert owners_of(begun, merged) == {"a/0": 0}
    assert owners_of(begun, {**merged, "a/0-0-2": at(28, 0)}) == {"a/0-0-2": 0}
    assert owners_of(begun, {**merged, "a/0-0-2": at(28, 0), "a/0-1-2": at(28, 1)}) == {"a/0-0-2": 0, "a/0-1-2": 1}
