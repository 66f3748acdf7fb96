"""Which container runs which task: evenly, and where it was."""

from collections import Counter
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluvial.dsl import Pipeline
from fluvial.planner import plan
from fluvial.planner.task_assignment import Stages, StageTasks, TaskId, assign, stages_of, tasks_of

sizes = st.integers(1, 9).map(StageTasks) | st.builds(StageTasks, st.integers(1, 4), st.sampled_from([2, 4]))
stages = st.dictionaries(st.sampled_from(["clicks", "by-user", "by-page", "by-day"]), sizes)
containers = st.integers(1, 6)


@st.composite
def assignments(draw: st.DrawFn) -> tuple[Stages, int, dict[str, int]]:
    """Stages, containers, and an assignment of before, which may be of other stages and containers."""
    before = assign(draw(stages), draw(containers))
    places = st.dictionaries(
        st.sampled_from(tasks_of({"clicks": StageTasks(9), "by-user": StageTasks(4, 2)})), st.integers(0, 7)
    )
    return draw(stages), draw(containers), before | draw(places)


def kept(made: dict[str, int], before: dict[str, int]) -> int:
    return sum(before.get(task) == container for task, container in made.items())


def loads(made: dict[str, int], number: int, stage: str = "") -> list[int]:
    found = Counter(container for task, container in made.items() if task.startswith(stage))
    return [found[container] for container in range(number)]


@given(assignments())
def test_every_task_has_one_container(given: tuple[Stages, int, dict[str, int]]) -> None:
    made = assign(*given)
    assert list(made) == tasks_of(given[0])
    assert set(made.values()) <= set(range(given[1]))


@given(assignments())
def test_it_is_even_in_each_stage_and_as_a_whole(given: tuple[Stages, int, dict[str, int]]) -> None:
    made = assign(*given)
    for stage in ["", *(f"{stage}/" for stage in given[0])]:
        found = loads(made, given[1], stage)
        assert max(found) - min(found) <= 1


@given(assignments())
def test_the_same_again_is_the_same(given: tuple[Stages, int, dict[str, int]]) -> None:
    made = assign(*given)
    assert assign(*given) == made
    assert assign(given[0], given[1], made) == made


def most_kept(tasks: Stages, number: int, before: dict[str, int]) -> int:
    """The most tasks that can stay where they were in any even assignment: all ways are tried, stage by stage, to say
    which containers get one task more than others of each. Of ways with the same sums the best one counts."""
    best = {(0,) * number: 0}
    for name, stage in tasks.items():
        homes = Counter(before.get(task.name, -1) for task in stage.of(name))
        whole, left = divmod(stage.total, number)
        ways: dict[tuple[int, ...], int] = {}
        for more in combinations(range(number), left):
            counts = [whole + (container in more) for container in range(number)]
            stays = sum(min(homes[container], count) for container, count in enumerate(counts))
            for sums, kept_before in best.items():
                key = tuple(had + (container in more) for container, had in enumerate(sums))
                ways[key] = max(ways.get(key, 0), kept_before + stays)
        best = ways
    return max(stays for sums, stays in best.items() if max(sums) - min(sums) <= 1)


@given(assignments())
def test_no_even_assignment_moves_fewer_tasks(given: tuple[Stages, int, dict[str, int]]) -> None:
    tasks, number, before = given
    assert kept(assign(*given), before) == most_kept(tasks, number, before)


@pytest.mark.parametrize(("before", "after"), [(2, 1), (1, 2), (2, 3), (3, 2), (4, 4)])
def test_tasks_stay_where_they_were_when_containers_come_and_go(before: int, after: int) -> None:
    tasks = {"clicks": StageTasks(12)}
    first = assign(tasks, before)
    assert kept(assign(tasks, after, first), first) == 12 * min(before, after) // max(before, after)


def test_more_containers_than_tasks_leave_some_idle() -> None:
    assert loads(assign({"clicks": StageTasks(2)}, 4), 4) == [1, 1, 0, 0]


def test_the_tasks_of_a_plan() -> None:
    pipeline = Pipeline("p")
    pipeline.stream("words", value=str).partition_by(str, id="by", key_type=str).send_to("out")
    assert tasks_of(stages_of(plan(pipeline, partitions={"words": 2, "p-by": 1}))) == ["words/0", "words/1", "p-by/0"]


@given(assignments())
def test_key_buckets_of_a_number_share_a_container_where_none_had_one_before(
    given: tuple[Stages, int, dict[str, int]],
) -> None:
    tasks, number, _ = given
    for stage, of_stage in tasks.items():
        made = assign({stage: of_stage}, number)
        places = [
            {made[task.name] for task in of_stage.of(stage) if task.number == one} for one in range(of_stage.numbers)
        ]
        # At a border between two containers a number may be cut in two, so that both have as many tasks.
        assert sum(map(len, places)) <= of_stage.numbers + number - 1


@pytest.mark.parametrize("name", ["clicks/0", "a/b/12", "clicks/3-1-4"])
def test_a_task_is_known_by_its_name(name: str) -> None:
    assert TaskId.parse(name).name == name


@pytest.mark.parametrize("name", ["clicks", "clicks/", "clicks/1-2", "clicks/x", "clicks/1-2-3-4"])
def test_other_text_is_no_name_of_a_task(name: str) -> None:
    with pytest.raises(ValueError, match="is no name of a task, such as"):
        TaskId.parse(name)


def test_the_name_of_a_task_has_a_number_a_bucket_and_the_elasticity() -> None:
    assert TaskId.parse("a/b-1/3-1-4") == ("a/b-1", 3, 1, 4)
    assert TaskId.parse("a/b-1/3") == ("a/b-1", 3, 0, 1)
