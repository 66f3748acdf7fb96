"""The program of a stage: compiled once in a process, and shared by the tasks that run it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

from ....dsl.adaptive import most_calls
from ....dsl.breaker import Breaker
from ....dsl.limit import Limit
from ....dsl.operators import AsyncCall
from ....dsl.pooled_function import PooledFunction
from ....dsl.remote_table import RemoteTable
from ....dsl.resource import Resource
from ....planner.flow import Flow
from ....planner.plan import Plan
from ...size_limit import SizeLimit
from ..calls.admission import Admission
from ..calls.circuit import Circuit
from ..calls.concurrency import Concurrency
from ..calls.door import Door, PoolDoor
from ..operators.remote_tables import RemoteTableClient, with_client
from .stage_graph import StageGraph

RemoteTableClients = dict[RemoteTable[Any, Any], RemoteTableClient]
"""The remote tables of a process."""

Clients = dict[Resource[Any] | Limit | Breaker, Any]
"""What the resources of a process have opened, which for a stage is done before its first task is made, and what its
limits and breakers have counted."""


def admission_of(clients: Clients, limit: Limit) -> Admission:
    """What lets calls begin within a limit in the process that has these clients."""
    admission: Admission | None = clients.get(limit)
    if admission is None:
        admission = clients[limit] = Admission(limit)
    return admission


def circuit_of(clients: Clients, breaker: Breaker) -> Circuit:
    """What leaves off the calls of a service that fails, in the process that has these clients."""
    circuit: Circuit | None = clients.get(breaker)
    if circuit is None:
        circuit = clients[breaker] = Circuit(breaker)
    return circuit


@dataclass(frozen=True, slots=True)
class Program:
    """A compiled stage. `takes_back` says that effects of a message on state may have to be taken back. `trailers` says
    that records of intermediate streams carry the watermark. `flows` has the types that each operator emits. `limits`
    are those of the records that an operator writes, by id, and of DEAD_LETTERS. The messages of the streams
    `without_offsets` are numbered anew in each batch."""

    plan: Plan
    stage: str
    graph: StageGraph
    code: CodeType
    flows: Mapping[str, Flow]
    trailers: bool
    takes_back: bool
    remotes: RemoteTableClients = field(default_factory=dict)
    limits: Mapping[str, SizeLimit] = field(default_factory=dict)
    clients: Clients = field(default_factory=dict)
    without_offsets: frozenset[str] = frozenset()

    def remote(self, table: RemoteTable[Any, Any]) -> RemoteTableClient:
        """The client of a remote table. Programs with the same `remotes` share it."""
        if table not in self.remotes:
            self.remotes[table] = RemoteTableClient(
                with_client(table, self.clients),
                None if table.limit is None else self.admission(table.limit),
                None if table.breaker is None else circuit_of(self.clients, table.breaker),
            )
        return self.remotes[table]

    def admission(self, limit: Limit) -> Admission:
        """What lets calls begin within a limit. Programs with the same `clients` share it."""
        return admission_of(self.clients, limit)

    def door(self, call: AsyncCall, pooled: PooledFunction[..., Any] | None = None) -> Door:
        """What lets the calls of a pool begin: one of them in each batch, if it makes batches. `pooled` is the plain
        function that they call, if there is one."""
        most = most_calls(call.max_in_flight, None if call.batch is None else call.batch.size)
        parts = (
            None if call.limit is None else self.admission(call.limit),
            None if call.breaker is None else circuit_of(self.clients, call.breaker),
            None if call.concurrency is None else Concurrency(call.concurrency, most),
        )
        return Door(*parts) if pooled is None else PoolDoor(pooled, *parts)

    def cancel_batches(self) -> None:
        """Give up what remote tables have begun for calls that have been cancelled, of all tasks in this process."""
        for remote in self.remotes.values():
            remote.cancel()

    @property
    def asynchronous(self) -> bool:
        """Whether the stage needs an event loop, and may have messages in flight between two calls of its code."""
        return bool(self.graph.tracked)

    @property
    def stateful(self) -> bool:
        """Whether an operator of the stage keeps state."""
        return any(operator.role == "both" for operator in self.graph.operators.values())

    @property
    def clocked(self) -> bool:
        """Whether a task must be given the processing time."""
        return self.may_idle or any(operator.follows_clock for operator in self.graph.operators.values())

    @property
    def may_idle(self) -> bool:
        """Whether a source of the stage may become idle."""
        sources = [stage_input.source for stage_input in self.graph.inputs.values()]
        return any(source is not None and source.idle_after is not None for source in sources)
