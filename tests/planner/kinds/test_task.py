"""What a plan says of stream tasks: types, options, stores, and where they cannot be split or run."""

from datetime import timedelta
from typing import Any

from explained import assert_explains, error_of
from fluvial.dsl import Collector, Envelope, MapState, Pipeline, PlanError, StreamTask, Tag, TaskCoordinator, ValueState
from fluvial.planner import Settings, draw, plan
from fluvial.planner.ends_of_input import end_dependences
from fluvial.runtime.preflight.unsupported import limitations

MINUTE = timedelta(minutes=1)


class Tally(StreamTask[str, str, int]):
    """Keeps two states, and has a side output."""

    seen = ValueState(int, 0)
    words = MapState(str, int, ttl=MINUTE)
    aside = Tag("aside", bytes)

    def process(self, envelope: Envelope[str, str], collector: Collector[int], coordinator: TaskCoordinator) -> None:
        """Do nothing."""


class Full(Tally):
    """Has all other methods."""

    def init(self, context: Any) -> None:
        """Do nothing."""

    def window(self, collector: Collector[int], coordinator: TaskCoordinator) -> None:
        """Do nothing."""

    on_end_of_stream = on_drain = window


class Beginning(Tally):
    """Has a method that needs no key."""

    def init(self, context: Any) -> None:
        """Do nothing."""


class Untyped(StreamTask):  # type: ignore[type-arg]
    """Says nothing of types."""

    def process(self, envelope: Any, collector: Any, coordinator: Any) -> None:
        """Do nothing."""


def keyed(factory: Any = Tally) -> Pipeline:
    pipeline = Pipeline("p")
    pipeline.task(factory, pipeline.stream("words", key=str, value=str), id="tally").send_to("out")
    return pipeline


def by_task(factory: Any = Full, **options: Any) -> Pipeline:
    pipeline = Pipeline("p")
    words = pipeline.stream("words", value=str)
    pipeline.task(factory, words, id="tally", **options).map(str).send_to("out")
    return pipeline


def test_a_task_by_key_is_described_with_its_states_and_types() -> None:
    planned = plan(keyed())
    operator = planned.operator("tally")
    assert (operator.kind, operator.role, operator.key, operator.value) == ("task", "both", "str", "int")
    assert operator.details == {
        "task": "Tally",
        "state by": "key",
        "seen": "int",
        "words": "map[str, int] for 1 min",
        "side outputs": "aside",
    }
    (store,) = planned.stores
    assert store.value == "seen: int, words: map[str, int] with ttl"
    assert store.schema.facts["key"] == "str"
    assert "task tally" in draw(planned, "text")


def test_a_task_by_task_is_described_with_its_methods() -> None:
    planned = plan(by_task(window=MINUTE))
    operator = planned.operator("tally")
    assert (operator.key, operator.value) == (None, "int")
    assert operator.details["window"] == "each 1 min"
    assert operator.details["methods"] == "init, on_end_of_stream, on_drain"
    (store,) = planned.stores
    assert store.schema.facts["key"] == "task"
    (end,) = end_dependences(planned)
    assert end.reason == "at each end of input its method for it is called"


def test_what_a_class_without_types_sends_has_no_known_type() -> None:
    assert plan(by_task(Untyped)).operator("tally").value is None


def test_state_by_task_is_not_split() -> None:
    pipeline = by_task(window=MINUTE)
    assert plan(pipeline, settings=Settings(elasticity={"words": 1})).stages[0].elasticity == 1
    error = error_of(lambda: plan(pipeline, settings=Settings(elasticity=2)), PlanError)
    assert_explains(error, "task tally with elasticity=2 of stage 'words'", None, "its state is by task", "state=")
    assert plan(keyed(), settings=Settings(elasticity=2)).stages[0].elasticity == 2


def test_keys_of_two_types_are_refused() -> None:
    pipeline = Pipeline("p")
    inputs = [pipeline.stream("one", key=str, value=str), pipeline.stream("two", key=int, value=str)]
    task: Any = pipeline.task
    task(Tally, inputs, id="tally").send_to("out")
    error = error_of(lambda: plan(pipeline), PlanError)
    assert_explains(error, "keys of type str and int", None, "keys of one type", "partition_by")


def test_other_values_than_the_class_takes_are_refused() -> None:
    pipeline = Pipeline("p")
    task: Any = pipeline.task
    task(Tally, pipeline.stream("numbers", key=str, value=int), id="tally").send_to("out")
    assert_explains(error_of(lambda: plan(pipeline), PlanError), "gets int, and Tally takes str", None, "takes")


def test_what_spark_cannot_run_is_reported_with_the_reason() -> None:
    assert limitations(plan(keyed()), "spark") == []
    (one,) = limitations(plan(by_task(window=MINUTE)), "spark")
    assert (one.subject, "its state is by task" in one.reason) == ("task tally", True)
    (two,) = limitations(plan(keyed(Beginning)), "spark")
    assert (two.subject, "calls process alone" in two.reason) == ("init of task tally", True)
