"""The table of the planner: a row for each kind of operator."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..dsl import operators as ops
from ..dsl.kind_table import KindTable
from ..dsl.pipeline import Pipeline
from . import descriptions as text
from . import flow, state_facts
from . import kind_checks as checks
from .flow import Flow
from .state_facts import Meaning
from .stream_names import intermediate


def _writes_nothing(_: str, __: ops.Operator) -> tuple[str, ...]:
    return ()


def _writes_intermediate(pipeline: str, operator: ops.Operator) -> tuple[str, ...]:
    return (intermediate(pipeline, operator.id),)


def _writes_late(_: str, operator: ops.WindowBy) -> tuple[str, ...]:
    return () if operator.late_to is None else (operator.late_to,)


def _writes_stream(_: str, operator: ops.SendTo) -> tuple[str, ...]:
    return (operator.stream,)


def _as_emitted(_: ops.Operator, __: list[Flow], emitted: Flow) -> Flow:
    return emitted


def _as_given(_: ops.Operator, inputs: list[Flow], __: Flow) -> Flow:
    return inputs[0]


def _as_sent(operator: ops.SendTo, _: list[Flow], emitted: Flow) -> Flow:
    return Flow(emitted.key, emitted.value if operator.value is None else operator.value)


def _always(_: ops.Operator) -> bool:
    return True


def _never(_: ops.Operator) -> bool:
    return False


def _if_given_value(operator: Any) -> bool:
    return operator.value is not None


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
    not suit it. `writes` returns the streams that it writes, by the name of the pipeline. `written` returns the types
    that it writes there, by its input types and the types that it emits. `state` is None for kinds without state.
    """

    flow: Callable[[Any, list[Flow]], Flow]
    options: Callable[[Any], dict[str, str]]
    declares_value: Callable[[Any], bool] = _always
    check: Callable[[Any, checks.Flows], None] = checks.any_types
    writes: Callable[[str, Any], tuple[str, ...]] = _writes_nothing
    written: Callable[[Any, list[Flow], Flow], Flow] = _as_emitted
    state: OperatorState | None = None


PLANNER_KINDS = KindTable(
    "planner/kinds.py",
    {
        ops.Source: PlannerKind(flow=flow.of_source, options=text.source_options),
        ops.Map: PlannerKind(flow=flow.of_function, options=text.function_options),
        ops.MapMessages: PlannerKind(flow=flow.of_messages, options=text.function_options),
        ops.Filter: PlannerKind(flow=flow.as_given, options=text.function_options, declares_value=_never),
        ops.Split: PlannerKind(flow=flow.as_given, options=text.split_options, declares_value=_never),
        ops.Branch: PlannerKind(flow=flow.as_given, options=text.branch_options, declares_value=_never),
        ops.FlatMap: PlannerKind(flow=flow.of_items, options=text.function_options),
        ops.Merge: PlannerKind(flow=flow.of_merge, options=text.no_options, declares_value=_never),
        ops.AsyncFlatMap: PlannerKind(flow=flow.of_awaited_items, options=text.async_options),
        ops.JoinRemote: PlannerKind(flow=flow.of_remote_join, options=text.remote_join_options),
        ops.PutRemote: PlannerKind(flow=flow.as_given, options=text.remote_put_options, declares_value=_never),
        ops.PartitionBy: PlannerKind(
            flow=flow.of_partition_by,
            options=text.partition_by_options,
            declares_value=_if_given_value,
            check=checks.check_border,
            writes=_writes_intermediate,
        ),
        ops.Broadcast: PlannerKind(
            flow=flow.of_broadcast,
            options=text.no_options,
            declares_value=_if_given_value,
            check=checks.check_border,
            writes=_writes_intermediate,
        ),
        ops.WindowBy: PlannerKind(
            flow=flow.of_window,
            options=text.window_options,
            check=checks.check_window,
            writes=_writes_late,
            written=_as_given,
            state=OperatorState(shown=state_facts.window_text, meaning=state_facts.window_state),
        ),
        ops.JoinStreams: PlannerKind(
            flow=flow.of_function,
            options=text.join_options,
            check=checks.check_join,
            state=OperatorState(shown=state_facts.join_text, meaning=state_facts.join_state),
        ),
        ops.TableOf: PlannerKind(
            flow=flow.of_table,
            options=text.no_options,
            state=OperatorState(shown=state_facts.table_text, meaning=state_facts.table_state),
        ),
        ops.JoinTable: PlannerKind(
            flow=flow.of_function, options=text.table_join_options, check=checks.check_table_join
        ),
        ops.JoinTables: PlannerKind(
            flow=flow.of_table_join,
            options=text.table_join_options,
            check=checks.check_joined_tables,
            state=OperatorState(shown=state_facts.joined_table_text, meaning=state_facts.joined_table_state),
        ),
        ops.PutTo: PlannerKind(
            flow=flow.as_given, options=text.no_options, declares_value=_never, check=checks.check_put
        ),
        ops.Deduplicate: PlannerKind(
            flow=flow.as_given,
            options=text.deduplicate_options,
            declares_value=_never,
            check=checks.check_deduplicate,
            state=OperatorState(shown=state_facts.deduplicate_text, meaning=state_facts.deduplicate_state),
        ),
        ops.Process: PlannerKind(
            flow=flow.of_processor,
            options=text.process_options,
            check=checks.check_process,
            state=OperatorState(shown=state_facts.process_text, meaning=state_facts.process_state),
        ),
        ops.Side: PlannerKind(flow=flow.of_side, options=text.side_options),
        ops.SendTo: PlannerKind(
            flow=flow.as_given,
            options=text.send_to_options,
            declares_value=_if_given_value,
            writes=_writes_stream,
            written=_as_sent,
        ),
        ops.SinkTo: PlannerKind(flow=flow.as_given, options=text.sink_options, declares_value=_never),
    },
)
