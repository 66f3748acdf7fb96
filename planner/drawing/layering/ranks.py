"""Ranks: which row each item of a graph is drawn in, so that every link leads down at least one row."""

from collections.abc import Mapping, Sequence

import networkx as nx


def backward(items: Sequence[str], links: Sequence[tuple[str, str]]) -> set[tuple[str, str]]:
    """The links to turn round so that no circle is left; none where there is no circle."""
    graph = _graph(items, links)
    open_items: set[str] = set()
    turned: set[tuple[str, str]] = set()
    for source, target, what in nx.dfs_labeled_edges(graph):
        if what == "forward":
            open_items.add(target)
        elif what == "reverse":
            open_items.discard(target)
        elif target in open_items:
            turned.add((source, target))
    return turned


def ranks(
    items: Sequence[str], links: Sequence[tuple[str, str]], first: Sequence[str], last: Sequence[str]
) -> dict[str, int]:
    """The row of each item of a graph without circles: below all that leads to it, and near to what it leads to.

    What is linked to nothing goes to the lowest row.
    `first` share the top row with nothing else, `last` the bottom row.
    """
    graph = _graph(items, links)
    rows = {item: row for row, items in enumerate(nx.topological_generations(graph)) for item in items}
    for item in reversed(list(nx.topological_sort(graph))):
        # What has more ways out than in is drawn close to where it goes: its links get shorter on the whole.
        if graph.out_degree(item) > graph.in_degree(item):
            rows[item] = min(rows[target] for target in graph.successors(item)) - 1
    # Nothing says where these belong; in the lowest row no link has to pass them.
    lowest = max(rows.values(), default=0)
    rows |= {item: lowest for item in graph if not graph.degree(item)}
    return _pinned(rows, first, last)


def _pinned(rows: Mapping[str, int], first: Sequence[str], last: Sequence[str]) -> dict[str, int]:
    # The title and the ports of a stage: a link leads from a port across the border, so no operator may stand beside.
    edges = {*first, *last}
    inner = {item: row for item, row in rows.items() if item not in edges}
    top = min(inner.values(), default=0) - 1 if first else min(inner.values(), default=0)
    placed = {item: row - top for item, row in inner.items()}
    bottom = max(placed.values(), default=0) + 1
    return {item: 0 if item in set(first) else placed.get(item, bottom) for item in rows}


def _graph(items: Sequence[str], links: Sequence[tuple[str, str]]) -> "nx.DiGraph[str]":
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(items)
    graph.add_edges_from(links)
    return graph
