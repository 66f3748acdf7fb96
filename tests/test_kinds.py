"""A kind of operator has a row in the table of each phase, and one that has none is refused by name."""

import re
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

import pytest

from fluvial.dsl import Pipeline
from fluvial.dsl import operators as ops
from fluvial.dsl.operators.kind_table import KindTable
from fluvial.planner import draw, plan
from fluvial.planner.descriptions import no_options
from fluvial.planner.drawing import FORMATS
from fluvial.planner.flow import as_given
from fluvial.planner.kinds import PLANNER_KINDS, PlannerKind
from fluvial.planner.kinds.contradictions import nothing_taken
from fluvial.runtime.kernel.code.code_writer import CodeWriter
from fluvial.runtime.kernel.code.source_text import CodePath, Variables
from fluvial.runtime.kernel.compiler.compiler import compile_stage
from fluvial.runtime.kernel.kinds import KERNEL_KINDS, KernelKind
from fluvial.runtime.testing import PipelineDriver, Recorder, draw_run
from generators import described_steps
from generators.building import BUILDERS
from generators.described_steps import Step
from generators.kinds import DRAWN_KINDS, NOT_DRAWN, RANDOM_KINDS
from generators.pipelines import DRAWN_STEPS
from oracle.interpreter import run_oracle
from oracle.kinds import ORACLE_KINDS, OracleKind
from oracle.kinds.row import passes_on
from tests.plans.samples import every_kind

ROOT = Path(__file__).parents[1]
TABLES: tuple[KindTable[Any], ...] = (PLANNER_KINDS, KERNEL_KINDS, ORACLE_KINDS, RANDOM_KINDS)
"""The last two belong to tests: what the oracle does with a kind, and what draws it in random pipelines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Echo(ops.Numbered):
    """A kind that no phase knows."""

    kind: ClassVar[str] = "echo"


OPERATORS = [kind for kind in vars(ops).values() if isinstance(kind, type) and issubclass(kind, ops.Operator)]
KINDS = {kind for kind in OPERATORS if "kind" in vars(kind)}
"""The classes of operators that say what kind they are."""
STEPS: set[type[Step]] = {
    step for step in vars(described_steps).values() if isinstance(step, type) and issubclass(step, Step)
} - {Step}
"""The classes of steps that random pipelines are described by."""


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table._name)
def test_each_kind_has_a_row_in_the_table_of_each_phase(table: KindTable[Any]) -> None:
    missing = sorted(kind.__name__ for kind in KINDS - set(table))
    assert not missing, f"{table._name} has no row for {', '.join(missing)}: see docs/contributing/operators.md"
    assert set(table) <= KINDS


CALLED = {"fn", "by", "predicates", "processor", "joined", "call", "sink", "aggregate"}
"""Fields of records in which a user's function is, or an object with one; so is each whose type is a Callable."""


@pytest.mark.parametrize("kind", sorted(KINDS, key=str))
def test_a_kind_that_calls_a_function_says_what_contradicts_its_annotations(kind: type[ops.Operator]) -> None:
    calls = {field.name for field in fields(kind) if "Callable" in str(field.type) or field.name in CALLED}
    calls -= {"timestamp"}  # checked by the verb: its value= stands beside it
    answers = PLANNER_KINDS._rows[kind].contradictions is not nothing_taken
    assert answers or not calls, f"the planner's row of {kind.__name__} needs contradictions=, for {sorted(calls)}"


def test_each_kind_is_in_the_golden_plan() -> None:
    missing = sorted(kind.__name__ for kind in KINDS - {type(operator) for operator in every_kind().operators})
    assert not missing, f"add {', '.join(missing)} to every_kind in tests/plans/samples.py, and run make golden"


@pytest.mark.parametrize("step", sorted(STEPS, key=str))
def test_each_step_is_built(step: type[Step]) -> None:
    assert step in BUILDERS, f"add a row for {step.__name__} to BUILDERS in tests/support/generators/building.py"


def test_the_steps_of_each_kind_are_drawn() -> None:
    """Those of a kind that is not drawn at random have a reason in NOT_DRAWN."""
    drawn = {row.step for row in DRAWN_STEPS.values()}
    for kind, step in DRAWN_KINDS.items():
        assert step not in STEPS - drawn, (
            f"{kind.__name__} is not drawn at random: add a row for {step.__name__} to DRAWN_STEPS in "
            "tests/support/generators/pipelines.py, or a reason to NOT_DRAWN in tests/support/generators/kinds.py"
        )


@pytest.mark.parametrize("reason", NOT_DRAWN.values())
def test_a_kind_that_is_not_drawn_is_run_by_tests_that_are_there(reason: str) -> None:
    (path,) = re.findall(r"tests/\S+\.py", reason)
    assert (ROOT / path).is_file()


def test_the_planner_names_the_table_in_which_a_kind_is_missing() -> None:
    with pytest.raises(NotImplementedError, match=r"^planner/kinds has no row for the kind of operator Echo$"):
        plan(with_echo())


def test_the_kernel_names_the_table_in_which_a_kind_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    add_row(monkeypatch, PLANNER_KINDS, PLANNED)
    planned = plan(with_echo())
    with pytest.raises(NotImplementedError, match=r"^runtime/kernel/kinds has no row for the kind of operator Echo$"):
        compile_stage(planned, "words", {"words": "source"}, trailers=False)


def test_the_oracle_names_the_table_in_which_a_kind_is_missing() -> None:
    row = r"^tests/support/oracle/kinds has no row for the kind of operator Echo$"
    with pytest.raises(NotImplementedError, match=row):
        run_oracle(with_echo(), {"words": []})


def test_a_kind_with_a_row_in_each_table_is_drawn_and_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawings know no kinds: they show what the plan, and a run of it, say."""
    add_row(monkeypatch, PLANNER_KINDS, PLANNED)
    add_row(monkeypatch, KERNEL_KINDS, KernelKind(write=write_nothing_else))
    add_row(monkeypatch, ORACLE_KINDS, OracleKind(take=passes_on))
    planned = plan(with_echo())
    for format in FORMATS:
        assert "echo" in draw(planned, format)
    with PipelineDriver(with_echo()) as driver:
        recorder = Recorder(driver)
        recorder.send("words", "hello", timestamp=1)
        outputs = {"echoes": driver.records.read("echoes")}
    assert run_oracle(with_echo(), {"words": [[(None, b"hello", 1, ())]]}) == outputs
    assert "hello" in draw_run(recorder.recording)


PLANNED = PlannerKind(flow=as_given, options=no_options)


def write_nothing_else(
    writer: CodeWriter, path: CodePath, operator: ops.Operator, names: Variables, depth: int
) -> None:
    """Write the code of the operators behind it, which are given the message as it is."""
    writer.follow(path, operator.id, names, depth)


def add_row(monkeypatch: pytest.MonkeyPatch, table: KindTable[Any], row: Any) -> None:
    """Give the kind Echo a row in a table, until the test ends."""
    monkeypatch.setattr(table, "_rows", {**table._rows, Echo: row})


def with_echo() -> Pipeline:
    """A pipeline with an operator of that kind between its source and its end."""
    pipeline = Pipeline("p")
    words = pipeline.stream("words", value=str)
    type(words)(pipeline._graph, pipeline._graph.add(Echo, inputs=(words.operator.id,))).send_to("echoes")
    return pipeline
