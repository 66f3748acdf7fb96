"""The scene: what a drawing shows, as frozen data that every format writes down in its own way."""

from dataclasses import dataclass
from typing import Literal

TIMES = "\N{MULTIPLICATION SIGN}"
"""Stands before the number of a stream's partitions."""

Look = Literal["non-terminal", "terminal", "both", "source", "intermediate", "output", "late", "dead-letters", "stage"]
"""What a node is drawn as: the role of an operator, the kind of a stream, or a stage."""

Part = Literal["title", "options", "types", "store"]
"""What a line of text in a node tells."""

EdgeKind = Literal["flow", "border", "aside"]
"""What goes along an edge: messages, messages through an intermediate stream, or only those that were set aside."""


@dataclass(frozen=True, slots=True)
class TextLine:
    """One line of text in a node, and what it tells: a title, options, types or a store."""

    part: Part
    text: str


@dataclass(frozen=True, slots=True)
class Node:
    """An operator, a stream or a stage. `facts` are what there is to tell about it besides, by name."""

    id: str
    look: Look
    lines: tuple[TextLine, ...]
    facts: tuple[tuple[str, str], ...] = ()

    @property
    def title(self) -> str:
        """The text of its first line, which names it."""
        return self.lines[0].text


@dataclass(frozen=True, slots=True)
class Edge:
    """The way of messages from one node to another; `label` names the intermediate stream of a border."""

    source: str
    target: str
    kind: EdgeKind = "flow"
    label: str | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """A stage drawn around its operators; `members` in an order in which inputs come first."""

    id: str
    title: str
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Drawing:
    """One view of a plan. Nodes that are in no group are streams, or stages drawn as one node."""

    name: str
    view: str
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    groups: tuple[Group, ...] = ()
