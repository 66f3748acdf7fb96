"""How far event time has come at each place of a stage.

Each place has a line: the watermark up to which everything has passed it. A stream's line is told by its messages;
behind a window it has come as far as the window has fired; behind asynchronous work, as far as the oldest message under
way; where several meet, as far as the slowest of those that are not idle. What goes by processing time has a line that
the clock tells.

The time of an idle stream goes on with the clock. When messages come again, the line has the watermark that they give
it: it goes back. So do the lines that follow it, but not those in front of state: what has fired stays fired.

An operator that keeps state has a watermark of its own, which is kept with the state. It is restored whatever the
inputs' watermarks are: these differ from it after a run without the operator, or with fewer inputs before it.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from .bounds import END, START

NodeKind = Literal["stream", "clock", "in-flight", "stateful", "merge"]


@dataclass(frozen=True, slots=True)
class WatermarkNode:
    """One line of a stage's plan: what kind, the lines it follows, the operator or stream it belongs to, and how far it
    stays behind, in ms. `returns` says that it goes back when something before it is idle no longer."""

    kind: NodeKind
    follows: tuple[int, ...]
    owner: str
    behind: int = 0
    returns: bool = False


class Advances(Protocol):
    """What a stateful operator is to the timeline."""

    def advance(self, watermark: int) -> None: ...

    def next_due(self) -> int: ...


def slowest(reported: Iterable[tuple[int, bool]]) -> tuple[int, bool]:
    """Where several meet, given the watermark of each and whether it is idle: the watermark there, and whether that is
    idle. Idle ones hold nobody back; where there are no others, time is where the furthest of them is.

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


class WatermarkGraph:
    """The lines of one task. `now[i]` is the watermark of line i; `next_fire[0]` the one at which a window is next due.

    `reported[i]` is the same without ends of input: what a later run, with more input, goes on from. `idle[i]` says
    that nothing comes there for now, `clock` is the processing time.

    `exact` lines follow at once. For others it is enough that they do when a window has work, or else before somebody
    looks: `catch_up`.
    """

    def __init__(
        self, nodes: Sequence[WatermarkNode], floor: Callable[[str], int | None], *, exact: bool = True
    ) -> None:
        self.nodes = nodes
        self._exact = exact
        self._behind = False
        self.now = [START] * len(nodes)
        self.next_fire = [END]
        self.idle = [False] * len(nodes)
        self.clock = START
        self._reported = [START] * len(nodes)
        self._floor = floor
        self._following = self._again = False
        self._stateful: dict[str, Advances] = {}
        self._restored: dict[str, int] = {}
        self._streams = {node.owner: index for index, node in enumerate(nodes) if node.kind == "stream"}
        self._operators = {node.owner: index for index, node in enumerate(nodes) if node.kind == "stateful"}
        self._rings: list[Callable[[int], None]] = []
        self._dues: list[Callable[[], int]] = []
        self.clocked = any(node.kind == "clock" for node in nodes)
        self.returns = any(node.returns for node in nodes)
        moves: dict[NodeKind, Callable[[int, WatermarkNode], None]] = {
            "clock": self._follow_clock,
            "in-flight": self._hold_back,
            "stateful": self._fire,
            "merge": self._merge,
        }
        self._steps = [(moves[node.kind], index, node) for index, node in enumerate(nodes) if node.kind != "stream"]

    def attach(self, id: str, operator: Advances) -> None:
        self._stateful[id] = operator
        self.schedule(operator.next_due())

    def attach_clock(self, due: Callable[[], int], fire: Callable[[int], None] | None = None) -> None:
        """Call `fire` with the time whenever the clock moves; `due` tells at which time there is something to do."""
        self.clocked = True
        self._dues.append(due)
        if fire is not None:
            self._rings.append(fire)

    def next_clock_due(self) -> int:
        """The time of the clock at which there is next something to do, if no message comes; END if there is none."""
        return min((due() for due in self._dues), default=END)

    def schedule(self, time: int) -> None:
        """A window will have work at this watermark."""
        self.next_fire[0] = min(self.next_fire[0], time)

    def stream(self, name: str) -> int:
        """The watermark of a stream."""
        return self.now[self._streams[name]]

    def set_stream(self, name: str, watermark: int, *, idle: bool | None = None) -> None:
        """A stream's watermark is this, and it is idle or no longer so; let everything behind it follow. It goes back
        only where something is idle no longer."""
        index = self._streams[name]
        before, changed = self.now[index], idle is not None and idle != self.idle[index]
        back = watermark < before and before != END and self.nodes[index].returns
        if idle is not None:
            self.idle[index] = idle
        if watermark > before or changed or back:
            if watermark == END or back:  # what was told before is to be known
                self.catch_up()
            self._move(index, watermark)
            if changed or back or watermark >= self.next_fire[0]:
                self._follow()
            else:
                self.follow()

    def set_streams(self, reported: Mapping[str, tuple[int, bool]]) -> None:
        """The same of several streams at once, given as watermark and whether it is idle. Time follows once all are
        known: one that is idle no longer holds it back before another lets it leap."""
        self.catch_up()
        for name, (watermark, idle) in reported.items():
            index = self._streams[name]
            before = self.now[index]
            self.idle[index] = idle
            if watermark > before or (before != END and self.nodes[index].returns):
                self._move(index, watermark)
        self._follow()

    def is_idle(self, name: str) -> bool:
        """Whether nothing comes in a stream for now."""
        return self.idle[self._streams[name]]

    def time_at(self, index: int) -> int:
        """The processing time at a line that the clock tells: it may not have followed yet, where a window before it
        fires; END once it has ended."""
        return END if self.now[index] == END else self.clock

    def set_clock(self, now: int) -> None:
        """It is now this time, in ms since epoch; what goes by the clock follows."""
        if now > self.clock:
            self.clock = now
            if self.clocked:
                self._follow()
            for fire in self._rings:
                fire(now)

    def _last(self, index: int) -> int:
        """The watermark of a line, or if it has ended the one before."""
        return self.now[index] if self.now[index] != END else self._reported[index]

    @property
    def reported(self) -> list[int]:
        return [self._last(index) for index in range(len(self.nodes))]

    def set_now(self, index: int, watermark: int) -> None:
        before = self.now[index]
        if watermark > before:
            if before != END:
                self._reported[index] = before
            self.now[index] = watermark

    def _move(self, index: int, watermark: int) -> None:
        """Set a line's watermark, which may be an earlier one if the line goes back; ends stay."""
        if self.nodes[index].returns and END not in (watermark, self.now[index]):
            self.now[index] = watermark
        else:
            self.set_now(index, watermark)

    def firing(self, index: int, time: int) -> None:
        """A window is about to fire what was due at `time`: everything before has passed it. At the end of input time
        stands still, for later messages are not late by windows that the end alone has closed."""
        if self.now[self.nodes[index].follows[0]] != END:
            self.set_now(index, time - 1)

    def follow(self) -> None:
        """Let every line come as far as those before it allow, firing windows on the way; where nobody waits for that,
        once somebody looks."""
        if self._exact:
            self._follow()
        else:
            self._behind = True

    def catch_up(self) -> None:
        """Let lines follow that have waited for somebody to look."""
        if self._behind:
            self._follow()

    def resume(self) -> None:
        """Let every line follow what was restored, and fire what is due by that, and by the clock."""
        self._follow()
        for fire in self._rings:
            fire(self.clock)

    def _follow(self) -> None:
        self._behind = False
        self._again = True
        if self._following:  # what a firing set off will be followed once the firing is over
            return
        self._following = True
        try:
            while self._again:
                self._again = False
                for move, index, node in self._steps:
                    move(index, node)
        finally:
            self._following = False
        self.next_fire[0] = min([operator.next_due() for operator in self._stateful.values()], default=END)

    def _follow_clock(self, index: int, node: WatermarkNode) -> None:
        ended = self.now[node.follows[0]] == END
        self.set_now(index, END if ended else self.clock)

    def _hold_back(self, index: int, node: WatermarkNode) -> None:
        floor = self._floor(node.owner)
        self.idle[index] = floor is None and self.idle[node.follows[0]]
        before = self.now[node.follows[0]]
        self._move(index, before if floor is None else min(before, floor))

    def _fire(self, index: int, node: WatermarkNode) -> None:
        watermark = self.now[node.follows[0]]
        passed = _back(watermark, node.behind)
        self.idle[index] = self.idle[node.follows[0]]
        if passed > self.now[index]:
            self._stateful[node.owner].advance(watermark)
            self.set_now(index, passed)

    def _merge(self, index: int, node: WatermarkNode) -> None:
        if True in self.idle:
            watermark, self.idle[index] = self._slowest(node)
        else:
            watermark = min(self.now[other] for other in node.follows)
        self._move(index, watermark)

    def _slowest(self, node: WatermarkNode) -> tuple[int, bool]:
        return slowest((self.now[other], self.idle[other]) for other in node.follows)

    def reached(self) -> dict[str, int]:
        """The watermark of each operator that keeps state: what was due by then has fired. Where its input has ended, a
        later run that has more goes on from what messages had told."""
        self.catch_up()
        return {id: self._kept_of(id, index) for id, index in self._operators.items()}

    def reached_by(self, operator: str) -> int:
        """The watermark of one operator, START if it keeps no state."""
        index = self._operators.get(operator)
        return START if index is None else self._passed_by(index)

    def _kept_of(self, operator: str, index: int) -> int:
        if self.now[index] != END or self.returns:
            return self._passed_by(index)
        return max(self._restored.get(operator, START), self._reported_at(self.nodes[index].follows[0]))

    def _reported_at(self, index: int) -> int:
        """How far a line would have come if no input had ended before another."""
        node = self.nodes[index]
        if node.kind == "stream":
            return self._last(index)
        if node.kind == "clock":
            return self.clock
        return _back(min(self._reported_at(other) for other in node.follows), node.behind)

    def _passed_by(self, index: int) -> int:
        return _back(self._last(index), -self.nodes[index].behind)

    def restore(
        self,
        watermarks: Mapping[str, int],
        idle: Collection[str] = (),
        clock: int = START,
        met: Mapping[str, int] | None = None,
        reached: Mapping[str, int] | None = None,
    ) -> None:
        """Set the streams' watermarks of the last commit, which were `idle`, the clock, and the watermark of each
        operator that keeps state. An operator that has none begins with the one in front of it. What lies between the
        two is due: the next move of time lets it fire. `met` is from a version that kept how far time was where lines
        meet instead: it counts in front of state alone, for all other operators are numbered anew in each pipeline."""
        own = {owner: time for owner, time in (met or {}).items() if self._meets_before(owner)} | dict(reached or {})
        self._restored = own
        self.clock = clock
        for name, index in self._streams.items():
            self.now[index] = watermarks.get(name, START)
            self.idle[index] = name in idle
        for index, node in enumerate(self.nodes):
            if node.kind == "clock":
                self.now[index] = clock
            elif node.kind != "stream":
                watermark, self.idle[index] = self._slowest(node)
                if node.kind == "merge" and not node.returns:
                    watermark = max(watermark, own.get(node.owner, START))
                elif node.kind == "stateful":
                    watermark = own.get(node.owner, watermark)
                self.now[index] = _back(watermark, node.behind)

    def _meets_before(self, operator: str) -> bool:
        """Whether several lines meet in front of an operator that keeps state."""
        index = self._operators.get(operator)
        return index is not None and self.nodes[self.nodes[index].follows[0]].kind == "merge"


def _back(watermark: int, behind: int) -> int:
    return watermark if watermark in (START, END) else watermark - behind
