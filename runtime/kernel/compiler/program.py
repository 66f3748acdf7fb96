"""A stage's program: compiled once in a process, and shared by the tasks that run it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

from ....dsl.remote_table import RemoteTable
from ....planner.flow import Flow
from ....planner.plan import Plan
from ....planner.type_inference import flows
from ..operators.remote_tables import Remote
from ..time.bounds import START
from .compiler import Compiler
from .stage_graph import Clock, Shape, shape

Remotes = dict[RemoteTable[Any, Any], Remote]
"""The remote tables of a process."""


@dataclass(frozen=True, slots=True)
class Program:
    """A compiled stage. `takes_back` says whether what a message has done to state may have to be taken back."""

    plan: Plan
    stage: str
    shape: Shape
    code: CodeType
    flows: Mapping[str, Flow]
    stamped: bool
    takes_back: bool
    remotes: Remotes = field(default_factory=dict)

    def remote(self, table: RemoteTable[Any, Any]) -> Remote:
        """A remote table as all stages share it that have these `remotes`."""
        return self.remotes.setdefault(table, Remote(table))

    @property
    def asynchronous(self) -> bool:
        """Whether it needs an event loop, and may have messages under way between two calls."""
        return bool(self.shape.cells)

    @property
    def stateful(self) -> bool:
        """Whether it keeps state."""
        return any(operator.role == "both" for operator in self.shape.operators.values())

    @property
    def clocked(self) -> bool:
        """Whether it must be told the processing time."""
        return self.may_idle or any(operator.follows_clock for operator in self.shape.operators.values())

    @property
    def may_idle(self) -> bool:
        """Whether it matters to time that nothing comes in some source."""
        sources = [entry.source for entry in self.shape.entries.values()]
        return any(source is not None and source.idle_after is not None for source in sources)


def compile_stage(
    plan: Plan, stage: str, clocks: Mapping[str, Clock], *, stamped: bool, remotes: Remotes | None = None
) -> Program:
    """Compile a stage. `clocks` says how each input tells time; `stamped` whether the records it writes to intermediate
    streams carry the watermark; `remotes` are shared with other stages."""
    seen = shape(plan, stage, dict(clocks))
    shared = {} if remotes is None else remotes
    compiler = Compiler(seen, stamped)
    code = compiler.compile()
    return Program(plan, stage, seen, code, flows(plan.pipeline), stamped, compiler.takes_back, shared)


@dataclass(slots=True)
class Position:
    """What a task remembers of its inputs besides offsets: the largest timestamp of each source, and each producer's
    watermark of each intermediate stream; in ms since epoch. `ended` are the producers of each that have told the end
    of this run, `idle` those to which nothing comes, or 0 for an idle source; `clock` is the processing time up to
    which all has fired. `rested` tells how far the time of those that are idle has gone on; their other watermarks are
    what their messages have told.

    `reached` is the watermark of each operator that keeps state, up to which all has fired there; of one that goes by
    the clock it is the clock's time. `met` is what versions before have kept in its place, by operator: how far time
    had come where inputs meet. `rung` is the time up to which clock timers have rung, by processor.

    `lateness` and `out_of_order` are those of windows, by operator, and of sources; in ms. `forgotten` tells of windows
    whose lateness has grown since: up to which end they were forgotten by then. `versions` counts the commits that have
    changed each table, and `built` tells of which versions of its tables, together, a joined one is made. What is
    known of an operator that the stage no longer has is carried along: it counts again if the operator comes back.

    Checkpoints and Spark's state keep the fields by name. A new field goes to the end, and has a default.
    """

    highs: dict[str, int] = field(default_factory=dict)
    producers: dict[str, dict[int, int]] = field(default_factory=dict)
    ended: dict[str, list[int]] = field(default_factory=dict)
    idle: dict[str, list[int]] = field(default_factory=dict)
    clock: int = START
    met: dict[str, int] = field(default_factory=dict)
    rested: dict[str, dict[int, int]] = field(default_factory=dict)
    lateness: dict[str, int] = field(default_factory=dict)
    out_of_order: dict[str, int] = field(default_factory=dict)
    forgotten: dict[str, int] = field(default_factory=dict)
    reached: dict[str, int] = field(default_factory=dict)
    rung: dict[str, int] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)
    built: dict[str, int] = field(default_factory=dict)


POSITION_BY_OPERATOR = ("lateness", "forgotten", "reached", "rung", "versions", "built")
"""The fields of a position that tell of operators which keep state: they go where the state goes."""
POSITION_BY_STREAM = ("highs", "producers", "idle", "rested", "out_of_order")
"""The fields of a position that tell of input streams."""
