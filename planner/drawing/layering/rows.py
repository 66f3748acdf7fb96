"""Rows of a layout: each item gets a row, and a joint stands in each row that a link passes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from .ranks import ranks

JOINT = 12.0
"""Width of the slot that a link gets in a row that it passes."""


@dataclass(frozen=True, slots=True)
class Item:
    """A thing to place: a node, a whole stage, or a point where links enter or leave a stage.

    `rank` keeps it in the top or the bottom row: "first" or "last". `leads` makes it the first of its row.
    """

    id: str
    width: float
    height: float
    rank: str = ""
    leads: bool = False


@dataclass(frozen=True, slots=True)
class Link:
    """A connection; `leave` and `enter` are where along its ends it must start and stop, from their left, if fixed."""

    source: str
    target: str
    leave: float | None = None
    enter: float | None = None


@dataclass(frozen=True, slots=True)
class Rows:
    """Items in rows, joints among them, and links that lead from each row to the next only.

    `chains` are, for each of the links that were asked for, the short links that make it up.
    """

    items: Mapping[str, Item]
    rows: tuple[tuple[str, ...], ...]
    links: tuple[Link, ...]
    chains: tuple[tuple[int, ...], ...]


def in_rows(items: Sequence[Item], links: Sequence[Link]) -> Rows:
    """Give each item its row and cut long links into short ones."""
    first = [item.id for item in items if item.rank == "first"]
    last = [item.id for item in items if item.rank == "last"]
    row = ranks([item.id for item in items], [(link.source, link.target) for link in links], first, last)
    known = {item.id: item for item in items}
    short: list[Link] = []
    chains: list[tuple[int, ...]] = []
    for number, link in enumerate(links):
        # A joint in each row that a link passes keeps a slot free there, so that the link crosses no box.
        passed = range(row[link.source] + 1, row[link.target])
        joints = [Item(f"joint:{number}:{at}", JOINT, 0) for at in passed]
        known.update((joint.id, joint) for joint in joints)
        row.update((joint.id, at) for joint, at in zip(joints, passed, strict=True))
        chains.append(tuple(range(len(short), len(short) + len(joints) + 1)))
        short += _cut(link, [joint.id for joint in joints])
    filled: list[list[str]] = [[] for _ in range(max(row.values(), default=-1) + 1)]
    for id in known:
        filled[row[id]].append(id)
    return Rows(known, tuple(map(tuple, filled)), tuple(short), tuple(chains))


def _cut(link: Link, joints: list[str]) -> list[Link]:
    stops = [link.source, *joints, link.target]
    last = len(joints)
    return [
        Link(source, target, link.leave if at == 0 else None, link.enter if at == last else None)
        for at, (source, target) in enumerate(pairwise(stops))
    ]
