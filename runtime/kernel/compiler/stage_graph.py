"""The shape of a stage for its compiler: entries, who follows whom, what holds messages back, and lines of time."""

from dataclasses import dataclass, field, replace

from ....dsl import operators as ops
from ....planner.plan import Plan
from ....planner.stages import border
from ..kinds import KERNEL_KINDS
from ..time.stage_input import StageInput, TimeSource
from ..time.watermarks import NodeKind, WatermarkNode


@dataclass(slots=True)
class StageGraph:
    """A stage as its compiler sees it.

    `node_in[op]` is the line by which an operator's input is judged, `node_out[id]` the line of an entry or behind a
    stateful operator. `tracked` holds those of them whose messages wait in cells: all or none. `side_of` tells which
    processor a side output is of; it does not follow it.
    """

    plan: Plan
    operators: dict[str, ops.Operator]
    inputs: dict[str, StageInput]
    followers: dict[str, tuple[str, ...]]
    tracked: frozenset[str]
    nodes: list[WatermarkNode] = field(default_factory=list)
    node_in: dict[str, int] = field(default_factory=dict)
    node_out: dict[str, int] = field(default_factory=dict)
    side_of: dict[str, str] = field(default_factory=dict)

    @property
    def exact(self) -> bool:
        """Whether every step of the watermark must be followed at once, not only those that some state waits for. Where
        there is no state and no border, nobody waits for any."""
        if not any(op.role == "both" or op.is_border for op in self.operators.values()):
            return False
        behind_state = any(self.nodes[i].kind == "stateful" for node in self.nodes for i in node.follows)
        # What comes late, or joins, is emitted at once, and must meet the time that it has come to.
        at_once = any(KERNEL_KINDS[op].emits_at_once(self, op) for op in self.operators.values())
        return behind_state or at_once or any(node.kind == "in-flight" or len(node.follows) > 1 for node in self.nodes)

    def silent(self, id: str) -> bool:
        """Whether this is a table whose changes nobody follows, so that no time is needed there."""
        return self.operators[id].is_table and all(map(self.silent, self.followers[id]))

    def meets_time(self, operator: str) -> bool:
        """Whether what an operator emits comes to a border, to state or to asynchronous work."""
        starts = [operator, *(side for side, of in self.side_of.items() if of == operator)]
        return any(ends_part(self.operators[id]) for start in starts for id in self.parts(start))

    def parts(self, start: str) -> list[str]:
        """The operators that a message from `start` may pass before it meets state or asynchronous work, those
        included."""
        found: dict[str, None] = {}
        rest = list(self.inputs[start].readers if start in self.inputs else self.followers[start])
        while rest:
            id = rest.pop()
            if id not in found:
                found[id] = None
                if not ends_part(self.operators[id]):
                    rest.extend(self.followers[id])
        return list(found)


def build_stage_graph(plan: Plan, stage_id: str, clocks: dict[str, TimeSource]) -> StageGraph:
    """Look at a stage of a plan; `clocks` says how each of its inputs tells time."""
    stage = plan.stage(stage_id)
    pipeline = plan.pipeline
    operators = {id: pipeline.operator(id) for id in stage.operators}
    inputs: dict[str, StageInput] = {}
    followers: dict[str, list[str]] = {id: [] for id in operators}
    readers: dict[str, list[str]] = {}
    side_of = {id: operator.inputs[0] for id, operator in operators.items() if isinstance(operator, ops.Side)}
    for id, operator in operators.items():
        for source in operator.fed_by if id not in side_of else ():
            crossing = border(pipeline, source)
            (readers.setdefault(source, []) if crossing else followers[source]).append(id)
    for stream in stage.inputs:
        origin = next(
            (source for source in pipeline.sources if source.id in operators and source.stream == stream), None
        )
        writer = origin.id if origin else stream[len(pipeline.name) + 1 :]
        found = followers[origin.id] if origin else readers[writer]
        inputs[stream] = StageInput(stream, clocks[stream], origin, writer, tuple(found))
    made = StageGraph(plan, operators, inputs, {id: tuple(found) for id, found in followers.items()}, frozenset())
    if any(operator.is_async for operator in operators.values()):
        starts = [id for id, operator in operators.items() if operator.role == "both" or id in side_of]
        made.tracked = frozenset([*inputs, *starts])
    made.side_of = side_of
    for stream, entry in inputs.items():
        inputs[stream] = replace(entry, silent=all(map(made.silent, entry.readers)))
    _add_nodes(made)
    return made


def ends_part(operator: ops.Operator) -> bool:
    """Whether messages do not come out of an operator as they go in: what follows it starts anew."""
    return operator.role == "both" or operator.is_async or operator.is_border


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
    by_writer = {entry.writer: held[stream] for stream, entry in graph.inputs.items()}
    behind: dict[str, int] = dict(by_writer)
    for id, operator in graph.operators.items():
        # In the order they were written, so that inputs come first; a partition_by of this very stage is an entry.
        nodes = sorted({behind[source] if source in behind else by_writer[source] for source in operator.fed_by})
        if not nodes:
            continue
        silent = graph.silent(id)
        # What has fired stays fired: in front of state time does not go back.
        by_clock = operator.time_domain == "processing"
        stays = operator.role == "both" and not silent and not by_clock
        meets = len(nodes) > 1 or (stays and graph.nodes[nodes[0]].returns)
        node = nodes[0] if silent or not meets else add("merge", tuple(nodes), id, returns=False if stays else None)
        if by_clock:
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
            behind[id] = node


def _returns(graph: StageGraph, stream: str) -> bool:
    """Whether an input's time may go back: it may be idle, or what was idle may reach it."""
    source = graph.inputs[stream].source
    sources = [source] if source else graph.plan.pipeline.sources
    return any(one.idle_after is not None for one in sources)
