"""Views: from a plan to the scene that shows every operator, and to the one that shows stages and streams."""

from collections.abc import Callable, Mapping

from ..plan import Plan, PlannedOperator, PlannedStage, PlannedStore, PlannedStream
from ..shown_operators import in_sight
from . import View
from .characters import clean
from .facts import about_operator, about_stage, about_stream, types
from .scene import TIMES, Drawing, Edge, EdgeKind, Group, Node, TextLine

_EDGE_KINDS: Mapping[str, EdgeKind] = {"late": "aside", "dead-letters": "aside"}


def operators(plan: Plan) -> Drawing:
    """Every operator, with its stage around it; intermediate streams are labels of the edges that cross a border."""
    stores, shown = {store.operator: store for store in plan.stores}, in_sight(plan)
    members = {
        stage.id: tuple(operator.id for operator in shown if operator.stage == stage.id) for stage in plan.stages
    }
    nodes = [_operator(plan, operator, stores.get(operator.id)) for operator in shown]
    nodes += [_stream(plan, stream) for stream in plan.streams if stream.kind != "intermediate"]
    groups = tuple(Group(f"stage:{stage.id}", clean(_stage_title(stage)), members[stage.id]) for stage in plan.stages)
    return Drawing(clean(plan.name), "operators", tuple(nodes), _between_operators(plan), groups)


def stages(plan: Plan) -> Drawing:
    """Every stage as one node, and every stream."""
    nodes = [_stage(plan, stage) for stage in plan.stages] + [_stream(plan, stream) for stream in plan.streams]
    return Drawing(clean(plan.name), "stages", tuple(nodes), _between_stages(plan))


VIEWS: Mapping[View, Callable[[Plan], Drawing]] = {"operators": operators, "stages": stages}


def scene(plan: Plan, view: View) -> Drawing:
    """What a drawing of the plan shows: all operators, or stages and streams alone."""
    return VIEWS[view](plan)


def _operator(plan: Plan, operator: PlannedOperator, store: PlannedStore | None) -> Node:
    options = [_option(name, text) for name, text in operator.details.items() if not _seen(operator, name, text)]
    lines = [TextLine("title", clean(operator.label))]
    if options:
        lines.append(TextLine("options", clean(" · ".join(options))))
    if operator.value is not None:
        lines.append(TextLine("types", clean(types(operator.key, operator.value))))
    if store is not None:
        lines.append(TextLine("store", clean(f"keeps {types(store.key, store.value)}")))
    return Node(operator.id, operator.role, tuple(lines), about_operator(plan, operator, store))


_SPEAKING = {"windows", "aggregate", "function", "sink", "panes"}
"""Options whose values say by themselves what they are."""


def _option(name: str, text: str) -> str:
    return text if name in _SPEAKING else f"{name} {text}"


def _seen(operator: PlannedOperator, name: str, text: str) -> bool:
    """Whether the label, or an edge to a stream, says it already; and what goes without saying."""
    said = (name in _SPEAKING and text in operator.label) or text in operator.writes
    return said or (name, text) == ("timestamp", "of the record")


def _stream(plan: Plan, stream: PlannedStream) -> Node:
    lines = [TextLine("title", clean(_stream_title(stream)))]
    value_types = "" if stream.value is None else f"{types(stream.key, stream.value)}"
    lines.append(TextLine("types", clean(" · ".join(filter(None, (_KINDS[stream.kind], value_types))))))
    return Node(f"stream:{stream.name}", stream.kind, tuple(lines), about_stream(plan, stream))


_KINDS = {
    "source": "source",
    "intermediate": "intermediate",
    "output": "output",
    "late": "late messages",
    "dead-letters": "failed messages",
}


def _stream_title(stream: PlannedStream) -> str:
    return f"{stream.name} {TIMES}{stream.partitions}"


def _stage(plan: Plan, stage: PlannedStage) -> Node:
    stores = [store for store in plan.stores if store.stage == stage.id]
    lines = [
        TextLine("title", clean(_stage_title(stage))),
        TextLine("options", counted(sum(operator.stage == stage.id for operator in in_sight(plan)), "operator")),
    ]
    lines += [
        TextLine("store", clean(f"{plan.operator(store.operator).label} keeps {types(store.key, store.value)}"))
        for store in stores
    ]
    return Node(f"stage:{stage.id}", "stage", tuple(lines), about_stage(plan, stage))


def _stage_title(stage: PlannedStage) -> str:
    return f"stage {stage.name} · {tasks_text(stage)}"


def tasks_text(stage: PlannedStage) -> str:
    """How many tasks a stage has: `8 tasks`, or `8 x 4 tasks` where each is split into so many key buckets; and how its
    partitions are grouped into them, if not by their number."""
    tasks = counted(stage.tasks, "task") if stage.elasticity == 1 else f"{stage.tasks} x {stage.elasticity} tasks"
    return tasks if stage.group_by == "partition" else f"{tasks} by {stage.group_by}"


def counted(number: int, noun: str) -> str:
    """A number of things: `1 task`, `8 tasks`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _between_operators(plan: Plan) -> tuple[Edge, ...]:
    borders = {
        writer: stream for stream in plan.streams if stream.kind == "intermediate" for writer in stream.written_by
    }
    edges: list[Edge] = []
    for operator in in_sight(plan):
        for source in operator.inputs:
            stream = borders.get(source)
            border = stream is not None and operator.id in stream.read_by
            label = clean(_stream_title(stream)) if stream is not None and border else None
            edges.append(Edge(source, operator.id, "border" if border else "flow", label))
        if operator.fills is not None:
            edges.append(Edge(operator.id, operator.fills))
    for stream in plan.streams:
        if stream.kind != "intermediate":
            edges += [Edge(f"stream:{stream.name}", reader) for reader in stream.read_by]
            kind = _EDGE_KINDS.get(stream.kind, "flow")
            edges += [Edge(writer, f"stream:{stream.name}", kind) for writer in stream.written_by]
    return tuple(dict.fromkeys(edges))


def _between_stages(plan: Plan) -> tuple[Edge, ...]:
    edges: list[Edge] = []
    for stage in plan.stages:
        here = f"stage:{stage.id}"
        edges += [Edge(f"stream:{name}", here, _edge_kind(plan, name)) for name in stage.inputs]
        edges += [Edge(here, f"stream:{name}", _edge_kind(plan, name)) for name in stage.outputs]
        edges += [
            Edge(here, f"stream:{stream.name}", "aside") for stream in plan.streams if stream.kind == "dead-letters"
        ]
    return tuple(dict.fromkeys(edges))


def _edge_kind(plan: Plan, name: str) -> EdgeKind:
    kind = plan.stream(name).kind
    return "border" if kind == "intermediate" else _EDGE_KINDS.get(kind, "flow")
