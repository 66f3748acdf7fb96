"""Text: a listing for terminals, stage by stage, each operator under what it reads from."""

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..plan import Plan
from . import View
from .characters import column_count
from .scene import Drawing, Edge, Group, Look, Node
from .views import scene

_SIGNS: Mapping[Look, str] = {"non-terminal": "○", "terminal": "●", "both": "◐", "stage": "▣"}
_ROLES = "○ non-terminal   ● terminal   ◐ both: keeps messages, later emits   → reads   ⇒ writes"
# A few long rows must not push the second column out of sight: they reach beyond it alone.
_FURTHEST = 56


@dataclass(frozen=True, slots=True)
class _Row:
    """One line: what it says, and what is said about it in the column to the right."""

    text: str
    aside: str = ""


def write(plan: Plan, view: View) -> str:
    """A view of a plan as lines of text."""
    drawing = scene(plan, view)
    blocks = [list(_stage(drawing, group)) for group in drawing.groups] or [list(_streams(drawing))]
    rows = [row for block in blocks for row in block]
    column = min(max((column_count(row.text) for row in rows), default=0), _FURTHEST) + 2
    head = [f"{drawing.name}: {drawing.view}", *([_ROLES] if drawing.groups else [])]
    lines = [*head, *(_set(row, column) for row in rows), *_unread(drawing)]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _set(row: _Row, column: int) -> str:
    gap = max(column - column_count(row.text), 2)
    return row.text + " " * gap + row.aside if row.aside else row.text


def _stage(drawing: Drawing, group: Group) -> Iterator[_Row]:
    """A stage: its operators as a tree, streams at the arrows that lead in and out."""
    nodes = {node.id: node for node in drawing.nodes}
    yield _Row("")
    yield _Row(f"┌ {_apart(group.title)}")
    inside = set(group.members)
    # A table is listed before all that fills it.
    passing = {id for id in inside if nodes[id].look != "terminal"}
    waiting = {id: [edge for edge in drawing.edges if edge.target == id and edge.source in passing] for id in inside}
    missing = {id: sum(edge.label is None for edge in edges) for id, edges in waiting.items()}
    for at, root in enumerate([id for id in group.members if not missing[id]]):
        yield from [_Row("│")] if at else []
        yield from (_Row(f"│ {row.text}", row.aside) for row in _tree(drawing, nodes, inside, missing, root))
    yield _Row("└")


def _tree(
    drawing: Drawing, nodes: Mapping[str, Node], inside: set[str], missing: dict[str, int], root: str
) -> Iterator[_Row]:
    """An operator and all below it; what several lead to comes under the last of them."""
    todo = [(root, "", "")]
    while todo:
        id, first, rest = todo.pop()
        missing[id] -= 1
        if missing[id] > 0:
            yield _Row(f"{first}▸ {_apart(nodes[id].title)}, below")
            continue
        yield from _operator(drawing, nodes, id, first, rest)
        edges = [edge for edge in drawing.edges if edge.source == id and edge.target in inside and not edge.label]
        readers = [edge.target for edge in edges if nodes[id].look != "terminal"]
        todo += reversed(list(_branches(readers, rest)))


def _branches(readers: Sequence[str], rest: str) -> Iterator[tuple[str, str, str]]:
    if len(readers) == 1:
        yield readers[0], rest, rest
        return
    for at, reader in enumerate(readers):
        last = at == len(readers) - 1
        yield reader, rest + ("└─" if last else "├─"), rest + ("  " if last else "│ ")


def _operator(drawing: Drawing, nodes: Mapping[str, Node], id: str, first: str, rest: str) -> Iterator[_Row]:
    node = nodes[id]
    into = dict.fromkeys(_carried(nodes, edge, edge.source) for edge in drawing.edges if edge.target == id)
    out = dict.fromkeys(_carried(nodes, edge, edge.target) for edge in drawing.edges if edge.source == id)
    for stream in filter(None, into):
        yield _Row(f"{first}→ {_apart(stream)}")
        first = rest
    facts = [line.text for line in node.lines[1:]]
    yield _Row(f"{first}{_SIGNS[node.look]} {_apart(node.title)}", _apart("; ".join(facts)))
    yield from (_Row(f"{rest}⇒ {_apart(stream)}") for stream in filter(None, out))


def _carried(nodes: Mapping[str, Node], edge: Edge, end: str) -> str | None:
    """The stream that an edge stands for, if any: at a border, or at the ends of the plan."""
    return edge.label or (nodes[end].title if end.startswith("stream:") else None)


def _streams(drawing: Drawing) -> Iterator[_Row]:
    """Each stage between the streams that it reads and writes."""
    nodes = {node.id: node for node in drawing.nodes}
    for node in drawing.nodes:
        if node.look != "stage":
            continue
        yield _Row("")
        for edge in drawing.edges:
            if edge.target == node.id:
                yield _Row(f"→ {_apart(nodes[edge.source].title)}", _apart(nodes[edge.source].lines[1].text))
        yield _Row(f"{_SIGNS['stage']} {_apart(node.title)}", _apart("; ".join(line.text for line in node.lines[1:])))
        for edge in drawing.edges:
            if edge.source == node.id:
                yield _Row(f"⇒ {_apart(nodes[edge.target].title)}", _apart(nodes[edge.target].lines[1].text))


def _unread(drawing: Drawing) -> list[str]:
    """Streams that no edge leads to, such as dead letters, which all operators may fill."""
    linked = {end for edge in drawing.edges for end in (edge.source, edge.target)}
    loose = [node for node in drawing.nodes if node.id.startswith("stream:") and node.id not in linked]
    return [text for node in loose for text in ("", f"⇒ {_apart(node.title)}  {_apart(node.lines[1].text)}")]


def _apart(text: str) -> str:
    """Text that is written from right to left is kept from turning what stands beside it."""
    turns = any(unicodedata.bidirectional(letter) in ("R", "AL", "AN") for letter in text)
    return f"\u2068{text}\u2069" if turns else text
