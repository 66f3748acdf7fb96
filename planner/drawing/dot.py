"""DOT: the language of Graphviz, for those who have it."""

from collections.abc import Iterator, Mapping

from ..plan import Plan
from . import View
from .characters import clean
from .scene import Drawing, EdgeKind, Look, Node
from .views import scene

_STREAM = 'shape=cylinder, style=filled, fillcolor="#ffffff", color="#555555"'
_ASIDE = 'shape=cylinder, style="filled,dashed", fillcolor="#ffffff", color="#555555"'
_LOOKS: Mapping[Look, str] = {
    "non-terminal": 'shape=box, style="rounded,filled", fillcolor="#dcebf7", color="#0072b2"',
    "terminal": 'shape=box, style=filled, penwidth=3, fillcolor="#fbe3d3", color="#b84a00"',
    "both": 'shape=box, style="rounded,filled", peripheries=2, fillcolor="#d5f0e6", color="#00795a"',
    "stage": 'shape=box, style="rounded,filled", fillcolor="#f4f4f4", color="#666666"',
    "late": _ASIDE,
    "dead-letters": _ASIDE,
}
_STYLES: Mapping[EdgeKind, str] = {"flow": "", "border": "penwidth=2", "aside": "style=dashed"}


def write(plan: Plan, view: View) -> str:
    """A view of a plan as DOT text."""
    return "\n".join(_lines(scene(plan, view))) + "\n"


def _lines(drawing: Drawing) -> Iterator[str]:
    nodes = {node.id: node for node in drawing.nodes}
    grouped = {id for group in drawing.groups for id in group.members}
    yield f"digraph {quoted(drawing.name)} {{"
    yield '  graph [rankdir=TB, fontname="Helvetica"]'
    yield '  node [fontname="Helvetica", fontsize=12]'
    yield '  edge [fontname="Helvetica", fontsize=11]'
    for at, group in enumerate(drawing.groups):
        yield f"  subgraph cluster_{at} {{"
        yield f'    label={quoted(group.title)}; labeljust=l; style=rounded; color="#888888"'
        yield from (f"    {_node(nodes[id])}" for id in group.members)
        yield "  }"
    yield from (f"  {_node(node)}" for node in drawing.nodes if node.id not in grouped)
    for edge in drawing.edges:
        label = "" if edge.label is None else f"label={quoted(edge.label)}"
        options = ", ".join(filter(None, (label, _STYLES[edge.kind])))
        yield f"  {_named(edge.source)} -> {_named(edge.target)}" + (f" [{options}]" if options else "")
    yield "}"


def _node(node: Node) -> str:
    label = quoted(*(line.text for line in node.lines))
    return f"{_named(node.id)} [label={label}, {_LOOKS.get(node.look, _STREAM)}]"


def _named(id: str) -> str:
    return quoted(clean(id))


def quoted(*lines: str) -> str:
    r"""Text between quotes. Backslashes start escapes in labels and `&` an entity, so both are escaped too."""
    escaped = (line.replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"') for line in lines)
    return '"' + "\\n".join(escaped) + '"'
