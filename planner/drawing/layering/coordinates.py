"""Coordinates: where in its row each item stands, so that links are as straight as the other items allow."""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import floor, inf

from .rows import Rows

# An odd number: the last sweep then goes downwards, which leaves shorter links than one upwards.
_SWEEPS = 17
# Links that run side by side may be closer to each other than boxes, which have borders and texts.
_SPACE = 22.0
# With less, parallel links read as one thick line.
_TIGHT = 10.0

# A bend in the middle of a long link disturbs more than one at its end.
_PULL = {0: 1.0, 1: 2.0, 2: 8.0}


@dataclass(frozen=True, slots=True)
class Ports:
    """How far from the left of its source and its target each link ends."""

    leave: tuple[float, ...]
    enter: tuple[float, ...]


def ports_of(rows: Rows) -> Ports:
    """Spread the ends of links along the items, in the order of where they go to."""
    place = {id: at for row in rows.rows for at, id in enumerate(row)}
    leave = [link.leave for link in rows.links]
    enter = [link.enter for link in rows.links]
    for id in rows.items:
        out = [at for at, link in enumerate(rows.links) if link.source == id and link.leave is None]
        into = [at for at, link in enumerate(rows.links) if link.target == id and link.enter is None]
        _spread(rows, id, sorted(out, key=lambda at: _far(rows.links[at].target, place, enter[at])), leave)
        _spread(rows, id, sorted(into, key=lambda at: _far(rows.links[at].source, place, leave[at])), enter)
    return Ports(tuple(at or 0.0 for at in leave), tuple(at or 0.0 for at in enter))


def _far(other: str, place: Mapping[str, int], offset: float | None) -> tuple[int, float]:
    return place[other], offset or 0.0


def _spread(rows: Rows, id: str, ends: Sequence[int], into: list[float | None]) -> None:
    width = rows.items[id].width
    for number, at in enumerate(ends, start=1):
        into[at] = float(round(width * number / (len(ends) + 1)))


def placed(rows: Rows, ports: Ports) -> dict[str, float]:
    """The left of each item: rows are pulled straight under and over one another in turn, then long links at once."""
    lefts = _packed(rows)
    # Between one above and one below, an item goes with the one above rather than half-way.
    above = _pulls(rows, ports, 1.01, upwards=True)
    below = _pulls(rows, ports, 1.0, upwards=False)
    for sweep in range(_SWEEPS):
        upwards = sweep % 2 == 1
        # The last sweeps look both ways, so that neither end of a link is forgotten.
        pulls = (above, below) if sweep >= _SWEEPS - 4 else (below,) if upwards else (above,)
        for row in reversed(rows.rows) if upwards else rows.rows:
            _settle(rows, row, lefts, pulls)
    _straighten(rows, ports, lefts)
    least = min(lefts.values(), default=0.0)
    # Whole pixels: ways that meet must meet exactly.
    return {id: float(floor(left - least)) for id, left in lefts.items()}


Pulls = Mapping[str, Sequence[tuple[str, float, float]]]
"""For each item: the items that pull it, by how much it wants to stand right of their left, and how strongly."""


def _pulls(rows: Rows, ports: Ports, force: float, *, upwards: bool) -> Pulls:
    pulls: dict[str, list[tuple[str, float, float]]] = {id: [] for id in rows.items}
    for link, leave, enter in zip(rows.links, ports.leave, ports.enter, strict=True):
        pull = force * _PULL[(link.source.startswith("joint:")) + (link.target.startswith("joint:"))]
        if upwards:
            pulls[link.target].append((link.source, leave - enter, pull))
        else:
            pulls[link.source].append((link.target, enter - leave, pull))
    return pulls


def _distance(rows: Rows, left: str, right: str) -> float:
    joints = left.startswith("joint:") and right.startswith("joint:")
    return rows.items[left].width + (_TIGHT if joints else _SPACE)


def _packed(rows: Rows) -> dict[str, float]:
    lefts: dict[str, float] = {}
    for row in rows.rows:
        at = 0.0
        for id, after in zip(row, [*row[1:], None], strict=True):
            lefts[id] = at
            at += _distance(rows, id, after) if after else 0.0
    return lefts


def _settle(rows: Rows, row: Sequence[str], lefts: dict[str, float], pulls: Sequence[Pulls]) -> None:
    """Move the items of a row to where they are pulled, as near as their order and sizes allow."""
    offset = 0.0
    offsets: list[float] = []
    wanted: list[Goals] = []
    for before, id in zip([None, *row[:-1]], row, strict=True):
        offset += 0.0 if before is None else _distance(rows, before, id)
        offsets.append(offset)
        goals = [(lefts[other] + shift - offset, pull) for side in pulls for other, shift, pull in side[id]]
        wanted.append(goals)
    # Less the widths and spaces before them, items keep their order if and only if their places rise.
    for id, value, shift in zip(row, _beside(rising(wanted), wanted), offsets, strict=True):
        lefts[id] = lefts[id] if value is None else value + shift


Goals = Sequence[tuple[float, float]]
"""Where something wants to be, and how strongly, for each of its reasons."""


def rising(wanted: Sequence[Goals]) -> list[float]:
    """Values of which none is below the one before, each as near to its goals as that allows.

    What has no goals is left out. What cannot have its own place shares one with its neighbours, at the median of all
    their goals: unlike a mean, it satisfies somebody in full, so that most links end up straight.
    """
    blocks: list[tuple[float, list[tuple[float, float]], int]] = []
    for goals in filter(None, wanted):
        block = (_median(goals), list(goals), 1)
        while blocks and blocks[-1][0] > block[0]:
            _, others, size = blocks.pop()
            together = [*others, *block[1]]
            block = (_median(together), together, size + block[2])
        blocks.append(block)
    return [value for value, _, size in blocks for _ in range(size)]


def _beside(values: Sequence[float], wanted: Sequence[Goals]) -> list[float | None]:
    """The values, with those of neighbours in between for what has no goals; None where nothing has any."""
    left = iter(values)
    last = values[0] if values else None
    filled: list[float | None] = []
    for goals in wanted:
        last = next(left) if goals else last
        filled.append(last)
    return filled


def _median(goals: Goals) -> float:
    """The weighted median; half-way between the two in the middle where there are two."""
    ranked = sorted(goals)
    reached = list(accumulate(weight for _, weight in ranked))
    low = bisect_left(reached, reached[-1] / 2)
    high = min(bisect_right(reached, reached[-1] / 2), len(ranked) - 1)
    return (ranked[low][0] + ranked[high][0]) / 2


def _straighten(rows: Rows, ports: Ports, lefts: dict[str, float]) -> None:
    """Put the joints of a long link under one another wherever there is space in all the rows that it passes."""
    around = {id: around for row in rows.rows for id, around in zip(row, _neighbours(row), strict=True)}
    # At last, for sweeps move joints one by one, and leave a long link with small steps.
    for chain in rows.chains:
        joints = [rows.links[at].target for at in chain[:-1]]
        ranges = [_range(rows, lefts, id, *around[id]) for id in joints]
        low, high = max((low for low, _ in ranges), default=1.0), min((high for _, high in ranges), default=0.0)
        if low <= high:
            ends = _ends(rows, ports, lefts, chain)
            at = next((end for end in ends if low <= end <= high), min(max(ends[0], low), high))
            lefts.update((id, at) for id in joints)


def _neighbours(row: Sequence[str]) -> list[tuple[str | None, str | None]]:
    return list(zip([None, *row[:-1]], [*row[1:], None], strict=True))


def _range(
    rows: Rows, lefts: Mapping[str, float], id: str, before: str | None, after: str | None
) -> tuple[float, float]:
    low = -inf if before is None else lefts[before] + _distance(rows, before, id)
    return low, inf if after is None else lefts[after] - _distance(rows, id, after)


def _ends(rows: Rows, ports: Ports, lefts: Mapping[str, float], chain: Sequence[int]) -> tuple[float, float]:
    """Where a joint would stand straight under the beginning of a long link, and straight over its end."""
    first, last = chain[0], chain[-1]
    start = lefts[rows.links[first].source] + ports.leave[first] - ports.enter[first]
    return start, lefts[rows.links[last].target] + ports.enter[last] - ports.leave[last]
