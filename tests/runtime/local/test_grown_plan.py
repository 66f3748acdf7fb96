"""The plan of a pipeline whose sources have grown since it began, by what its checkpoints and its assignment tell."""

import pytest

from engines.sending import ProducingSystem, stores_of
from engines.targets import contents, write
from fluvial.dsl import Pipeline, PlanError
from fluvial.planner import Settings
from fluvial.planner.plan import Plan
from fluvial.runtime import run
from fluvial.runtime.launch import checked_plan
from fluvial.runtime.local.checkpoints.checkpoint import decode
from fluvial.runtime.local.coordination.membership import begin_run
from fluvial.runtime.local.grown_plan import plan_with_growth
from fluvial.runtime.pipeline_reset import reset
from generators.counters import Counter


def numbering() -> Pipeline:
    pipeline = Pipeline("p")
    pipeline.stream("in", value=str, key=str).process(Counter(), id="n").send_to("out")
    return pipeline


def copying() -> Pipeline:
    pipeline = Pipeline("p")
    pipeline.stream("in", value=str, key=str).send_to("out")
    return pipeline


def ran(pipeline: Pipeline) -> ProducingSystem:
    """A system on which a pipeline has read two partitions."""
    system = ProducingSystem()
    write(system, {"in": [[(b"k", b"m", 0, ())], []]})
    with stores_of(system):
        run(pipeline, system=system, until="end")
    return system


def shape(plan: Plan) -> tuple[int, int]:
    """The tasks, and the partitions that they read."""
    return plan.stages[0].tasks, plan.stream("in").partitions


@pytest.mark.parametrize("pipeline", [numbering, copying])
def test_tasks_stay_and_read_what_the_stream_has_got(pipeline: object) -> None:
    made = numbering() if pipeline is numbering else copying()
    system = ran(made)
    for partitions in (4, 8):
        system.grow("in", partitions)
        assert shape(checked_plan(made, system, Settings())) == (2, partitions)
        with stores_of(system):
            run(made, system=system, until="end")


def test_what_is_no_multiple_is_refused_where_there_is_state_and_read_where_there_is_none() -> None:
    system = ran(numbering())
    system.grow("in", 5)
    with pytest.raises(PlanError, match=r"has 5 partitions, and the state .* were in 2: .*\n(.*\n)*.*give it 6"):
        checked_plan(numbering(), system, Settings())
    system = ran(copying())
    system.grow("in", 5)
    assert shape(checked_plan(copying(), system, Settings())) == (2, 5)


def test_what_is_refused_may_be_reset_as_the_error_says() -> None:
    system = ran(numbering())
    system.grow("in", 5)
    with stores_of(system):
        assert {step.kind for step in reset(numbering(), system=system)} >= {"checkpoint"}
        assert shape(checked_plan(numbering(), system, Settings())) == (5, 5)
        run(numbering(), system=system, until="end")


def test_a_container_that_is_started_again_is_refused_as_a_new_run_is() -> None:
    system = ran(numbering())
    system.grow("in", 4)
    with stores_of(system):
        run(numbering(), system=system, until="end")
    system.grow("in", 5)
    existing = system.admin().streams()
    for reads in (2, 4):
        with pytest.raises(PlanError, match="has 5 partitions"):
            plan_with_growth(numbering(), system, existing, Settings(), {"in": reads})


def test_what_grows_again_is_to_have_a_multiple_of_what_it_has() -> None:
    system = ran(numbering())
    system.grow("in", 4)
    with stores_of(system):
        run(numbering(), system=system, until="end")
    system.grow("in", 6)
    with pytest.raises(PlanError, match="has 6 partitions, .* give it 8 partitions".replace(", .*", r"(.*\n)*.*")):
        checked_plan(numbering(), system, Settings())


def test_a_run_to_an_end_processes_what_is_held_behind_all_of_before() -> None:
    system = ran(copying())
    system.metadata_ms = 10**9
    system.grow("in", 4)
    write(system, {"in": [[(b"k", b"old", 0, ())] * 9, [], [(b"k", b"new", 0, ())], []]})
    run(copying(), system=system, until="end")
    assert [value for _, value, _, _ in contents(system, "out")] == [b"m", *[b"old"] * 9, b"new"]
    assert decode(system.admin().checkpoints("p")["in/0"], "in/0").holds.keys() == {"in+1"}


def test_while_containers_start_the_assignment_tells_how_many_tasks_there_are() -> None:
    system = ProducingSystem()
    write(system, {"in": [[], []]})
    begin_run(checked_plan(copying(), system, Settings()), system, 2, "stopped")
    assert shape(checked_plan(copying(), system, Settings())) == (2, 2)
    # The first container has committed, and the second has not.
    done = ran(copying()).admin().checkpoints("p")
    system.producer().begin().commit("p", {"in/0": done["in/0"]})
    assert shape(checked_plan(copying(), system, Settings())) == (2, 2)
    system.grow("in", 4)
    assert shape(checked_plan(copying(), system, Settings())) == (2, 4)


def test_a_run_that_has_not_committed_yet_has_the_tasks_that_it_began_with() -> None:
    system = ProducingSystem()
    write(system, {"in": [[], [], [], []]})
    assert shape(checked_plan(copying(), system, Settings(), {"in": 2})) == (2, 4)
    assert shape(checked_plan(copying(), system, Settings())) == (4, 4)


def test_a_join_goes_on_with_one_side_grown_and_a_new_one_is_refused() -> None:
    def joining() -> Pipeline:
        pipeline = Pipeline("p")
        names = pipeline.table("names", key=str, value=str)
        pipeline.stream("in", key=str, value=str).join(names, max_of, id="both").send_to("out")
        return pipeline

    system = ProducingSystem()
    write(system, {"in": [[], []], "names": [[], []]})
    with stores_of(system):
        run(joining(), system=system, until="end")
    system.grow("in", 4)
    plan = checked_plan(joining(), system, Settings())
    assert [(name, plan.stream(name).partitions) for name in ("in", "names")] == [("in", 4), ("names", 2)]
    assert [stage.tasks for stage in plan.stages] == [2]
    fresh = ProducingSystem()
    write(fresh, {"in": [[], [], [], []], "names": [[], []]})
    with pytest.raises(PlanError, match="different partition counts"):
        checked_plan(joining(), fresh, Settings())


def max_of(one: str, other: str | None) -> str:
    return max(one, other or "")


APART = Settings(group_by="stream-partition")


def merging(*streams: str) -> Pipeline:
    pipeline = Pipeline("p")
    first, *others = (pipeline.stream(name, value=str, key=str) for name in streams or ("in", "other"))
    (first.merge(*others) if others else first).send_to("out")
    return pipeline


def test_tasks_of_one_stream_each_stay_where_both_streams_grow() -> None:
    system = ProducingSystem()
    write(system, {"in": [[(b"k", b"m", 0, ())], []], "other": [[(b"k", b"m", 0, ())]]})
    run(merging(), system=system, until="end", settings=APART)
    system.grow("in", 4)
    system.grow("other", 3)
    write(system, {"in": [[], [], [(b"k", b"in", 0, ())], []], "other": [[], [(b"k", b"other", 0, ())], []]})
    plan = checked_plan(merging(), system, APART)
    assert [plan.stage("in").tasks, *(plan.stream(name).growths for name in ("in", "other"))] == [3, 2, 3]
    run(merging(), system=system, until="end", settings=APART)
    assert sorted(value or b"" for _, value, _, _ in contents(system, "out")) == [b"in", b"m", b"m", b"other"]
    assert {*system.admin().checkpoints("p")} == {"in/0", "in/1", "in/2"}


def ran_apart(*streams: str) -> ProducingSystem:
    """A system on which a pipeline has read two partitions of each stream, each in a task of its own."""
    system = ProducingSystem()
    write(system, {name: [[(b"k", b"m", 0, ())], []] for name in streams})
    run(merging(*streams), system=system, until="end", settings=APART)
    return system


def counts(system: ProducingSystem, *streams: str) -> tuple[int, list[int]]:
    """The tasks, and over how many of them each stream is spread."""
    plan = checked_plan(merging(*streams), system, APART)
    return plan.stages[0].tasks, [plan.stream(name).spread for name in streams]


def test_the_second_of_two_equal_streams_doubles_and_its_tasks_stay() -> None:
    system = ran_apart("in", "other")
    system.grow("other", 4)
    assert counts(system, "in", "other") == (4, [2, 2])
    write(system, {"other": [[], [], [(b"k", b"new", 0, ())], []]})
    run(merging(), system=system, until="end", settings=APART)
    assert sorted(value or b"" for _, value, _, _ in contents(system, "out")) == [b"m", b"m", b"new"]


def test_inputs_come_behind_and_go_while_streams_grow() -> None:
    system = ran_apart("in", "other")
    system.grow("in", 4)
    write(system, {"more": [[], []]})
    assert counts(system, "in", "other", "more") == (6, [2, 2, 2])
    run(merging("in", "other", "more"), system=system, until="end", settings=APART)
    system.grow("more", 4)
    assert counts(system, "in", "other", "more") == (6, [2, 2, 2])
    for streams in (("in", "other"), ("in",), ("in", "other", "more")):
        run(merging(*streams), system=system, until="end", settings=APART)
    assert len([*contents(system, "out")]) == 2


def test_of_a_stream_that_no_task_has_committed_the_assignment_tells_the_tasks() -> None:
    system = ran_apart("in", "other")
    begin_run(checked_plan(merging(), system, APART), system, 2, "stopped")
    done = system.admin().checkpoints("p")
    fresh = ProducingSystem()
    write(fresh, {name: [[(b"k", b"m", 0, ())], []] for name in ("in", "other")})
    begin_run(checked_plan(merging(), fresh, APART), fresh, 2, "stopped")
    fresh.producer().begin().commit("p", {"in/0": done["in/0"]})
    fresh.grow("in", 4)
    fresh.grow("other", 4)
    assert counts(fresh, "in", "other") == (4, [2, 2])


def test_another_grouping_is_refused_whatever_has_been_committed() -> None:
    system = ProducingSystem()
    write(system, {"in": [[]], "other": [[(b"k", b"m", 0, ())], [], []]})
    run(merging(), system=system, until="end", settings=APART)
    done = system.admin().checkpoints("p")
    system.producer().begin().commit("p", dict.fromkeys(("in/0", "in/2", "in/3"), b""))
    assert {*system.admin().checkpoints("p")} == {"in/1"}
    assert done.keys() > {"in/1"}
    with pytest.raises(PlanError, match="as of 'other' by task 'in/1': its inputs have changed, or its grouping"):
        run(merging(), system=system, until="end")
