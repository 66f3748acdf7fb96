"""How far event time has come at each node of a stage: a graph of watermarks.

Each node has a watermark: everything up to that time has passed the node. The kind of a node says what sets it:

- stream: the messages of an input, or its control messages;
- stateful: the time up to which an operator that keeps state has fired;
- in-flight: the oldest message that is in flight behind asynchronous calls;
- merge: the slowest of several nodes that are not idle;
- clock: the processing time.

The watermark of an idle stream advances with the clock. When messages come again, the stream has the watermark of those
messages, which may be an earlier one. The nodes behind it go back too, except in front of an operator that keeps state:
what has fired is not taken back. `NodeWatermarks` has the watermarks; `WatermarkGraph` says when which one changes."""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Protocol

from .bounds import END, START
from .node_watermarks import NodeWatermarks
from .watermark_node import NodeKind, WatermarkNode, behind, front_of, lagging


class ClockUsers:
    """What depends on the processing time in a task: operators that fire by it, and nodes that follow it, which
    `has_nodes` says there are. `firing[0]` becomes the operator that fires."""

    def __init__(self, firing: list[str], *, has_nodes: bool = False) -> None:
        self._has_nodes = has_nodes
        self._firing = firing
        self._dues: list[Callable[[], int]] = []
        self._callbacks: list[tuple[str, Callable[[int], bool]]] = []
        self._next = 0  # the callback that has paused

    def __bool__(self) -> bool:
        return self._has_nodes or bool(self._dues)

    def attach(self, id: str, due: Callable[[], int], fire: Callable[[int], bool] | None = None) -> None:
        """Call `fire` with the processing time whenever it advances; it returns whether all that is due has fired.
        `due` returns the next time at which the operator is due."""
        self._dues.append(due)
        if fire is not None:
            self._callbacks.append((id, fire))

    def fire(self, now: int) -> bool:
        """Fire what is due by the processing time. Returns whether all of it was; else a firing has paused, and goes on
        with the next call."""
        for number in range(self._next, len(self._callbacks)):
            self._firing[0], fire = self._callbacks[number]
            if not fire(now):
                self._next = number
                return False
        self._next = 0
        return True

    def next_due(self) -> int:
        """The next processing time at which something is due if no message comes; END if there is none."""
        return min((due() for due in self._dues), default=END)


class TimedOperator(Protocol):
    """A stateful operator, as the graph uses it."""

    def advance(self, watermark: int) -> bool:
        """Emit what is due at this watermark, in ms since epoch. Returns whether all of it was; else the firing has
        paused, and goes on when `advance` is called again with the same watermark."""
        ...

    def next_due(self) -> int:
        """The watermark from which `advance` has something to do; END if there is none."""
        ...


_Step = tuple[Callable[[int, WatermarkNode], None], int, WatermarkNode]
"""How a node is advanced, its index, and the node."""


class WatermarkGraph:
    """Advances the watermarks of one task, those `of_nodes`; `nodes`, `now` and `idle` are the same as there.
    `next_fire[0]` is the watermark at which a stateful operator is next due. `clock` is the processing time. While
    `paused[0]` the firing of an operator is not over, and nothing else fires. While `excludes[0]` no message may be
    processed for it, which holds for all operators but those `admitting`. `fires[0]` is that operator, or the one that
    has fired last. In the middle of a firing that admits messages the nodes of the `front` go on, which are behind no
    operator that keeps state. While `by_time[0]` time makes an operator fire, and not a message that it is given; while
    `at_end[0]` the end of input does. By `clock_fired` all has fired that was due by the clock.

    An `exact` graph advances its nodes with each message. Any other advances them when an operator is due, and before
    they are read: see `catch_up`.
    """

    def __init__(
        self,
        nodes: Sequence[WatermarkNode],
        floor: Callable[[str], int | None],
        *,
        exact: bool = True,
        excludes: list[bool] | None = None,
    ) -> None:
        self.of_nodes = NodeWatermarks(nodes)
        self.nodes, self.now, self.idle = nodes, self.of_nodes.now, self.of_nodes.idle
        self._exact = exact
        self._behind = False
        self.next_fire = [END]
        self.clock = START
        self._floor = floor
        self._following = self._again = False
        self.paused = [False]
        self.excludes = [False] if excludes is None else excludes
        self.admitting: set[str] = set()
        self.fires = [""]
        self.by_time = [False]
        self.at_end = [False]
        self._rest: Callable[[], None] | None = None
        self.clock_fired = START
        self._stateful: dict[str, TimedOperator] = {}
        self._streams = self.of_nodes.streams
        self.clock_users = ClockUsers(self.fires, has_nodes=any(node.kind == "clock" for node in nodes))
        moves: dict[NodeKind, Callable[[int, WatermarkNode], None]] = {
            "clock": self._follow_clock,
            "in-flight": self._hold_back,
            "stateful": self._fire,
            "merge": self._merge,
        }
        self._steps = [(moves[node.kind], index, node) for index, node in enumerate(nodes) if node.kind != "stream"]
        self._holding = {node.owner: index for index, node in enumerate(nodes) if node.kind == "in-flight"}
        reached = {index: behind(nodes, index) for index in self._holding.values()}
        self._steps_behind = {index: [step for step in self._steps if step[1] in reached[index]] for index in reached}
        self.front = front_of(nodes)
        self._front_steps = [step for step in self._steps if step[1] in self.front]

    def attach(self, id: str, operator: TimedOperator) -> None:
        """Add a stateful operator, which fires from now on as its node advances."""
        self._stateful[id] = operator
        self.schedule(operator.next_due())

    def schedule(self, time: int) -> None:
        """An operator is due at this watermark."""
        self.next_fire[0] = min(self.next_fire[0], time)

    def set_stream(self, name: str, watermark: int, *, idle: bool | None = None) -> None:
        """Set the watermark of a stream, and whether it is idle; None leaves that as it is. Advance all nodes behind
        it. The watermark goes back only where an input is no longer idle."""
        index = self._streams[name]
        before, changed = self.now[index], idle is not None and idle != self.idle[index]
        back = watermark < before and before != END and self.nodes[index].returns
        if idle is not None:
            self.idle[index] = idle
        if watermark > before or changed or back:
            if watermark == END or back:  # the watermarks before it must be known
                self.catch_up()
            self.of_nodes.move(index, watermark)
            if changed or back or watermark >= self.next_fire[0]:
                self._follow()
            else:
                self.follow()

    def leave_out(self, name: str) -> None:
        """Nothing of a stream ever comes: no node waits for it."""
        self.of_nodes.leave_out(name)
        self.set_stream(name, END)

    def set_streams(self, reported: Mapping[str, tuple[int, bool]]) -> None:
        """Set the watermark and the idleness of several streams, and advance the nodes once all of them are set. So a
        stream that is no longer idle holds time back before another stream advances it."""
        self.catch_up()
        for name, (watermark, idle) in reported.items():
            index = self._streams[name]
            before = self.now[index]
            self.idle[index] = idle
            if watermark > before or (before != END and self.nodes[index].returns):
                self.of_nodes.move(index, watermark)
        self._follow()

    def set_clock(self, now: int) -> None:
        """Set the processing time, in ms since epoch, and advance the nodes that follow it."""
        if now > self.clock:
            self.clock = now
            if self.clock_users:
                self._follow()
            self._fire_by_clock()

    def _fire_by_clock(self) -> None:
        """Fire what is due by the processing time, once no firing has paused."""
        if not self.paused[0]:
            before, self.by_time[0] = self.by_time[0], True
            self.paused[0] = self.excludes[0] = not self.clock_users.fire(self.clock)
            self.by_time[0] = before
            if self.paused[0]:
                self._rest = self._fire_by_clock
            else:
                self.clock_fired = self.clock

    def follow(self) -> None:
        """Advance the watermark of every node as far as its inputs allow, and fire what is due. If the graph is not
        `exact`, nodes are advanced when they are next read."""
        if self._exact:
            self._follow()
        else:
            self._behind = True

    def landed(self, owner: str) -> None:
        """The oldest message in flight of an input or operator has landed: advance the nodes that it has held back."""
        if not self._exact or self._behind or self._following or self.paused[0]:
            self.follow()
            return
        index = self._holding.get(owner)
        if index is None:  # a table whose changes reach tables alone: they depend on no watermark
            return
        before = self.now[index], self.idle[index]
        self._hold_back(index, self.nodes[index])
        if (self.now[index], self.idle[index]) != before:
            self._advance_nodes(self._steps_behind[index])

    def catch_up(self) -> None:
        """Advance the nodes that `follow` has left behind."""
        if self._behind:
            self._follow()

    def resume(self) -> None:
        """Advance every node from what was restored, and fire what is due by watermark and by clock."""
        self.clock_fired = START
        self._follow()
        self._fire_by_clock()

    def go_on(self) -> None:
        """Go on with the firing that has paused, and fire then what else is due."""
        if self._rest is not None:
            rest, self._rest, self.paused[0], self.excludes[0] = self._rest, None, False, False
            self._following = True
            try:
                rest()
            finally:
                self._following = False
            self._follow()
            if self.clock_fired < self.clock:
                self._fire_by_clock()

    def _follow(self) -> None:
        self._behind = self.paused[0]
        self._again = True
        # In a firing that has moved time, the loop runs once more after it; so it does once a pause is over.
        if self._following or self.paused[0]:
            if not (self._following or self.excludes[0]):
                for move, index, node in self._front_steps:
                    move(index, node)
            return
        self._advance_nodes(self._steps)

    def _advance_nodes(self, steps: Sequence[_Step]) -> None:
        """Take these steps, and all of them again as long as firings move time."""
        self._following = self._again = True
        try:
            while self._again:
                self._again = False
                for move, index, node in steps:
                    move(index, node)
                    if self.paused[0]:
                        self._behind = True
                        return
                steps = self._steps
        finally:
            self._following = False
        self.next_fire[0] = min([operator.next_due() for operator in self._stateful.values()], default=END)

    def _follow_clock(self, index: int, node: WatermarkNode) -> None:
        ended = self.now[node.follows[0]] == END
        self.of_nodes.advance(index, END if ended else self.clock)

    def _hold_back(self, index: int, node: WatermarkNode) -> None:
        floor = self._floor(node.owner)
        self.idle[index] = floor is None and self.idle[node.follows[0]]
        before = self.now[node.follows[0]]
        self.of_nodes.move(index, before if floor is None else min(before, floor))

    def _fire(self, index: int, node: WatermarkNode) -> None:
        watermark = self.now[node.follows[0]]
        passed = lagging(watermark, node.behind)
        self.idle[index] = self.idle[node.follows[0]]
        if passed > self.now[index]:
            self._advance(index, watermark)

    def _advance(self, index: int, watermark: int) -> None:
        """Let an operator fire up to a watermark, or go on with that."""
        node = self.nodes[index]
        self.fires[0] = node.owner
        # It may be called within the firing of another operator, which emits by time afterwards, too.
        before = self.by_time[0], self.at_end[0]
        self.by_time[0], self.at_end[0] = True, watermark == END
        self.paused[0] = not self._stateful[node.owner].advance(watermark)
        self.by_time[0], self.at_end[0] = before
        self.excludes[0] = self.paused[0] and node.owner not in self.admitting
        if self.paused[0]:
            self._rest = partial(self._advance, index, watermark)
        else:
            self.of_nodes.advance(index, lagging(watermark, node.behind))

    def _merge(self, index: int, node: WatermarkNode) -> None:
        if True in self.idle or END in map(self.now.__getitem__, node.follows):
            watermark, self.idle[index] = self.of_nodes.slowest(node)
        else:
            watermark = min(self.now[other] for other in node.follows)
        self.of_nodes.move(index, watermark)

    def restore(
        self,
        watermarks: Mapping[str, int],
        idle: Collection[str] = (),
        clock: int = START,
        met: Mapping[str, int] | None = None,
        reached: Mapping[str, int] | None = None,
    ) -> None:
        """Restore a commit: the watermarks of the streams, which of them were `idle`, the clock, and `reached`, the
        watermark of each operator that keeps state. An operator without one starts from the node in front of it. What
        is due between the two fires when time next moves.

        `met` is from an earlier version, which kept the watermarks of merges instead. Only those in front of state are
        used, since the ids of all other operators depend on the pipeline."""
        self.clock = self.clock_fired = clock
        self.of_nodes.restore(watermarks, idle, clock, met or {}, reached or {})
