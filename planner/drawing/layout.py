"""Layout of a scene: operators inside their stages first, then stages and streams as wholes, then all put together."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from .boxes import label_size, size_of, title_size
from .geometry import Picture, Way, joined_ways, moved
from .layering.layered import Layout, layered
from .layering.rows import Item, Link
from .scene import Drawing, Edge, Group

# The border of a stage is drawn on the outer side of this, so links and boxes keep clear of it.
_PAD = 14.0
# At the very edge of the image lines would lose half of their width.
_MARGIN = 16.0
# As wide as the slot of a link in a row: a port is where one link passes the border of a stage.
_PORT = 12.0

Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class _Part:
    """Something laid out by itself; `links` number its ways by what they join."""

    layout: Layout
    links: Mapping[Pair, int]

    def way(self, source: str, target: str, dx: float, dy: float) -> Way:
        """Where the link between the two runs, if the part is moved by that much."""
        return moved(self.layout.ways[self.links[source, target]], dx, dy)

    def port(self, id: str) -> float:
        """How far from the left of a stage, with its padding, links enter or leave through a port."""
        return self.layout.boxes[id].middle + _PAD


@dataclass(frozen=True, slots=True)
class _Plot:
    """A scene on its way to a picture: which stage holds which node, and what each stage looks like inside."""

    drawing: Drawing
    home: Mapping[str, str]
    stages: Mapping[str, _Part]

    def block(self, id: str) -> str:
        """What stands for a node among the stages: its stage, or itself."""
        return self.home.get(id, id)


def arrange(drawing: Drawing) -> Picture:
    """Give each node, group, label and edge of a scene its place, as a `Picture`."""
    home = {id: group.id for group in drawing.groups for id in group.members}
    stages = {group.id: _stage(drawing, group, home) for group in drawing.groups}
    plot = _Plot(drawing, home, stages)
    return _picture(plot, _around(plot))


def _steps(edge: Edge, home: Mapping[str, str]) -> list[Pair]:
    """The links between blocks that an edge takes, by its own ends; none if it stays within a stage."""
    if edge.label is not None:
        return [(edge.source, f"label:{edge.label}"), (f"label:{edge.label}", edge.target)]
    inside = edge.source in home and home[edge.source] == home.get(edge.target)
    return [] if inside else [(edge.source, edge.target)]


def _stage(drawing: Drawing, group: Group, home: Mapping[str, str]) -> _Part:
    """Lay out the operators of one stage, under its title and between the ports of what it reads and writes."""
    members = set(group.members)
    # A dict and no set: the order decides what is drawn first, and the same plan must give the same drawing.
    links: dict[Pair, None] = {}
    for edge in drawing.edges:
        steps = _steps(edge, home)
        if not steps and edge.source in members:
            links[edge.source, edge.target] = None
        for source, target in steps:
            if source in members:
                links[source, f"out:{home.get(target, target)}"] = None
            if target in members:
                links[f"in:{home.get(source, source)}", target] = None
    nodes = {node.id: node for node in drawing.nodes}
    items = [Item("title", *title_size(group.title), rank="first", leads=True)]
    items += [Item(id, *size_of(nodes[id])) for id in group.members]
    items += [Item(id, _PORT, 0, rank="first") for id in dict.fromkeys(a for a, _ in links) if id not in members]
    items += [Item(id, _PORT, 0, rank="last") for id in dict.fromkeys(b for _, b in links) if id not in members]
    return _part(items, {pair: Link(*pair) for pair in links})


def _part(items: list[Item], links: Mapping[Pair, Link]) -> _Part:
    return _Part(layered(items, list(links.values())), {pair: at for at, pair in enumerate(links)})


def _around(plot: _Plot) -> _Part:
    """Lay out the stages as blocks, with the streams and labels between them."""
    items = [_block(id, part) for id, part in plot.stages.items()]
    items += [Item(node.id, *size_of(node)) for node in plot.drawing.nodes if node.id not in plot.home]
    labels = dict.fromkeys(edge.label for edge in plot.drawing.edges if edge.label is not None)
    items += [Item(f"label:{label}", *label_size(label)) for label in labels]
    links: dict[Pair, Link] = {}
    for edge in plot.drawing.edges:
        for source, target in _steps(edge, plot.home):
            one, other = plot.block(source), plot.block(target)
            leave = plot.stages[one].port(f"out:{other}") if source in plot.home else None
            enter = plot.stages[other].port(f"in:{one}") if target in plot.home else None
            links[one, other] = Link(one, other, leave, enter)
    return _part(items, links)


def _block(id: str, part: _Part) -> Item:
    return Item(id, part.layout.width + 2 * _PAD, part.layout.height + 2 * _PAD)


def _picture(plot: _Plot, around: _Part) -> Picture:
    places = {id: box.moved(_MARGIN, _MARGIN) for id, box in around.layout.boxes.items()}
    inner = {id: (places[id].x + _PAD, places[id].y + _PAD) for id in plot.stages}
    nodes = {node.id: places[node.id] for node in plot.drawing.nodes if node.id not in plot.home}
    nodes |= {id: plot.stages[home].layout.boxes[id].moved(*inner[home]) for id, home in plot.home.items()}
    return Picture(
        width=around.layout.width + 2 * _MARGIN,
        height=around.layout.height + 2 * _MARGIN,
        nodes=nodes,
        groups={id: places[id] for id in plot.stages},
        # Nothing stands left of a title, so it may go all the way.
        titles={id: replace(part.layout.boxes["title"], x=0.0).moved(*inner[id]) for id, part in plot.stages.items()},
        labels={id.removeprefix("label:"): box for id, box in places.items() if id.startswith("label:")},
        edges=tuple((edge, joined_ways(*_ways(edge, plot, around, inner))) for edge in plot.drawing.edges),
    )


def _ways(edge: Edge, plot: _Plot, around: _Part, inner: Mapping[str, tuple[float, float]]) -> Iterator[Way]:
    """The pieces of an edge's way: out of a stage, between the stages, into a stage."""
    steps = _steps(edge, plot.home)
    if not steps:
        home = plot.home[edge.source]
        yield plot.stages[home].way(edge.source, edge.target, *inner[home])
    for source, target in steps:
        one, other = plot.block(source), plot.block(target)
        if source in plot.home:
            yield plot.stages[one].way(source, f"out:{other}", *inner[one])
        yield around.way(one, other, _MARGIN, _MARGIN)
        if target in plot.home:
            yield plot.stages[other].way(f"in:{one}", target, *inner[other])
