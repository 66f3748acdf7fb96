"""The metrics of a batch as observed metrics of Spark's: listeners find them in a query's progress.

The reports of tasks are rows with JSON in their block, so Spark adds up by expressions of SQL what they have counted.
Watermarks and lags the driver alone knows. It tells them to the tasks, whose reports repeat them.
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
_WATERMARKS, _LAGS = "$[1][3][0]", "$[1][3][1]"
"""Where the metrics of the driver are, by stream."""
_REPORT = "if(level = {output} and substring(block, 1, 1) = X'5B', cast(block as string), null)"
"""The JSON of a report; NULL for messages, whose blocks do not begin with a bracket."""


def observed(rows: "DataFrame", query: QueryPlan) -> "DataFrame":
    """The rows of a query, with counts that Spark shows for each batch."""
    report = f.expr(_REPORT.format(output=OUTPUT))
    columns = [_count(report, kind, id).alias(f"{metric} {id}") for metric, kind, id in _counts(query)]
    # NULL where nobody knows: before the first message, and of a stream that is no longer read.
    marks = ((name, f.max(_number(report, _WATERMARKS, name)) / 1000) for name in _inputs(query))
    columns += [watermark.alias(f"watermark_timestamp_seconds {name}") for name, watermark in marks]
    columns += [f.max(_number(report, _LAGS, name)).alias(f"lag_messages {name}") for name in query.sources]
    return rows.observe(NAME, *columns)


def _number(report: "Column", path: str, name: str) -> "Column":
    return f.get_json_object(report, f"{path}['{name}']").cast("long")


def _count(report: "Column", kind: str, id: str) -> "Column":
    return f.coalesce(f.sum(_number(report, f"{_COUNTS}.{kind}", id)), f.lit(0))


def _inputs(query: QueryPlan) -> list[str]:
    """The streams that the query's stages read."""
    stages = (stage for stage in query.plan.stages if stage.id in query.levels.of_stage)
    return list(dict.fromkeys(stream for stage in stages for stream in stage.inputs))


def _counts(query: QueryPlan) -> Iterator[tuple[str, str, str]]:
    """The counts of a query under the names that `Metrics` serves, each with its kind of count, and the id of a
    stream or an operator."""
    plan = query.plan
    stages = set(query.levels.of_stage)
    for stream in _inputs(query):
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
