"""What the planner knows of `deduplicate`: it passes on what it is given, and keeps times by key and `by`."""

from collections.abc import Iterator, Mapping

from ...dsl import operators as ops
from ...dsl.annotations import taken
from ...dsl.operators.labels import function_name
from ...dsl.pipeline import Pipeline
from ...dsl.serde import key_serde
from ..descriptions import duration
from ..flow import Flow, as_given
from .checks import check_keyed
from .contradictions import Contradiction, taking
from .row import Flows, Meaning, OperatorState, PlannerKind, never
from .state_facts import key_facts, serde_facts


def _deduplicate_options(op: ops.Deduplicate) -> dict[str, str]:
    """Within which time messages are duplicates, and by what besides their key."""
    return {"within": duration(op.within)} | ({} if op.by is None else {"by": function_name(op.by)})


def _check_deduplicate(operator: ops.Deduplicate, flows: Flows) -> None:
    """Refuse a stream without key, for duplicates are found by key."""
    check_keyed(operator, flows)


def _of_by(operator: ops.Deduplicate, inputs: list[Flow]) -> Iterator[Contradiction]:
    if operator.by is not None:
        yield from taking(operator, function_name(operator.by), taken(operator.by), inputs)


def _deduplicate_state(_: Pipeline, op: ops.Deduplicate, inputs: list[Flow]) -> Meaning:
    """The key, and the type of what messages are told apart by besides. What is kept are times: `within` may change."""
    by = {"by": "nothing"} if op.by is None else serde_facts("by", key_serde(op.by_type))
    return {**key_facts(inputs[0].key), **by}, {}


def _deduplicate_text(_: ops.Deduplicate, __: list[Flow]) -> str:
    """It keeps times alone, those of the messages that it has passed on, whatever its input types."""
    return "times"


ROWS: Mapping[type[ops.Operator], PlannerKind] = {
    ops.Deduplicate: PlannerKind(
        flow=as_given,
        options=_deduplicate_options,
        declares_value=never,
        check=_check_deduplicate,
        contradictions=_of_by,
        state=OperatorState(shown=_deduplicate_text, meaning=_deduplicate_state),
    ),
}
