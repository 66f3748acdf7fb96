"""A kind of operator has a row in the table of each phase, and one that has none is refused by name."""

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from fluvial.dsl import Pipeline
from fluvial.dsl import operators as ops
from fluvial.dsl.operators.kind_table import KindTable
from fluvial.planner import plan
from fluvial.planner.descriptions import no_options
from fluvial.planner.flow import as_given
from fluvial.planner.kinds import PLANNER_KINDS, PlannerKind
from fluvial.runtime.kernel.compiler.compiler import compile_stage
from fluvial.runtime.kernel.kinds import KERNEL_KINDS

TABLES: tuple[KindTable[Any], ...] = (PLANNER_KINDS, KERNEL_KINDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Echo(ops.Numbered):
    """A kind that no phase knows."""

    kind: ClassVar[str] = "echo"


OPERATORS = [kind for kind in vars(ops).values() if isinstance(kind, type) and issubclass(kind, ops.Operator)]
KINDS = {kind for kind in OPERATORS if "kind" in vars(kind)}
"""The classes of operators that say what kind they are."""


@pytest.mark.parametrize("table", TABLES)
def test_each_kind_has_a_row_in_the_table_of_each_phase(table: KindTable[Any]) -> None:
    assert set(table) == KINDS


def test_the_planner_names_the_table_in_which_a_kind_is_missing() -> None:
    pipeline = with_echo()
    with pytest.raises(NotImplementedError, match=r"^planner/kinds has no row for the kind of operator Echo$"):
        plan(pipeline)


def test_the_kernel_names_the_table_in_which_a_kind_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {kind: PLANNER_KINDS._rows[kind] for kind in PLANNER_KINDS}
    known = PlannerKind(flow=as_given, options=no_options)
    monkeypatch.setattr(PLANNER_KINDS, "_rows", {**rows, Echo: known})
    planned = plan(with_echo())
    with pytest.raises(NotImplementedError, match=r"^runtime/kernel/kinds has no row for the kind of operator Echo$"):
        compile_stage(planned, "words", {"words": "source"}, trailers=False)


def with_echo() -> Pipeline:
    """A pipeline with an operator of that kind between its source and its end."""
    pipeline = Pipeline("p")
    words = pipeline.stream("words", value=str)
    type(words)(pipeline._graph, pipeline._graph.add(Echo, inputs=(words.operator.id,))).send_to("echoes")
    return pipeline
