"""Lowers a plan: which queries it becomes on Spark, and at which level of its query each stage runs."""

from collections.abc import Collection, Mapping

import networkx as nx

from ....planner.kinds import PLANNER_KINDS
from ....planner.plan import Plan, PlannedStage
from .levels import Levels


def components(plan: Plan) -> list[list[PlannedStage]]:
    """The connected components of the plan's stages: each becomes one query."""
    graph = _graph(plan).to_undirected()
    unordered = [set(ids) for ids in nx.connected_components(graph)]
    ordered = sorted(unordered, key=lambda ids: min(_order(plan, id) for id in ids))
    return [[stage for stage in plan.stages if stage.id in ids] for ids in ordered]


def has_loop(plan: Plan) -> bool:
    """Whether a stage reads its own output, directly or through other stages."""
    return not nx.is_directed_acyclic_graph(_graph(plan))


def levels(plan: Plan, stages: list[PlannedStage], buckets: int) -> Levels:
    """The levels of the stages of a connected component."""
    graph = _graph(plan)
    members = {stage.id: stage for stage in stages}
    of_stage: dict[str, int] = {}
    for id in nx.topological_sort(graph):
        if id in members:
            before = [of_stage[other] for other in graph.predecessors(id)]
            stateless = not any(store.stage == id for store in plan.stores)
            of_stage[id] = 0 if stateless and not before else max(before, default=0) + 1
    reading = {name: of_stage[stage.id] for stage in stages for name in stage.inputs}
    sources = {name for name in reading if plan.stream(name).kind == "source"}
    forwarded = frozenset(name for name in sources if reading[name] > 0)
    producers = {name: _producers(plan, name, of_stage, buckets) for name in reading}
    ordered = {stage.id: of_stage[stage.id] for stage in stages}
    operators = [plan.pipeline.operator(id) for stage in stages for id in stage.operators]
    may_idle = any(source.idle_after is not None and source.stream in sources for source in plan.pipeline.sources)
    clocked = may_idle or any(operator.follows_clock for operator in operators)
    apart = any(PLANNER_KINDS[operator].fires_early(operator) for operator in operators)
    return Levels(ordered, reading, producers, forwarded, max(of_stage.values()) + 1, clocked, apart)


def without_order(plan: Plan, of: Levels, unordered: Collection[str]) -> frozenset[str]:
    """The streams that are read behind a shuffle, and whose messages come in no order: sources that are `unordered`,
    and what level 0 makes of them."""
    forwarded = of.forwarded.intersection(unordered)
    writers = {
        stage.id for stage in plan.stages if of.of_stage.get(stage.id) == 0 and set(stage.inputs) & set(unordered)
    }
    written = {
        name for name in of.of_stream for id in plan.stream(name).written_by if plan.operator(id).stage in writers
    }
    return forwarded | written


def _producers(plan: Plan, stream: str, of_stage: Mapping[str, int], buckets: int) -> int:
    planned = plan.stream(stream)
    if planned.kind == "source":
        return planned.partitions
    writer = plan.stage(plan.operator(planned.written_by[0]).stage)
    if of_stage[writer.id] > 0:
        return buckets
    leading = _sources_of(plan, planned.written_by[0])
    return sum(plan.stream(name).partitions for name in writer.inputs if name in leading)


def _sources_of(plan: Plan, operator: str) -> set[str]:
    """The sources that lead to an operator."""
    upstream: set[str] = set()
    to_visit = [operator]
    while to_visit:
        inputs = plan.pipeline.operator(to_visit.pop()).inputs
        to_visit.extend(id for id in inputs if id not in upstream)
        upstream.update(inputs)
    return {source.stream for source in plan.pipeline.sources if source.id in upstream}


def _graph(plan: Plan) -> "nx.DiGraph[str]":
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(stage.id for stage in plan.stages)
    for stage in plan.stages:
        for name in stage.inputs:
            graph.add_edges_from((plan.operator(id).stage, stage.id) for id in plan.stream(name).written_by)
    return graph


def _order(plan: Plan, id: str) -> int:
    return [stage.id for stage in plan.stages].index(id)
