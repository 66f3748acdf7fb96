"""A stage's program: compiled once in a process, and shared by the tasks that run it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

from ....dsl.remote_table import RemoteTable
from ....planner.flow import Flow
from ....planner.plan import Plan
from ....planner.type_inference import flows
from ..operators.remote_tables import RemoteTableClient
from ..time.stage_input import TimeSource
from .compiler import Compiler
from .stage_graph import StageGraph, build_stage_graph

RemoteTableClients = dict[RemoteTable[Any, Any], RemoteTableClient]
"""The remote tables of a process."""


@dataclass(frozen=True, slots=True)
class Program:
    """A compiled stage. `takes_back` says whether what a message has done to state may have to be taken back."""

    plan: Plan
    stage: str
    graph: StageGraph
    code: CodeType
    flows: Mapping[str, Flow]
    trailers: bool
    takes_back: bool
    remotes: RemoteTableClients = field(default_factory=dict)

    def remote(self, table: RemoteTable[Any, Any]) -> RemoteTableClient:
        """A remote table as all stages share it that have these `remotes`."""
        return self.remotes.setdefault(table, RemoteTableClient(table))

    @property
    def asynchronous(self) -> bool:
        """Whether it needs an event loop, and may have messages in flight between two calls."""
        return bool(self.graph.tracked)

    @property
    def stateful(self) -> bool:
        """Whether it keeps state."""
        return any(operator.role == "both" for operator in self.graph.operators.values())

    @property
    def clocked(self) -> bool:
        """Whether a task must be given the processing time."""
        return self.may_idle or any(operator.follows_clock for operator in self.graph.operators.values())

    @property
    def may_idle(self) -> bool:
        """Whether a source of the stage may become idle."""
        sources = [entry.source for entry in self.graph.inputs.values()]
        return any(source is not None and source.idle_after is not None for source in sources)


def compile_stage(
    plan: Plan,
    stage: str,
    clocks: Mapping[str, TimeSource],
    *,
    trailers: bool,
    remotes: RemoteTableClients | None = None,
) -> Program:
    """Compile a stage. `clocks` says how each input tells time; `trailers` whether the records it writes to
    intermediate streams carry the watermark; `remotes` are shared with other stages."""
    graph = build_stage_graph(plan, stage, dict(clocks))
    shared = {} if remotes is None else remotes
    compiler = Compiler(graph, trailers)
    code = compiler.compile()
    return Program(plan, stage, graph, code, flows(plan.pipeline), trailers, compiler.takes_back, shared)
