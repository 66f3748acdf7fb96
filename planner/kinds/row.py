"""The row of the planner's table: the functions by which the planner asks an operator of some kind for its types,
options, checks, streams and state; and the answers that several kinds give."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ...dsl import operators as ops
from ...dsl.pipeline import Pipeline
from ..flow import Flow
from .contradictions import Contradiction, nothing_taken

Flows = Mapping[str, Flow]
"""The types that each operator emits, by its id."""
Meaning = tuple[dict[str, str], dict[str, Any]]
"""The facts and the types that give state its meaning, by name: see `StateSchema`."""


def any_types(_: ops.Operator, __: Flows) -> None:
    """The `check` of a kind whose inputs may have any types: it raises nothing."""


def writes_nothing(_: str, __: ops.Operator) -> tuple[str, ...]:
    """The `writes` of a kind whose messages stay within their stage."""
    return ()


def as_emitted(_: ops.Operator, __: list[Flow], emitted: Flow) -> Flow:
    """The `written` of a kind that writes what it emits, as it is."""
    return emitted


def always(_: ops.Operator) -> bool:
    """The `declares_value` of a kind whose function or argument tells the type of its values. The `fires_at_end` of a
    kind that holds back what it emits until its input ends, if not before."""
    return True


def never(_: ops.Operator) -> bool:
    """The `declares_value` of a kind that passes values on: what comes before it tells their type. The `fires_at_end`
    of a kind that emits for messages alone."""
    return False


def if_given_value(operator: Any) -> bool:
    """The `declares_value` of a kind with an optional `value=`: it tells the type where it was given."""
    return operator.value is not None


def own_function(operator: Any) -> Any:
    """The `typing_function` of a kind whose values, if a function tells their type, are what `fn` returns."""
    return getattr(operator, "fn", None)


def same_in_any_run(_: ops.Operator) -> str:
    """The `end_dependence` of a kind whose results do not depend on where an end of input falls."""
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorState:
    """The state of a kind of operator: its shown type and the facts that give it a meaning, by the input types."""

    shown: Callable[[Any, list[Flow]], str]
    meaning: Callable[[Pipeline, Any, list[Flow]], Meaning]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerKind:
    """A kind of operator as the planner knows it.

    `flow` returns the types that it emits, by its input types. `declares_value` says whether the operator itself
    declares the type of its values. `options` are shown in plans. `check` raises PlanError where the input types do
    not suit it. `contradictions` are those of its input types with annotations and `value=`: they count where no
    decorator changed what a function before it returns. `typing_function` is that function of its own, whose
    annotations tell the type of its values. `writes` returns the streams that it writes, by the name of the pipeline.
    `written` returns the types that it writes there, by its input types and the types that it emits. `state` is None
    for kinds without state. `fires_at_end` says whether it emits because the input ends, and `fires_early` whether time
    may make it emit before that what the end of input does not. `end_dependence` says how its results depend on where
    an end of input falls; empty if they do not.
    """

    flow: Callable[[Any, list[Flow]], Flow]
    options: Callable[[Any], dict[str, str]]
    declares_value: Callable[[Any], bool] = always
    check: Callable[[Any, Flows], None] = any_types
    contradictions: Callable[[Any, list[Flow]], Iterable[Contradiction]] = nothing_taken
    typing_function: Callable[[Any], Any] = own_function
    writes: Callable[[str, Any], tuple[str, ...]] = writes_nothing
    written: Callable[[Any, list[Flow], Flow], Flow] = as_emitted
    state: OperatorState | None = None
    fires_at_end: Callable[[Any], bool] = never
    fires_early: Callable[[Any], bool] = never
    end_dependence: Callable[[Any], str] = same_in_any_run
