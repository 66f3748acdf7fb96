"""Which results depend on where an end of input falls: those of pipelines that run to the end more than once."""

from dataclasses import dataclass

import networkx as nx

from ..dsl import operators as ops
from ..dsl.origin import Origin
from ..dsl.pipeline import Pipeline
from .kinds import PLANNER_KINDS
from .plan import Plan

DEPENDS = "results depend on how the input is cut into runs"
"""What is wrong where there are such operators."""


@dataclass(frozen=True, slots=True)
class EndDependence:
    """An operator whose results differ if an end of input falls between two messages, where it was written, and why."""

    operator: str
    origin: Origin
    reason: str


def end_dependences(plan: Plan) -> tuple[EndDependence, ...]:
    """The operators whose results depend on how the input is cut into runs to its end, in the order of the pipeline.

    Where there are none, the accumulating panes of all runs, each in place of the one before of its key and window, are
    those of one run, as long as no run makes a message late that was not.

    >>> from datetime import timedelta
    >>> from fluvial.dsl import Pipeline, count, tumbling
    >>> from fluvial.planner import plan
    >>> pipeline = Pipeline("busy")
    >>> clicks = pipeline.stream("clicks", key=str, value=str)
    >>> counts = clicks.window(tumbling(timedelta(minutes=1)), count(), id="counts")
    >>> counts.send_to("counts")
    >>> end_dependences(plan(pipeline))
    ()
    >>> counts.window(tumbling(timedelta(hours=1)), count(), id="minutes").send_to("minutes")
    >>> [(one.operator, one.reason) for one in end_dependences(plan(pipeline))]
    [('window minutes', 'it keeps state of what window counts emits at each end of input')]
    """
    pipeline = plan.pipeline
    graph = pipeline.graph
    graph.add_edges_from((one.id, one.fills) for one in pipeline.operators if one.fills is not None)
    reasons = ((operator, _reason(operator, pipeline, graph)) for operator in pipeline.operators)
    return tuple(EndDependence(operator.label, operator.origin, reason) for operator, reason in reasons if reason)


def _reason(operator: ops.Operator, pipeline: Pipeline, graph: "nx.MultiDiGraph[str]") -> str:
    kind = PLANNER_KINDS[operator]
    if (reason := kind.end_dependence(operator)) or kind.state is None:
        return reason
    before = nx.ancestors(graph, operator.id)
    firing = [one for one in pipeline.operators if one.id in before and PLANNER_KINDS[one].fires_at_end(one)]
    return f"it keeps state of what {firing[-1].label} emits at each end of input" if firing else ""
