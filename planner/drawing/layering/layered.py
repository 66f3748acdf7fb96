"""Layered layout: items in rows from top to bottom, links between them that cross no item, all within one rectangle."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..geometry import Box, Point, Way
from .coordinates import Ports, placed, ports_of
from .order import ordered
from .ranks import backward
from .rows import Item, Link, Rows, in_rows

# Between two rows: an arrow's head and a swing above it that is seen to be one.
_GAP = 30.0
# A link that swings far to the side needs more height, or it would be nearly level and seem to cut its neighbours; but
# one very long link may not pull the whole drawing apart.
_SLOPE = 0.07
_MOST = 46.0
# As wide as the slot of a link in a row, since a turn is where a link passes.
_TURN = 12.0


@dataclass(frozen=True, slots=True)
class Layout:
    """Boxes of items by id, and the way of each link, in the order in which they were given.

    Ways name each row that they pass, above and below; `geometry.joined_ways` makes them shorter.
    """

    width: float
    height: float
    boxes: Mapping[str, Box]
    ways: tuple[Way, ...]


def layered(items: Sequence[Item], links: Sequence[Link]) -> Layout:
    """Place items so that links lead downwards; those of a circle that cannot are led around."""
    back = backward([item.id for item in items], [(link.source, link.target) for link in links])
    turned = [at for at, link in enumerate(links) if (link.source, link.target) in back]
    ahead = [link for at, link in enumerate(links) if at not in turned]
    # A link that leads up is drawn by three that lead down, so that rows and crossings need no second kind of link.
    turns = [item for at in turned for item in _turns(at)]
    around = [part for at in turned for part in _around(at, links[at])]
    layout = _downwards([*items, *turns], [*ahead, *around])
    ways = iter(layout.ways)
    by_link = {at: next(ways) for at in range(len(links)) if at not in turned}
    by_link |= {at: _led_around(ways) for at in turned}
    return Layout(layout.width, layout.height, layout.boxes, tuple(by_link[at] for at in range(len(links))))


def _turns(at: int) -> tuple[Item, Item]:
    return Item(f"turn:{at}:below", _TURN, _TURN), Item(f"turn:{at}:above", _TURN, _TURN)


def _around(at: int, link: Link) -> tuple[Link, Link, Link]:
    """Three links that lead down instead of one that leads up: to a turn below, up beside it all, from a turn above."""
    below, above = f"turn:{at}:below", f"turn:{at}:above"
    return Link(link.source, below, link.leave), Link(above, below), Link(above, link.target, None, link.enter)


def _led_around(ways: Iterator[Way]) -> Way:
    """One way out of the three links of `_around`; it turns in the gaps between rows, short of the turns."""
    down, up, end = next(ways), next(ways), next(ways)
    return (*down[:2], *reversed(up[2:-2]), *end[2:])


def _downwards(items: Sequence[Item], links: Sequence[Link]) -> Layout:
    rows = ordered(in_rows(items, links))
    ports = ports_of(rows)
    lefts = placed(rows, ports)
    tops, bottoms = _heights(rows, ports, lefts)
    boxes = dict(_boxes(rows, lefts, tops, bottoms))
    pieces = [
        _piece(boxes[link.source], boxes[link.target], leave, enter, bottoms[row], tops[row + 1])
        for link, row, leave, enter in zip(rows.links, _rows(rows), ports.leave, ports.enter, strict=True)
    ]
    ways = tuple(tuple(point for at in chain for point in pieces[at]) for chain in rows.chains)
    item_boxes = {item.id: boxes[item.id] for item in items}
    width = max((box.right for box in boxes.values()), default=0.0)
    return Layout(width, max(bottoms, default=0.0), item_boxes, ways)


def _rows(rows: Rows) -> list[int]:
    """For each link the row it starts from."""
    number = {id: at for at, row in enumerate(rows.rows) for id in row}
    return [number[link.source] for link in rows.links]


def _heights(rows: Rows, ports: Ports, lefts: Mapping[str, float]) -> tuple[list[float], list[float]]:
    """Top and bottom of each row; gaps that links cross at a slant are wider."""
    slants = [0.0] * len(rows.rows)
    for link, above, leave, enter in zip(rows.links, _rows(rows), ports.leave, ports.enter, strict=True):
        slants[above] = max(slants[above], abs(lefts[link.source] + leave - lefts[link.target] - enter))
    tops: list[float] = []
    bottoms: list[float] = []
    at = 0.0
    for row, slant in zip(rows.rows, slants, strict=True):
        # No head of an edge needs space above the points where links leave.
        low = all(rows.items[id].rank == "last" for id in row)
        tops.append(at - _GAP / 2 if low else at)
        bottoms.append(tops[-1] + max(rows.items[id].height for id in row))
        at = bottoms[-1] + round(min(slant * _SLOPE, _MOST)) + _GAP
    return tops, bottoms


def _boxes(
    rows: Rows, lefts: Mapping[str, float], tops: Sequence[float], bottoms: Sequence[float]
) -> Iterator[tuple[str, Box]]:
    led = {link.target for link in rows.links}
    for row, top, bottom in zip(rows.rows, tops, bottoms, strict=True):
        for id in row:
            item = rows.items[id]
            # What nothing leads to hangs low in its row, near to what it leads to.
            y = top if id in led else bottom - item.height
            yield id, Box(lefts[id], y, item.width, item.height)


def _piece(source: Box, target: Box, leave: float, enter: float, bottom: float, top: float) -> Way:
    start, stop = source.x + leave, target.x + enter
    return Point(start, source.bottom), Point(start, bottom), Point(stop, top), Point(stop, target.y)
