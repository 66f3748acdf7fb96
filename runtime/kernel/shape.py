"""The shape of a stage for its compiler: entries, who follows whom, what holds messages back, and lines of time."""

from dataclasses import dataclass, field
from typing import Literal

from ...dsl import operators as ops
from ...planner.plan import Plan
from ...planner.stages import border
from .timeline import Line, LineKind

Clock = Literal["source", "stamps", "given"]
"""How a stage learns the time of an input: from the messages' own timestamps, from stamps in their headers, or from the
engine alone."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An input of a stage: its stream, how it tells time, and the operators that read it. `source` is None for an
    intermediate stream, whose types are those of the operator `writer`."""

    stream: str
    clock: Clock
    source: ops.Source | None
    writer: str
    readers: tuple[str, ...]


@dataclass(slots=True)
class Shape:
    """A stage as its compiler sees it.

    `line_in[op]` is the line by which an operator's input is judged, `line_out[id]` the line behind a window or of an
    entry. `cells` holds the starting points (streams, windows) whose messages wait in cells: all or none.
    """

    plan: Plan
    operators: dict[str, ops.Operator]
    entries: dict[str, Entry]
    followers: dict[str, tuple[str, ...]]
    cells: frozenset[str]
    lines: list[Line] = field(default_factory=list)
    line_in: dict[str, int] = field(default_factory=dict)
    line_out: dict[str, int] = field(default_factory=dict)

    @property
    def exact(self) -> bool:
        """Whether every step of the watermark must be followed at once, not only those that fire a window."""
        behind_windows = any(self.lines[i].kind == "window" for line in self.lines for i in line.follows)
        late = any(isinstance(op, ops.WindowBy) and op.lateness for op in self.operators.values())
        return behind_windows or late or any(line.kind in ("held", "meeting") for line in self.lines)

    def parts(self, start: str) -> list[str]:
        """The operators that a message from `start` may pass before it meets a window or asynchronous work, those
        included."""
        found: dict[str, None] = {}
        rest = list(self.entries[start].readers if start in self.entries else self.followers[start])
        while rest:
            id = rest.pop()
            if id not in found:
                found[id] = None
                if not isinstance(self.operators[id], ops.WindowBy | ops.AsyncFlatMap | ops.PartitionBy):
                    rest.extend(self.followers[id])
        return list(found)


def shape(plan: Plan, stage_id: str, clocks: dict[str, Clock]) -> Shape:
    """Look at a stage of a plan; `clocks` says how each of its inputs tells time."""
    stage = plan.stage(stage_id)
    pipeline = plan.pipeline
    operators = {id: pipeline.operator(id) for id in stage.operators}
    entries: dict[str, Entry] = {}
    followers: dict[str, list[str]] = {id: [] for id in operators}
    readers: dict[str, list[str]] = {}
    for id, operator in operators.items():
        for source in operator.inputs:
            crossing = border(pipeline, source)
            (readers.setdefault(source, []) if crossing else followers[source]).append(id)
    for stream in stage.inputs:
        origin = next((op for op in operators.values() if isinstance(op, ops.Source) and op.stream == stream), None)
        writer = origin.id if origin else stream[len(pipeline.name) + 1 :]
        found = followers[origin.id] if origin else readers[writer]
        entries[stream] = Entry(stream, clocks[stream], origin, writer, tuple(found))
    made = Shape(plan, operators, entries, {id: tuple(found) for id, found in followers.items()}, frozenset())
    if any(isinstance(op, ops.AsyncFlatMap) for op in operators.values()):
        made.cells = frozenset([*entries, *(id for id, op in operators.items() if isinstance(op, ops.WindowBy))])
    _draw_lines(made)
    return made


def _draw_lines(shape: Shape) -> None:
    def add(kind: LineKind, follows: tuple[int, ...], owner: str) -> int:
        shape.lines.append(Line(kind, follows, owner))
        return len(shape.lines) - 1

    def out(id: str, line: int) -> int:
        return add("held", (line,), id) if id in shape.cells else line

    for stream in shape.entries:
        shape.line_out[stream] = add("stream", (), stream)
    held = {stream: out(stream, shape.line_out[stream]) for stream in shape.entries}
    by_writer = {entry.writer: held[stream] for stream, entry in shape.entries.items()}
    behind: dict[str, int] = dict(by_writer)
    for id, operator in shape.operators.items():
        # In the order they were written, so that inputs come first; a partition_by of this very stage is an entry.
        lines = sorted({behind[source] if source in behind else by_writer[source] for source in operator.inputs})
        if not lines:
            continue
        line = lines[0] if len(lines) == 1 else add("meeting", tuple(lines), id)
        shape.line_in[id] = line
        if isinstance(operator, ops.WindowBy):
            shape.line_out[id] = add("window", (line,), id)
            line = out(id, shape.line_out[id])
        if not isinstance(operator, ops.PartitionBy):
            behind[id] = line
