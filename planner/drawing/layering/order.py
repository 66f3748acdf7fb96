"""Order: the items of each row from left to right, so that few links cross."""

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from dataclasses import replace

from .rows import Link, Rows

# In random graphs of 4 to 25 items nothing gets better after 8 sweeps.
_SWEEPS = 12

Places = Mapping[str, float]
Ends = Mapping[str, Sequence[tuple[str, float, float]]]
"""For each item, the items it is linked to, how far along those the link ends, and how far along itself, 0 to 1."""


def ordered(rows: Rows) -> Rows:
    """The rows sorted by where the items are linked to, downwards and upwards in turn; the best of all sweeps."""
    best = current = [sorted(row, key=lambda id: not rows.items[id].leads) for row in rows.rows]
    fewest = crossings(rows, best)
    above, below = _ends(rows, upwards=True), _ends(rows, upwards=False)
    for sweep in range(_SWEEPS):
        if not fewest:
            break
        current = _swept(rows, current, below if sweep % 2 else above, upwards=sweep % 2 == 1)
        current = _exchanged(rows, current, above, below)
        count = crossings(rows, current)
        # A sweep may make it worse on the way to something better, so it goes on from there and keeps the best.
        if count < fewest:
            best, fewest = current, count
    return replace(rows, rows=tuple(map(tuple, best)))


def crossings(rows: Rows, order: Sequence[Sequence[str]]) -> int:
    """How often links cross if the rows are in this order."""
    place = _places(order)
    number = {id: at for at, row in enumerate(order) for id in row}
    gaps: list[list[tuple[float, float]]] = [[] for _ in order]
    for link in rows.links:
        start, stop = _shares(rows, link)
        gaps[number[link.source]].append((place[link.source] + start, place[link.target] + stop))
    return sum(_inversions(sorted(gap)) for gap in gaps)


def _inversions(pairs: Sequence[tuple[float, float]]) -> int:
    seen: list[float] = []
    count = 0
    for _, target in pairs:
        # Links that end at one point do not cross, though rounding may set their ends apart.
        count += len(seen) - bisect_left(seen, target + 1e-9)
        insort(seen, target)
    return count


def _places(order: Sequence[Sequence[str]]) -> dict[str, float]:
    return {id: float(at) for row in order for at, id in enumerate(row)}


def _shares(rows: Rows, link: Link) -> tuple[float, float]:
    """How far along its source and its target a link ends, from 0 to 1."""
    source, target = rows.items[link.source], rows.items[link.target]
    start = 0.5 if link.leave is None else link.leave / source.width
    return start, 0.5 if link.enter is None else link.enter / target.width


def _ends(rows: Rows, *, upwards: bool) -> Ends:
    ends: dict[str, list[tuple[str, float, float]]] = {id: [] for id in rows.items}
    for link in rows.links:
        start, stop = _shares(rows, link)
        if upwards:
            ends[link.target].append((link.source, start, stop))
        else:
            ends[link.source].append((link.target, stop, start))
    return ends


def _swept(rows: Rows, order: Sequence[Sequence[str]], ends: Ends, *, upwards: bool) -> list[list[str]]:
    place = _places(order)
    swept = [list(row) for row in order]
    for at in reversed(range(len(swept))) if upwards else range(len(swept)):
        swept[at].sort(key=lambda id: (not rows.items[id].leads, _mean(place, ends, id)))
        place.update((id, float(number)) for number, id in enumerate(swept[at]))
    return swept


def _mean(place: Places, ends: Ends, id: str) -> float:
    linked = [place[other] + share for other, share, _ in ends[id]]
    return sum(linked) / len(linked) if linked else place[id]


def _exchanged(rows: Rows, order: list[list[str]], above: Ends, below: Ends) -> list[list[str]]:
    """Swap neighbours wherever that leaves fewer crossings of their own links."""
    place = _places(order)
    for row in order:
        for at in range(len(row) - 1):
            left, right = row[at], row[at + 1]
            # A title stays first, whatever it crosses.
            if rows.items[left].leads:
                continue
            crossings = sum(_crossed(place, ends[left], ends[right]) for ends in (above, below))
            if sum(_crossed(place, ends[right], ends[left]) for ends in (above, below)) < crossings:
                row[at], row[at + 1] = right, left
                place[left], place[right] = place[right], place[left]
    return order


def _crossed(place: Places, left: Sequence[tuple[str, float, float]], right: Sequence[tuple[str, float, float]]) -> int:
    return sum(place[one] + at > place[other] + to + 1e-9 for one, at, _ in left for other, to, _ in right)
