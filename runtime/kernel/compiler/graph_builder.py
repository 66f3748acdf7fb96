"""Builds the graph of a stage from its plan."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from ....dsl import operators as ops
from ....dsl.pipeline import Pipeline
from ....planner.flow import Flow
from ....planner.partial_aggregates import combining_reader, partial_reader
from ....planner.plan import Plan
from ....planner.stages import border
from ....planner.stream_names import growth_name, intermediate
from ....planner.type_inference import flows
from ..code.stage_graph import StageGraph
from ..kinds import KERNEL_KINDS
from ..time.stage_input import StageInput, TimeSource
from ..time.watermark_node import NodeKind, WatermarkNode


def build_stage_graph(
    plan: Plan,
    stage_id: str,
    clocks: dict[str, TimeSource],
    by_time: Collection[str] = (),
    *,
    split: bool = False,
) -> StageGraph:
    """The graph of a stage of a plan. `clocks` says where the time of each input comes from. The messages of streams
    `by_time` are read in the order of their times. With `split` a task processes one key bucket of its inputs, but
    for broadcast ones."""
    known = flows(plan.pipeline)
    stage = plan.stage(stage_id)
    pipeline = plan.pipeline
    operators = {id: pipeline.operator(id) for id in stage.operators}
    inputs: dict[str, StageInput] = {}
    to_all = {one.id for one in pipeline.borders if one.to_all}
    side_of = {id: operator.inputs[0] for id, operator in operators.items() if isinstance(operator, ops.Side)}
    followers, readers = _followers(pipeline, operators, side_of)
    for stream in stage.inputs:
        origin = next(
            (source for source in pipeline.sources if source.id in operators and source.stream == stream), None
        )
        writer = origin.id if origin else stream[len(pipeline.name) + 1 :]
        reading = followers[origin.id] if origin else readers[writer]
        partials = origin is None and partial_reader(pipeline, writer, known[writer].value) is not None
        part = split and writer not in to_all
        first = StageInput(stream, clocks[stream], origin, writer, tuple(reading), partials=partials, split=part)
        for growth in range(plan.stream(stream).growths):
            name = growth_name(stream, growth)
            inputs[name] = replace(first, stream=name, growth=growth)
    graph = StageGraph(plan, operators, inputs, {id: tuple(behind) for id, behind in followers.items()}, frozenset())
    if any(operator.async_call is not None for operator in operators.values()):
        starts = [id for id, operator in operators.items() if operator.role == "both" or id in side_of]
        graph.tracked = frozenset([*inputs, *starts])
    graph.side_of = side_of
    graph.combining = dict(_combining(graph, known, by_time))
    for stream, stage_input in inputs.items():
        inputs[stream] = replace(stage_input, silent=all(map(graph.silent, stage_input.readers)))
    _add_nodes(graph)
    graph.exact = _is_exact(graph)
    return graph


def _followers(
    pipeline: Pipeline, operators: Mapping[str, ops.Operator], side_of: Collection[str]
) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """The operators behind each operator of a stage, and those that read each border, by id."""
    followers: dict[str, list[str]] = {id: [] for id in operators}
    readers: dict[str, list[str]] = {}
    for id, operator in operators.items():
        for source in operator.fed_by if id not in side_of else ():
            (readers.setdefault(source, []) if border(pipeline, source) else followers[source]).append(id)
    return followers, readers


def _combining(
    graph: StageGraph, known: Mapping[str, Flow], by_time: Collection[str]
) -> Iterator[tuple[str, ops.Operator]]:
    """The borders that aggregate messages, with the operator behind each. Where messages are
    sorted behind a border and the order may matter, each is sent alone."""
    pipeline = graph.plan.pipeline
    for id, operator in graph.operators.items():
        reader = combining_reader(pipeline, id, known[id].value) if operator.is_border else None
        is_sorted = intermediate(pipeline.name, id) in by_time
        if reader is not None and not (is_sorted and reader.takes_partials.aggregate.is_ordered):
            yield id, reader


def _is_exact(graph: StageGraph) -> bool:
    """Whether the nodes must advance with each message. A stage without state and borders never needs that."""
    if not any(op.role == "both" or op.is_border for op in graph.operators.values()):
        return False
    nodes = graph.nodes
    behind_state = any(nodes[i].kind == "stateful" for node in nodes for i in node.follows)
    # What an operator emits at once, such as late panes and joined rows, must meet the watermark of that moment.
    at_once = any(KERNEL_KINDS[op].emits_at_once(graph, op) for op in graph.operators.values())
    return behind_state or at_once or any(node.kind == "in-flight" or len(node.follows) > 1 for node in nodes)


def _add_nodes(graph: StageGraph) -> None:
    def add(kind: NodeKind, follows: tuple[int, ...], owner: str, *, returns: bool | None = None) -> int:
        back = any(graph.nodes[node].returns for node in follows) if returns is None else returns
        graph.nodes.append(WatermarkNode(kind, follows, owner, returns=back))
        return len(graph.nodes) - 1

    def out(id: str, node: int) -> int:
        return add("in-flight", (node,), id) if id in graph.tracked else node

    for stream in graph.inputs:
        graph.node_out[stream] = add("stream", (), stream, returns=_returns(graph, stream))
    held = {stream: out(stream, graph.node_out[stream]) for stream in graph.inputs}
    by_writer: dict[str, tuple[int, ...]] = {}
    for stream, stage_input in graph.inputs.items():
        by_writer[stage_input.writer] = (*by_writer.get(stage_input.writer, ()), held[stream])
    behind = dict(by_writer)
    for id, operator in graph.operators.items():
        # Operators are in the order of the pipeline, so that inputs come first. A partition_by of this stage is an
        # input.
        nodes = sorted({node for source in operator.fed_by for node in behind.get(source) or by_writer[source]})
        if not nodes:
            continue
        silent = graph.silent(id)
        # In front of state the watermark never goes back, since what has fired is not taken back.
        in_processing_time = operator.time_domain == "processing"
        stays = operator.role == "both" and not silent and not in_processing_time
        meets = len(nodes) > 1 or (stays and graph.nodes[nodes[0]].returns)
        node = nodes[0] if silent or not meets else add("merge", tuple(nodes), id, returns=False if stays else None)
        if in_processing_time:
            node = add("clock", (node,), id, returns=False)
        graph.node_in[id] = node
        if silent:
            graph.node_out[id] = node
        elif operator.role == "both":
            graph.nodes.append(WatermarkNode("stateful", (node,), id, behind=KERNEL_KINDS[operator].delay(operator)))
            graph.node_out[id] = len(graph.nodes) - 1
            node = out(id, graph.node_out[id])
        if id in graph.side_of:
            graph.node_out[id] = graph.node_out[graph.side_of[id]]
        if not operator.is_border:
            behind[id] = (node,)


def _returns(graph: StageGraph, stream: str) -> bool:
    """Whether the watermark of an input may go back: its source may be idle, or a source of the stage before."""
    source = graph.inputs[stream].source
    sources = [source] if source else graph.plan.pipeline.sources
    return any(one.idle_after is not None for one in sources)
