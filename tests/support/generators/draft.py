"""A description in the making: its nodes and stages so far, and what may still be drawn."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

from hypothesis import strategies as st

from generators.case_keys import KeyType
from generators.described_steps import Source, Step
from generators.described_tables import RemoteRows
from generators.descriptions import ENDS, Mode
from generators.table_drafts import Table, TableDrafts

MOST_COPIES = 12
"""No more messages than this leave a pipeline's node for one that enters, so that small inputs stay small."""

Windows = Literal["plain", "counts", "triggers"]
"""Which windows there are: those of one size and sessions, which fire at their ends; with "counts" also the others, and
triggers that count; with "triggers" also triggers that wait for a time."""

Extra = Literal["joins", "tables", "processors", "broadcasts", "remote reads", "remote writes", "duplicates"]
"""What there may be besides: streams joined with streams, with tables, with splits and processors, what every task is
told, tables that somebody else keeps, and duplicates that are left out."""


@dataclass(frozen=True)
class Limits:
    """What is to be drawn: `failing` functions or not, so many borders, such windows, and what there is besides."""

    mode: Mode
    failing: bool
    borders: int
    windows: Windows
    extras: Collection[Extra]


@dataclass(frozen=True)
class Node:
    """What decides which steps may come next."""

    key: KeyType | None
    stage: int
    copies: int = 1
    # Behind a window, or a join that emits rows alone, in any stage; or of no certain order, as joins behind joins.
    timed: bool = False
    windowed_here: bool = False  # behind a window of its own stage
    dated: bool = False  # behind a window whose panes may be older than the watermark, by the steps that it takes
    joined_here: bool = False  # behind a join of its own stage
    moved: bool = False  # behind what makes other times or events: these do not tell their times
    before: frozenset[int] = frozenset()  # the nodes of its stage that lead to it


class Draft:
    """The nodes and steps so far, and the stages that they are in; what is drawn next is picked here."""

    def __init__(self, draw: st.DrawFn, limits: Limits, sources: tuple[Source, ...]) -> None:
        self._draw = draw
        self.windows, self.extras, self.borders = limits.windows, limits.extras, limits.borders
        self.late = limits.mode == "late"
        self.failing = limits.failing
        self._stages = len(sources)
        self._edges: set[tuple[int, int]] = set()
        self.drafts = TableDrafts(self.pick, self.small)
        self.nodes = [Node(source.key, stage) for stage, source in enumerate(sources)]
        self.closed: set[int] = set()  # nodes that no further step may read
        self.calling: set[int] = set()  # stages with asynchronous calls
        self.exact: set[int] = set()  # stages whose borders tell the time at which each pane fired
        self.steps: list[Step] = []
        self.remotes: list[RemoteRows] = []

    @property
    def tables(self) -> tuple[Table, ...]:
        return tuple(self.drafts.tables)

    def pick(self, choices: Iterable[Any]) -> Any:
        return self._draw(st.sampled_from(list(choices)))

    def small(self) -> int:
        return self._draw(st.integers(0, 5))

    def flag(self) -> bool:
        return self._draw(st.booleans())

    def name(self, node: Node, good: Iterable[str], failing: Iterable[str]) -> str:
        """The name of a function, one that may fail among them if a failure is one here."""
        name: str = self.pick([*good, *(failing if self.may_fail(node) else ())])
        return name

    def may_fail(self, node: Node) -> bool:
        # Whether a late pane fails alone or with the message that caused it, is not for random cases to settle.
        return self.failing and not (self.late and node.windowed_here)

    def open(self) -> list[tuple[int, Node]]:
        """The nodes that a step may read, the newest first."""
        return [(number, node) for number, node in reversed(list(enumerate(self.nodes))) if number not in self.closed]

    def is_line(self, number: int) -> bool:
        """Whether all of the stage so far leads here, with no window or join: then nothing overtakes an async call."""
        node = self.nodes[number]
        members = {other for other, one in enumerate(self.nodes) if one.stage == node.stage and self._is_node(other)}
        return not node.windowed_here and not node.joined_here and members <= node.before | {number}

    def _is_node(self, number: int) -> bool:
        first = len(self.nodes) - len(self.steps)
        return number < first or not isinstance(self.steps[number - first], ENDS)

    def add(self, step: Step, of: Node, **changes: Any) -> None:
        """Add a step that reads node `of`, or one that is as it but for the `changes`."""
        node = replace(of, before=of.before | {step.of}, **changes)
        if node.stage != of.stage:
            node = replace(node, before=frozenset())
        self.nodes.append(node)
        self.steps.append(step)

    def add_end(self, step: Step, of: Node) -> None:
        """Add a step that nothing may read."""
        self.closed.add(len(self.nodes))
        self.add(step, of)

    def add_call(self, step: Step, of: Node, **changes: Any) -> None:
        """Add a step that calls asynchronous functions; nothing may overtake it where the order counts."""
        if self.late:
            self.closed |= of.before | {step.of}
        self.calling.add(of.stage)
        self.add(step, of, **changes)

    def is_crossed(self, node: Node) -> bool:
        """Whether a node is behind a border, where stages do not meet."""
        return node.stage >= len(self.nodes) - len(self.steps)

    def new_stage(self, of: Node) -> int:
        """The stage behind a border."""
        self.borders -= 1
        self._edges.add((of.stage, self._stages))
        self._stages += 1
        return self._stages - 1

    def may_meet(self, one: int, other: int) -> bool:
        """Whether two stages may become one: no loop may come of it, nor may two orders meet where the order counts."""
        if one == other:
            return True
        return not self.late and _acyclic(_united(self._edges, one, other))

    def unite(self, one: int, other: int) -> None:
        """Make one stage of two."""
        self._edges = _united(self._edges, one, other)
        self.nodes = [replace(node, stage=one) if node.stage == other else node for node in self.nodes]
        self.drafts.stages = [one if stage == other else stage for stage in self.drafts.stages]


def _united(edges: set[tuple[int, int]], one: int, other: int) -> set[tuple[int, int]]:
    return {(one if start == other else start, one if end == other else end) for start, end in edges}


def _acyclic(edges: set[tuple[int, int]]) -> bool:
    left = set(edges)
    while left:
        ends = {end for _, end in left}
        rest = {(start, end) for start, end in left if start in ends}
        if rest == left:
            return False
        left = rest
    return True
