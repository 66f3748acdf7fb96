"""One node of the watermark graph of a stage, and how watermarks are combined."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from .bounds import END, START

NodeKind = Literal["stream", "clock", "in-flight", "stateful", "merge"]


@dataclass(frozen=True, slots=True)
class WatermarkNode:
    """One node: its kind, the nodes it `follows`, and the operator or stream that owns it. Its watermark is `behind` ms
    less than that of its input. `returns` says that it goes back when an input is no longer idle."""

    kind: NodeKind
    follows: tuple[int, ...]
    owner: str
    behind: int = 0
    returns: bool = False


def slowest(reported: Iterable[tuple[int, bool]]) -> tuple[int, bool]:
    """The watermark behind several inputs, and whether it is idle, given the watermark and the idleness of each input.
    It is the least of the inputs that are not idle. If all are idle, it is the greatest of them, and idle.

    >>> slowest([(5, False), (3, True)]), slowest([(5, True), (3, True)])
    ((5, False), (5, True))
    """
    least, furthest, rests = END, START, False
    for watermark, idle in reported:
        if idle and watermark != END:
            furthest, rests = max(furthest, watermark), True
        else:
            least = min(least, watermark)
    return (furthest, True) if rests and least == END else (least, False)


def lagging(watermark: int, behind: int) -> int:
    """A watermark that is `behind` ms less. The two ends of time have no lag."""
    return watermark if watermark in (START, END) else watermark - behind


def front_of(nodes: Sequence[WatermarkNode]) -> frozenset[int]:
    """The nodes that follow streams alone, and neither state nor the clock."""
    front = set[int]()
    for index, node in enumerate(nodes):
        if node.kind == "stream" or (node.kind in ("merge", "in-flight") and front.issuperset(node.follows)):
            front.add(index)
    return frozenset(front)


def behind(nodes: Sequence[WatermarkNode], start: int) -> frozenset[int]:
    """The nodes that follow one, at once or by way of others."""
    reached = {start}
    for index, node in enumerate(nodes):
        if not reached.isdisjoint(node.follows):
            reached.add(index)
    return frozenset(reached - {start})
