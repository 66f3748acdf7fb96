"""What tasks need of a container: what arrives, through all stages, by the time that a message takes."""

import pytest

from fluvial.runtime.autosize import ContainerLoad, InputLoad, RunLoad, RunSize, TaskLoad
from fluvial.runtime.autosize.task_needs import behind, needs_of, shares_by_number


def task(
    stage: str, busy: float, arrived: float, processed: float, lag: float = 0.0, *, container: int = 0
) -> TaskLoad:
    return TaskLoad(stage, 0, container, busy, {stage: InputLoad(arrived, processed, lag)})


def load(tasks: dict[str, TaskLoad], *containers: ContainerLoad, writers: dict[str, str] | None = None) -> RunLoad:
    numbers = dict.fromkeys((one.stage for one in tasks.values()), 1)
    size = RunSize(len(containers), dict.fromkeys(numbers, 1))
    return RunLoad(100.0, 30.0, size, tasks, dict(enumerate(containers)), numbers, writers or {})


def test_a_task_that_keeps_up_needs_what_it_takes() -> None:
    needs = needs_of(load({"in/0": task("in", 0.4, 100, 100)}, ContainerLoad(0.4, 0.0, 0.4)), 300)
    assert needs["in/0"].share == pytest.approx(0.4)
    assert not list(behind(needs))


def test_one_that_does_not_keep_up_needs_as_much_more_as_arrives() -> None:
    needs = needs_of(load({"in/0": task("in", 1.0, 250, 100, 3000)}, ContainerLoad(1.0, 0.0, 1.0)), 300)
    assert needs["in/0"].share == pytest.approx(2.5 + 0.1)  # and what waits, within 300 s
    assert [one.task.stage for one in behind(needs)] == ["in"]


def test_the_stages_behind_it_get_more_once_it_keeps_up() -> None:
    tasks = {"in/0": task("in", 0.5, 300, 100), "by/0": task("by", 0.2, 100, 100)}
    needs = needs_of(load(tasks, ContainerLoad(0.7, 0.0, 0.7), writers={"by": "in"}), 300)
    assert needs["by/0"].share == pytest.approx(0.6)


def test_what_a_container_does_for_all_is_shared_by_messages_and_commits_are_left_out() -> None:
    tasks = {"a/0": task("a", 0.2, 300, 300), "b/0": task("b", 0.2, 100, 100)}
    needs = needs_of(load(tasks, ContainerLoad(0.9, 0.1, 0.5)), 300)
    assert needs["a/0"].share == pytest.approx(0.2 + 0.4 * 0.75)
    assert needs["b/0"].share == pytest.approx(0.2 + 0.4 * 0.25)


def test_a_task_that_has_processed_nothing_costs_what_others_of_its_stage_do() -> None:
    tasks = {"in/0": task("in", 0.5, 100, 100), "in/1": task("in", 0.0, 50, 0, container=1)}
    needs = needs_of(load(tasks, ContainerLoad(0.5, 0.0, 0.5), ContainerLoad(0.0, 0.0, 0.0)), 300)
    assert needs["in/1"].share == pytest.approx(0.25)


def test_a_run_without_messages_needs_nothing() -> None:
    needs = needs_of(load({"in/0": task("in", 0.0, 0, 0)}, ContainerLoad(0.01, 0.0, 0.0)), 300)
    assert needs["in/0"].share == 0
    assert shares_by_number(needs) == {"in": {0: (0.0, 0.0)}}
