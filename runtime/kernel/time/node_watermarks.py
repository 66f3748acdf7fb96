"""The watermarks of the nodes of a task: which one each has, whether it is idle, and how it may change.

An operator that keeps state has a watermark of its own, which is committed with the state. It is restored whatever the
watermarks of the inputs are. The two differ after a run without the operator, or with fewer inputs before it."""

from collections.abc import Collection, Mapping, Sequence

from .bounds import END, START
from .watermark_node import WatermarkNode, lagging, slowest


class NodeWatermarks:
    """`now[i]` is the watermark of node i, and `idle[i]` says that node i is idle. A watermark goes back only at a node
    that `returns`, as some do where the graph `returns`, and never from the end.

    `streams` has the node of each stream, `operators` that of each stateful operator, and `restored` the watermark from
    which each of these was restored. When to change which node is decided by `WatermarkGraph`.
    """

    def __init__(self, nodes: Sequence[WatermarkNode]) -> None:
        self.nodes = nodes
        self.now = [START] * len(nodes)
        self.idle = [False] * len(nodes)
        self.streams = {node.owner: index for index, node in enumerate(nodes) if node.kind == "stream"}
        self.operators = {node.owner: index for index, node in enumerate(nodes) if node.kind == "stateful"}
        self.returns = any(node.returns for node in nodes)
        self.restored: dict[str, int] = {}
        self._reported = [START] * len(nodes)
        self._left_out: set[int] = set()

    def stream(self, name: str) -> int:
        """The watermark of a stream, in ms since epoch. Raises KeyError for a stream that the task does not read."""
        return self.now[self.streams[name]]

    def stream_time(self, name: str) -> tuple[int, bool]:
        """The watermark of a stream, in ms since epoch, and whether it is idle."""
        return self.now[self.streams[name]], self.idle[self.streams[name]]

    def reported(self, index: int) -> int:
        """The watermark of a node that messages have given it: of a node that has ended, the watermark before the
        end. A later run that has more input starts from there."""
        return self.now[index] if self.now[index] != END else self._reported[index]

    def slowest(self, node: WatermarkNode) -> tuple[int, bool]:
        """The watermark behind the inputs of a node, and whether it is idle. An input that has ended holds time where
        it was until all have ended: a later run may bring more of it."""
        present = [other for other in node.follows if other not in self._left_out]
        if all(self.now[other] == END for other in present):
            return END, False
        return slowest((self.reported(other), self.idle[other]) for other in present)

    def advance(self, index: int, watermark: int) -> None:
        """Set the watermark of a node, unless it has a later one."""
        before = self.now[index]
        if watermark > before:
            if before != END:
                self._reported[index] = before
            self.now[index] = watermark

    def move(self, index: int, watermark: int) -> None:
        """Set the watermark of a node. An earlier one is set only if the node `returns`, and never after the end."""
        if self.nodes[index].returns and END not in (watermark, self.now[index]):
            self.now[index] = watermark
        else:
            self.advance(index, watermark)

    def firing(self, index: int, time: int) -> None:
        """An operator is about to fire what is due at `time`: everything before that time has passed it. At the end of
        input its watermark stays, for a window that only the end has closed makes no later message late."""
        if self.now[self.nodes[index].follows[0]] != END:
            self.advance(index, time - 1)

    def leave_out(self, name: str) -> None:
        """No node waits for this stream any more, nor for a node that follows such streams alone."""
        self._left_out.add(self.streams[name])
        for index, node in enumerate(self.nodes):
            if node.follows and self._left_out.issuperset(node.follows):
                self._left_out.add(index)

    def restore(
        self,
        watermarks: Mapping[str, int],
        idle: Collection[str],
        clock: int,
        met: Mapping[str, int],
        reached: Mapping[str, int],
    ) -> None:
        """Restore a commit: see `WatermarkGraph.restore`."""
        own = {owner: time for owner, time in met.items() if self._meets_before(owner)} | dict(reached)
        self.restored = own
        for name, index in self.streams.items():
            self.now[index] = watermarks.get(name, START)
            self.idle[index] = name in idle
        for index, node in enumerate(self.nodes):
            if node.kind == "clock":
                self.now[index] = clock
            elif node.kind != "stream":
                watermark, self.idle[index] = self.slowest(node)
                if node.kind == "merge" and not node.returns:
                    watermark = max(watermark, own.get(node.owner, START))
                elif node.kind == "stateful":
                    watermark = own.get(node.owner, watermark)
                self.now[index] = lagging(watermark, node.behind)

    def _meets_before(self, operator: str) -> bool:
        """Whether the node in front of an operator that keeps state is a merge."""
        index = self.operators.get(operator)
        return index is not None and self.nodes[self.nodes[index].follows[0]].kind == "merge"
