"""Random cases: that they can be planned, printed, pickled and judged, and mean what their mode says."""

import ast
import pickle
from collections import Counter
from itertools import product
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from engines.comparing import difference
from fluvial.dsl import Trigger
from fluvial.dsl.operators import How, Retain, WindowBy
from fluvial.dsl.windows.assigners import Hopping
from fluvial.planner import plan
from generators import cases as case_module
from generators import described_steps, described_tables, descriptions
from generators.building import build
from generators.case_joins import FAILING_JOINS, JOINS
from generators.cases import Case, cases, expected, judge, murmur2, partition_of
from generators.described_steps import (
    Border,
    Join,
    Map,
    Process,
    RemoteLookup,
    RemotePut,
    Source,
    When,
    WindowStep,
)
from generators.descriptions import Description, Mode, has_time_triggers, has_time_triggers_behind_borders
from generators.draft import Extra, Windows
from generators.how_many import examples
from generators.kinds import DRAWN_KINDS
from generators.pipelines import DRAWN_STEPS, pipelines
from oracle.interpreter import OutputMessage, Outputs, run_oracle

NAMES: dict[str, Any] = {
    name: found
    for module in (described_steps, described_tables, descriptions, case_module)
    for name, found in vars(module).items()
}
"""What a case prints as is made of these."""
SOME = settings(
    max_examples=examples(100, least=30),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@SOME
@given(cases() | cases(extras=["joins"]) | cases(extras=get_args(Extra)))
def test_every_case_can_be_planned(case: Case) -> None:
    made = plan(build(case.description), partitions=case.partitions)
    assert made.pipeline.on_error.action == case.description.on_error
    assert {stream: len(records) for stream, records in case.inputs.items()} == dict(case.partitions)
    if case.description.mode == "late":
        assert {stream.partitions for stream in made.streams} == {1}


@SOME
@given(cases() | cases(extras=["joins"]) | cases(extras=get_args(Extra)))
def test_a_case_prints_as_what_makes_it_again(case: Case) -> None:
    ast.parse(repr(case), mode="eval")
    assert eval(repr(case), NAMES) == case


@SOME
@given(cases(mode="on_time") | cases(mode="on_time", extras=get_args(Extra)))
def test_on_time_nothing_is_late_and_the_order_of_partitions_means_nothing(case: Case) -> None:
    late = Counter[str]()
    outputs = run_oracle(build(case.description), case.inputs, partitions=case.partitions, late=late)
    assert not late
    assert "late" not in outputs
    assert not any(b'"kind":"late"' in (message.value or b"") for stream in outputs.values() for message in stream)
    turned = {stream: list(reversed(records)) for stream, records in reversed(list(case.inputs.items()))}
    assert difference(run_oracle(build(case.description), turned), outputs) == ""


def joins_of(description: Description) -> list[Join]:
    return [step for step in description.steps if isinstance(step, Join)]


@pytest.mark.parametrize(("mode", "retained"), [("on_time", ["all"]), ("late", ["all", "latest"])])
def test_joins_of_each_kind_are_drawn_of_two_nodes_with_keys_of_one_type(mode: Mode, retained: list[Retain]) -> None:
    drawn = Counter[Any]()

    @settings(SOME, max_examples=300, derandomize=True, phases=[Phase.generate])
    @given(pipelines(mode, max_steps=6, extras=["joins"]))
    def check(description: Description) -> None:
        joins = joins_of(description)
        for join in joins:
            assert join.of != join.other
            assert description.key_type(join.of) == description.key_type(join.other) is not None
            drawn.update([(join.retain, join.how), join.fn])
        assert description.on_error != "fail" or not {join.fn for join in joins} & set(FAILING_JOINS)
        drawn["several"] += len(joins) > 1
        drawn["of two streams"] += len(joins) > 0 and len(description.sources) > 1
        drawn["and windows"] += len(joins) > 0 and any(isinstance(step, WindowStep) for step in description.steps)

    check()
    assert {kind for kind in drawn if isinstance(kind, tuple)} == set(product(retained, get_args(How)))
    assert {"several", "and windows", *JOINS, *FAILING_JOINS} <= set(+drawn)
    assert (drawn["of two streams"] > 0) == (mode == "on_time")


@pytest.mark.parametrize("mode", ["on_time", "late"])
def test_steps_of_all_kinds_are_drawn_together(mode: Mode) -> None:
    """Each kind of operator is drawn, and each step of those that are drawn often beside processors and windows."""
    often = {row.step for row in DRAWN_STEPS.values() if row.often > 1}
    rare, apart = set(DRAWN_KINDS), {*product(often, (Process, WindowStep))}
    for number in range(MOST_SEEDS):
        for description in descriptions_of(mode, number):
            rare -= {type(operator) for operator in build(description).operators}
            apart -= {*product(*2 * [{type(step) for step in description.steps}])}
        if not rare and not apart:
            return
    where = "see DRAWN_STEPS in tests/support/generators/pipelines.py"
    assert not rare, f"no pipeline has {sorted(kind.__name__ for kind in rare)}: {where}"
    assert not apart, f"no pipeline has both of {sorted((one.__name__, two.__name__) for one, two in apart)}: {where}"


MOST_SEEDS = 20
"""What one seed draws is much alike, so that a rare pair wants several."""


def descriptions_of(mode: Mode, number: int) -> list[Description]:
    """Some hundred pipelines with all extras, always the same for a number."""
    drawn: list[Description] = []

    @seed(number)
    @settings(SOME, max_examples=100, phases=[Phase.generate], database=None)
    @given(pipelines(mode, extras=get_args(Extra)))
    def draw(description: Description) -> None:
        drawn.append(description)

    draw()
    return drawn


@SOME
@given(pipelines(extras=get_args(Extra)))
def test_no_remote_table_is_both_read_and_written(description: Description) -> None:
    read = {step.remote for step in description.steps if isinstance(step, RemoteLookup)}
    written = {step.remote for step in description.steps if isinstance(step, RemotePut)}
    assert not read & written


def test_late_cases_have_rows_that_are_late_for_a_join() -> None:
    counts: list[int] = []

    @settings(SOME, max_examples=40, derandomize=True, phases=[Phase.generate])
    @given(cases("late", max_steps=4, extras=["joins"]))
    def check(case: Case) -> None:
        late = Counter[str]()
        run_oracle(build(case.description), case.inputs, late=late)
        counts.append(sum(count for id, count in late.items() if id.startswith("join-")))

    check()
    assert any(counts)


@SOME
@given(pipelines())
def test_joins_are_drawn_only_where_they_are_asked_for(description: Description) -> None:
    assert not joins_of(description)


@SOME
@given(pipelines() | pipelines(extras=["joins"]) | pipelines(extras=get_args(Extra)))
def test_the_functions_of_a_pipeline_can_be_pickled(description: Description) -> None:
    cloudpickle = pytest.importorskip("pyspark.cloudpickle")
    operators = build(description).operators
    again = pickle.loads(cloudpickle.dumps(operators))
    assert [operator.id for operator in again] == [operator.id for operator in operators]


@SOME
@given(cases(negative=False))
def test_timestamps_are_after_1970_where_they_must_be(case: Case) -> None:
    for records in (records for stream in case.inputs.values() for records in stream):
        assert all(timestamp >= 0 for _, _, timestamp, _ in records)


@pytest.mark.parametrize("windows", ["counts", "triggers"])
def test_cases_with_triggers_have_one_order_of_arrival_and_print_as_what_makes_them(windows: Windows) -> None:
    @settings(SOME, max_examples=examples(40, least=15))
    @given(cases(windows=windows))
    def check(case: Case) -> None:
        assert case.description.mode == "late"
        assert set(case.partitions.values()) == {1}
        assert windows == "triggers" or not has_time_triggers(case.description)
        assert eval(repr(case), NAMES) == case
        expected(case)

    check()


@pytest.mark.parametrize(
    ("trigger", "of", "waits"),
    [
        (None, 0, (False, False)),
        (When(count=2, repeats=True), 1, (False, False)),
        (When(first=5), 0, (True, False)),
        (When(count=2, last=5), 1, (True, True)),
    ],
)
def test_a_description_tells_of_triggers_that_wait_for_a_time(
    trigger: When | None, of: int, waits: tuple[bool, bool]
) -> None:
    window = WindowStep(of, "hopping", 10, "count", every=5, lateness=5, trigger=trigger, late_trigger=trigger)
    described = Description((Source("a", "str"),), (Border(0, "str", "word", 0), window), mode="late")
    assert (has_time_triggers(described), has_time_triggers_behind_borders(described)) == waits
    operator = build(described).operator("window-2")
    assert isinstance(operator, WindowBy)
    wanted = None if trigger is None else Trigger(trigger.count, trigger.first, trigger.last, trigger.repeats)
    assert (operator.assigner, operator.trigger, operator.late_trigger) == (Hopping(10, 5), wanted, wanted)


def test_a_target_that_loses_a_message_is_found_out() -> None:
    description = Description((Source("a"),), (Map(0, "plus", 1),))
    case = Case(description, {"a": [[(None, b'{"k":"a","n":1,"at":5}', 5, ())]]}, {"a": 1})
    right: Outputs = {"out-1": [OutputMessage(None, b'{"k":"a","n":2,"at":5}', 5, ())]}
    judge(case, lambda _: right)
    with pytest.raises(AssertionError, match="missing"):
        judge(case, lambda _: {})


@pytest.mark.parametrize(
    ("key", "hashed"),
    [(b"21", -973932308), (b"foobar", -790332482), (b"a-little-bit-long-string", -985981536), (b"abc", 479470107)],
)
def test_keys_are_hashed_as_kafka_does(key: bytes, hashed: int) -> None:
    assert murmur2(key) == hashed & 0xFFFFFFFF
    assert partition_of(key, 3) == (hashed & 0x7FFFFFFF) % 3
