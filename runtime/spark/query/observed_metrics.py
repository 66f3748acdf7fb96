"""What the tasks of a batch have counted, as observed metrics of Spark's: listeners find them in a query's progress.

The reports of tasks are rows with JSON in their block, so Spark adds them up by expressions of SQL.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from ....planner.plan import Plan
from ..lowering.query_plan import QueryPlan
from ..rows import OUTPUT

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

NAME = "fluvial"
"""The name of the observation."""
_COUNTS = "$[1][0][0]"
"""Where the counts are in the JSON of a `TaskReport`, by kind and name."""
_REPORT = "if(level = {output} and substring(block, 1, 1) = X'5B', cast(block as string), null)"
"""The JSON of a report; NULL for messages, whose blocks do not begin with a bracket."""


def observed(rows: "DataFrame", query: QueryPlan) -> "DataFrame":
    """The rows of a query, with counts that Spark shows for each batch."""
    report = f.expr(_REPORT.format(output=OUTPUT))
    columns = [_count(report, kind, id).alias(f"{metric} {id}") for metric, kind, id in _metrics(query)]
    return rows.observe(NAME, *columns)


def _count(report: "Column", kind: str, id: str) -> "Column":
    number = f.get_json_object(report, f"{_COUNTS}.{kind}['{id}']").cast("long")
    return f.coalesce(f.sum(number), f.lit(0))


def _metrics(query: QueryPlan) -> Iterator[tuple[str, str, str]]:
    """The metrics of a query under the names that `Metrics` serves, each with its kind of count, and the id of a
    stream or an operator."""
    plan = query.plan
    stages = set(query.levels.of_stage)
    for stream in dict.fromkeys(stream for stage in plan.stages if stage.id in stages for stream in stage.inputs):
        yield "messages_processed", "read", stream
    written = (name for operator in plan.operators if operator.stage in stages for name in operator.writes)
    for name in dict.fromkeys([*written, *_sinks(plan, stages)]):
        yield "messages_written", "written", name
    for operator in plan.operators:
        if operator.stage in stages:
            yield "operator_messages", "given", operator.id
            yield "failed_messages", "failed", operator.id
            if plan.pipeline.operator(operator.id).role == "both":
                yield "late_messages", "late", operator.id


def _sinks(plan: Plan, stages: set[str]) -> Iterator[str]:
    """The ids of the sinks that the query writes to."""
    return (one.id for one in plan.operators if one.stage in stages and plan.pipeline.operator(one.id).kind == "sink")
