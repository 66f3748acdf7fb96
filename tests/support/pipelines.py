"""Random pipelines: a strategy that draws descriptions whose results do not depend on what no engine promises."""

from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from hypothesis import strategies as st

import case_functions as given
from case_functions import KeyType
from descriptions import (
    Async,
    Border,
    Description,
    Filter,
    FlatMap,
    Join,
    Lookup,
    Map,
    Merge,
    Messages,
    Mode,
    OnError,
    Process,
    Send,
    Source,
    Split,
    Step,
    When,
    WindowStep,
)
from fluvial.dsl.operators import How, Order
from table_drafts import Choice, Table, TableDrafts

MOST_COPIES = 12
"""No more messages than this leave a pipeline's node for one that enters, so that small inputs stay small."""

Windows = Literal["plain", "counts", "triggers"]
"""Which windows there are: those of one size and sessions, which fire at their ends; with "counts" also the others, and
triggers that count; with "triggers" also triggers that wait for a time."""


@st.composite
def pipelines(
    draw: st.DrawFn,
    mode: Mode | None = None,
    max_steps: int = 8,
    max_borders: int = 2,
    on_error: OnError | None = None,
    windows: Windows = "plain",
    joins: bool = False,
    tables: bool = False,
    processors: bool = False,
) -> Description:
    """Descriptions of one mode or either.

    "on_time": inputs are to hold nothing late. "late": they may, so that the order of arrival decides; there is one
    source, each stage reads one stream, and async calls keep the order of their stage.

    What triggers show depends on the order of arrival, so only "late" knows other `windows` than plain ones. With
    `joins` there are joins; so it is with those that retain the latest rows alone. With `tables` streams look rows up
    in tables, and in joins of tables, whose inputs are to be there before all others. With `processors` there are
    splits and processors, and so it is with all of these but those that sort.
    """
    assert windows == "plain" or mode != "on_time", "triggers need the one order of arrival that mode late has"
    modes: tuple[Mode, ...] = ("on_time", "late") if windows == "plain" else ("late",)
    chosen: Mode = draw(st.sampled_from(modes)) if mode is None else mode
    policies: tuple[OnError, ...] = ("fail", "fail", "skip", "dead_letter")
    policy: OnError = draw(st.sampled_from(policies)) if on_error is None else on_error
    streams = ("a", "b")[: 1 if chosen == "late" else draw(st.integers(1, 2))]
    sources = tuple(draw(_sources(stream, policy != "fail", joins or tables)) for stream in streams)
    draft = _Draft(draw, chosen, policy != "fail", max_borders, sources, windows, joins, tables, processors)
    for _ in range(draw(st.integers(1, max_steps))):
        draft.add_step()
    return Description(sources, tuple(draft.steps), policy, chosen, draft.tables)


@st.composite
def _sources(draw: st.DrawFn, stream: str, failing: bool, joins: bool) -> Source:
    times = ("record", "at", "at_if_good") if failing else ("record", "at")
    return Source(
        stream,
        key=draw(st.sampled_from(("str", "str", "str", "str", "int", None) if joins else (None, "str", "str", "int"))),
        time=draw(st.sampled_from(times)),
        out_of_order=draw(st.sampled_from((0, 1, 5, 20))),
    )


@dataclass(frozen=True)
class _Node:
    """What decides which steps may come next."""

    key: KeyType | None
    stage: int
    copies: int = 1
    # Behind a window, or a join that emits rows alone, in any stage; or of no certain order, as joins behind joins.
    timed: bool = False
    windowed_here: bool = False  # behind a window of its own stage
    dated: bool = False  # behind a window whose panes may be older than the watermark, by the steps that it takes
    joined_here: bool = False  # behind a join of its own stage
    before: frozenset[int] = frozenset()  # the nodes of its stage that lead to it


class _Draft:
    """A description in the making."""

    def __init__(
        self,
        draw: st.DrawFn,
        mode: Mode,
        failing: bool,
        borders: int,
        sources: tuple[Source, ...],
        windows: Windows = "plain",
        joins: bool = False,
        tables: bool = False,
        processors: bool = False,
    ) -> None:
        self._draw = draw
        self._with_tables = tables
        self._drafts = TableDrafts(self._pick, self._small)
        self._processors = processors
        self._windows = windows
        self._joins = joins
        self._late = mode == "late"
        self._failing = failing
        self._borders = borders
        self._stages = len(sources)
        self._edges: set[tuple[int, int]] = set()
        self._nodes = [_Node(source.key, stage) for stage, source in enumerate(sources)]
        self._closed: set[int] = set()  # nodes that no further step may read
        self.steps: list[Step] = []

    @property
    def tables(self) -> tuple[Table, ...]:
        return tuple(self._drafts.tables)

    def add_step(self) -> None:
        """Add one step that is possible here."""
        makers = {
            "window": self._window,
            "border": self._border,
            "map": self._map,
            "filter": self._filter,
            "flat_map": self._flat_map,
            "async": self._async,
            "messages": self._messages,
            "merge": self._merge,
            "join": self._join,
            "lookup": self._lookup,
            "split": self._split,
            "process": self._process,
            "send": self._send,
        }
        possible = {name: found for name in makers if (found := self._possible(name))}
        # Windows, joins and borders are what there is most to get wrong in.
        often = {"window": 5, "join": 15, "process": 15, "border": 3, "lookup": 10}
        names = [name for name in makers if name in possible for _ in range(often.get(name, 1))]
        name = self._pick(names)
        of = self._pick(possible[name])
        makers[name](of, self._nodes[of])

    def _possible(self, name: str) -> list[int]:
        """The nodes that a step of this kind may read, the newest first."""
        return [
            number
            for number, node in reversed(list(enumerate(self._nodes)))
            if number not in self._closed and self._fits(name, number, node)
        ]

    def _fits(self, name: str, number: int, node: _Node) -> bool:
        match name:
            case "window":
                return node.key is not None and not node.dated
            case "border":
                return self._borders > 0
            case "async":
                return not self._late or self._is_line(number, node)
            case "merge":
                return node.copies < MOST_COPIES
            case "join":
                return self._joins and bool(self._partners(number, node))
            case "lookup":
                return self._with_tables and bool(self._tables_for(node))
            case "split":
                return self._processors
            case "process":
                return self._processors and node.key is not None and not node.dated and node.copies <= MOST_COPIES // 4
            case _:
                return True

    def _is_line(self, number: int, node: _Node) -> bool:
        """Whether all of the stage so far leads here, with no window or join: then nothing overtakes an async call."""
        members = {other for other, one in enumerate(self._nodes) if one.stage == node.stage and self._is_node(other)}
        return not node.windowed_here and not node.joined_here and members <= node.before | {number}

    def _is_node(self, number: int) -> bool:
        first = len(self._nodes) - len(self.steps)
        return number < first or not isinstance(self.steps[number - first], Send)

    def _pick(self, choices: Any) -> Any:
        return self._draw(st.sampled_from(list(choices)))

    def _small(self) -> int:
        return self._draw(st.integers(0, 5))

    def _may_fail(self, node: _Node) -> bool:
        # Whether a late pane fails alone or with the message that caused it, is not for random cases to settle.
        return self._failing and not (self._late and node.windowed_here)

    def _name(self, node: _Node, good: Any, failing: Any) -> str:
        name: str = self._pick([*good, *(failing if self._may_fail(node) else ())])
        return name

    def _add(self, step: Step, of: _Node, **changes: Any) -> None:
        number = len(self._nodes)
        before = of.before | {step.of}
        node = replace(of, before=before, **changes)
        if node.stage != of.stage:
            node = replace(node, before=frozenset())
        self._nodes.append(node)
        self.steps.append(step)
        assert number == len(self._nodes) - 1

    def _new_stage(self, of: _Node) -> int:
        self._borders -= 1
        self._edges.add((of.stage, self._stages))
        self._stages += 1
        return self._stages - 1

    def _map(self, of: int, node: _Node) -> None:
        self._add(Map(of, self._name(node, given.MAPS, given.FAILING_MAPS), self._small()), node)

    def _filter(self, of: int, node: _Node) -> None:
        self._add(Filter(of, self._name(node, given.FILTERS, given.FAILING_FILTERS), self._small()), node)

    def _results(self, node: _Node) -> tuple[str, int, int]:
        """A flat_map's function, its number, and how many copies it may make of what enters the pipeline."""
        name = self._name(node, given.FLAT_MAPS, given.FAILING_FLAT_MAPS)
        most = MOST_COPIES // node.copies
        number = self._pick(number for number in (1, 2, 3, 1, 0) if given.expansion(number) <= most)
        return name, number, node.copies * given.expansion(number)

    def _flat_map(self, of: int, node: _Node) -> None:
        name, number, copies = self._results(node)
        self._add(FlatMap(of, name, number), node, copies=copies)

    def _async(self, of: int, node: _Node) -> None:
        name, number, copies = self._results(node)
        order: Order = "input" if self._late else self._pick(("key", "input", "none"))
        step = Async(of, name, number, order, self._draw(st.booleans()), self._pick((100, 1, 2)))
        if self._late:
            self._closed |= node.before | {of}
        self._add(step, node, copies=copies)

    def _messages(self, of: int, node: _Node) -> None:
        # What time let emit, made earlier, may be late or not, as an engine steps through time.
        backward = self._late and not node.timed
        names = {**given.MESSAGES, **(given.BACKWARD_MESSAGES if backward else {})}
        self._add(Messages(of, self._name(node, names, given.FAILING_MESSAGES), self._small()), node, key=None)

    def _border(self, of: int, node: _Node) -> None:
        key = self._pick(given.KEYS)
        failing = given.FAILING_KEYS if key == "str" else ()
        step = Border(of, key, self._name(node, given.KEYS[key], failing), self._small(), self._draw(st.booleans()))
        self._add(step, node, key=key, stage=self._new_stage(node), windowed_here=False, joined_here=False)

    def _window(self, of: int, node: _Node) -> None:
        crosses = self._borders > 0 and self._pick((False, False, True))
        alone = self._failing and not (self._late and not crosses)
        step = WindowStep(
            of,
            self._pick(("tumbling", "session", "session")),
            self._pick((10, 1, 5, 50)),
            self._name(node, given.AGGREGATES, given.FAILING_AGGREGATES),
            lateness=self._pick((0, 50, 10, 1, 50)),
            late_to=self._pick((None, "late")),
            accumulate=self._pick((True, False)),
            panes=self._pick((None, *(2 * (f"panes-{len(self._nodes)}",)))),
            crosses=crosses,
            back=self._pick(("event_of", "event_of_good") if alone else ("event_of",)),
        )
        copies = node.copies
        if self._windows != "plain":
            step, copies = self._other_window(step, node)
        stage = self._new_stage(node) if crosses else node.stage
        # Whether what is shown so late is late at another window depends on the steps that time takes there.
        dated = node.dated or step.kind == "unbounded" or step.late_trigger is not None
        here = {"windowed_here": not crosses, "joined_here": node.joined_here and not crosses}
        self._add(step, node, stage=stage, copies=copies, timed=True, dated=dated, **here)

    def _other_window(self, step: WindowStep, node: _Node) -> tuple[WindowStep, int]:
        """A window of any kind with triggers in place of a plain one, and the most messages that come of one."""
        copies = node.copies
        kind = self._pick((*(3 * (step.kind,)), "hopping", "unbounded"))
        if kind == "unbounded":
            step = replace(step, kind="unbounded", size=0, lateness=0, late_to=None)
        elif kind == "hopping":
            fitting = [every for every in (1, 2, 3, 5, 7, 10, 25, 50) if every <= step.size]
            every = self._pick([one for one in fitting if copies * -(-step.size // one) <= MOST_COPIES])
            step, copies = replace(step, kind="hopping", every=every), copies * -(-step.size // every)
        else:
            step = replace(step, kind=kind)
        # What time lets emit of several keys may have any order, and with it what a trigger shows behind a border.
        if node.timed:
            return step, copies
        trigger = self._when()
        late_trigger = self._when() if step.lateness > 0 else None
        return replace(step, trigger=trigger, late_trigger=late_trigger), copies

    def _when(self) -> When | None:
        """A trigger, or none."""
        by_time = ("first", "last", "first last", "count first", "count last", "count first last")
        parts = self._pick((None, "count", "count", *(by_time if self._windows == "triggers" else ())))
        if parts is None:
            return None
        # Times of the sizes of windows, and just beside them.
        return When(
            count=self._pick((2, 1, 3)) if "count" in parts else None,
            first=self._pick((5, 1, 6, 10, 9, 11, 50)) if "first" in parts else None,
            last=self._pick((5, 1, 6, 10, 9, 11, 50)) if "last" in parts else None,
            repeats=self._pick((True, False)),
        )

    def _merge(self, of: int, node: _Node) -> None:
        """Merge with one or two others, the node itself perhaps; two stages become one, if no loop comes of it."""
        others: list[int] = []
        copies = node.copies
        for _ in range(self._pick((1, 1, 2))):
            fitting = [
                number
                for number in reversed(range(len(self._nodes)))
                if number not in self._closed
                and copies + self._nodes[number].copies <= MOST_COPIES
                and self._may_meet(node.stage, self._nodes[number].stage)
            ]
            if not fitting:
                break
            others.append(self._pick(fitting))
            copies += self._nodes[others[-1]].copies
            self._unite(node.stage, self._nodes[others[-1]].stage)
        if not others:
            self._send(of, node)
            return
        inputs = [self._nodes[number] for number in (of, *others)]
        keys = {one.key for one in inputs}
        merged = replace(
            node,
            key=keys.pop() if len(keys) == 1 else None,
            copies=copies,
            windowed_here=any(one.windowed_here for one in inputs),
            dated=any(one.dated for one in inputs),
            # Whose results come first, of several joins that one message reaches, is nowhere promised.
            timed=any(one.timed for one in inputs) or sum(one.joined_here for one in inputs) > 1,
            joined_here=any(one.joined_here for one in inputs),
            before=frozenset(others).union(*(one.before for one in inputs)),
        )
        self._add(Merge(of, tuple(others)), merged)

    def _partners(self, of: int, node: _Node) -> list[int]:
        """The nodes that a node may join, the newest first."""
        if node.key is None or node.dated:
            return []
        return [
            number
            for number, one in reversed(list(enumerate(self._nodes)))
            if number not in self._closed | {of}
            and (one.key, one.dated) == (node.key, False)
            and _joined_copies(node, one) <= MOST_COPIES
            and self._may_meet(node.stage, one.stage)
        ]

    def _join(self, of: int, node: _Node) -> None:
        other = self._pick(self._partners(of, node))
        self._unite(node.stage, self._nodes[other].stage)
        inputs = [self._nodes[of], self._nodes[other]]
        how: How = self._pick(get_args(How))
        timed = any(one.timed for one in inputs)
        behind = sum(one.joined_here for one in inputs)
        # Which row is the latest depends on the order of arrival; so does what comes of joins behind joins.
        latest = self._late and not timed and behind < 2
        joined = replace(
            inputs[0],
            copies=_joined_copies(*inputs),
            windowed_here=any(one.windowed_here for one in inputs),
            timed=timed or how != "inner" or behind > 0,
            joined_here=True,
            before=frozenset({other}).union(*(one.before for one in inputs)),
        )
        step = Join(
            of,
            other,
            self._pick((10, 1, 5, 50)),
            how,
            self._pick(("latest", "all", "latest") if latest else ("all",)),
            self._name(joined, given.JOINS, given.FAILING_JOINS),
            self._small(),
        )
        self._add(step, joined)

    def _tables_for(self, node: _Node) -> list[Choice]:
        """The tables that a node may look rows up in, and those that may be made for it."""
        return self._drafts.choices(node.key, lambda stage: self._may_meet(node.stage, stage))

    def _lookup(self, of: int, node: _Node) -> None:
        chosen = self._drafts.chosen(self._pick(self._tables_for(node)), node.key, node.stage)
        self._unite(node.stage, self._drafts.stages[chosen])
        how: Literal["inner", "left"] = self._pick(("left", "inner"))
        step = Lookup(of, chosen, how, self._name(node, given.JOINS, given.FAILING_JOINS), self._small())
        self._add(step, self._nodes[of])

    def _split(self, of: int, node: _Node) -> None:
        fns = tuple(self._name(node, given.FILTERS, given.FAILING_FILTERS) for _ in range(self._pick((1, 1, 2))))
        self._add(Split(of, fns, self._small()), node)

    def _process(self, of: int, node: _Node) -> None:
        # What depends on the order of arrival, and what on the steps of time, wants the one order that mode late has.
        processor = self._pick(("watching", "running", "sorting") if self._late and not node.timed else ("sorting",))
        times = {"watching": 4, "running": 2, "sorting": 1}[processor]
        timed = node.timed or processor != "running"
        sorts = processor == "sorting"
        # Which of those that are late are handled together, is a matter of the steps of time.
        fails = self._may_fail(node) and not (sorts and self._late) and self._pick((False, False, True))
        aside = self._pick((None, f"aside-{len(self._nodes)}"))
        step = Process(of, processor, self._small(), fails, aside)
        dated = node.dated or processor == "watching" or (sorts and self._late)
        self._add(step, node, copies=node.copies * times, timed=timed, dated=dated, joined_here=True)

    def _may_meet(self, one: int, other: int) -> bool:
        if one == other:
            return True
        return not self._late and _acyclic(_united(self._edges, one, other))

    def _unite(self, one: int, other: int) -> None:
        self._edges = _united(self._edges, one, other)
        self._nodes = [replace(node, stage=one) if node.stage == other else node for node in self._nodes]
        self._drafts.stages = [one if stage == other else stage for stage in self._drafts.stages]

    def _send(self, of: int, node: _Node) -> None:
        key = self._pick((None, *given.KEYS))
        names = {} if key is None else given.KEYS[key]
        failing = given.FAILING_KEYS if key == "str" else ()
        name = "" if key is None else self._name(node, names, failing)
        # A function that makes keys of events has nothing to say of other values.
        form = "event" if key is not None else self._pick(("event", *given.FORMS))
        step = Send(of, self._pick(("sent", "also-sent")), key, name, form, self._small(), self._draw(st.booleans()))
        self._closed.add(len(self._nodes))
        self._add(step, node)


def _joined_copies(one: _Node, other: _Node) -> int:
    """The most copies that leave a join, if what enters the pipeline is not all at one time."""
    return 3 * one.copies * other.copies


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
