"""Moves the state of operators between stores, after a change of the pipeline has put them into other stages.

The log has for each operator the task whose store has its state. A move copies the state, and then one entry of the log
changes the checkpoints of both tasks. So after a crash exactly one of the two stores counts.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass

from msgspec import structs

from ....planner.plan import Plan
from ....planner.task_assignment import tasks_in
from ...kernel.state_backend import Change
from ...state.contract import TaskStore
from ..checkpoints import checkpoint as checkpoints
from ..checkpoints.checkpoint import Checkpoint, Checkpoints
from ..checkpoints.migration import holder_of, number_of, with_operator, without
from ..coordination.coordinator_stream import claimed
from .alignment import CommittedLog, align, finish_move
from .store_keys import META, MOVED, prefix_of

OpenStore = Callable[[str], TaskStore]
"""Opens the store of a task, by its name."""

PATIENCE_SECONDS = 600.0
"""How long a container waits while another one moves state."""
PIECE_BYTES = 4 << 20
"""The bytes of state that a move copies at a time."""


@dataclass(frozen=True, slots=True)
class Move:
    """A move of an operator's state from the store of one task to that of another."""

    operator: str
    source: str
    target: str


def move_states(log: CommittedLog, open_store: OpenStore) -> None:
    """Move the state of each operator to the store of the task that has the operator now.

    Containers do this one after another, before they open their own stores; the first one makes all moves. Raises
    SystemProblem if a store does not fit the log, or is open in another process.
    """
    if not _stale(log.plan, log.checkpoints()):
        return
    with claimed(log.system, log.plan.name, "moves", PATIENCE_SECONDS):
        for target in dict.fromkeys(move.target for move in moves(log.plan, log.checkpoints())):
            with ExitStack() as stack:
                _move_to(log, target, open_store, stack)
        log.producer.begin().commit(log.plan.name, _encoded(_stale(log.plan, log.checkpoints())))


def moves(plan: Plan, stored: Checkpoints) -> Iterator[Move]:
    """The moves that a plan needs, given the checkpoints of its pipeline."""
    for operator, target in _keeping_tasks(plan):
        holder = holder_of(operator, target, stored)
        if holder is not None and holder != target:
            yield Move(operator, holder, target)


def _keeping_tasks(plan: Plan) -> Iterator[tuple[str, str]]:
    """Each operator that keeps state, with each of its tasks."""
    for store in plan.stores:
        for task in tasks_in(plan.stage(store.stage)):
            yield store.operator, task.name


def _stale(plan: Plan, stored: Checkpoints) -> dict[str, Checkpoint]:
    """The checkpoints that have state which belongs to another task now, without that state."""
    stale = dict(stored)
    for operator, target in _keeping_tasks(plan):
        others = [name for name in stale if name != target and number_of(name) == number_of(target)]
        for name in others:
            if operator in stale[name].states:
                stale[name] = without(stale[name], [operator])
    return {name: one for name, one in stale.items() if one != stored[name]}


def _move_to(log: CommittedLog, target: str, open_store: OpenStore, stack: ExitStack) -> None:
    """Move the state of operators to the store of one task; `stack` closes the stores."""
    # All stores stay open until the log has the outcome, so that no task resumes from one of them meanwhile.
    stores = {target: stack.enter_context(closing(open_store(target)))}
    align(log, target, stores[target], ())
    # `align` may have completed a move that a crash interrupted.
    wanted = [move for move in moves(log.plan, log.checkpoints()) if move.target == target]
    for source in dict.fromkeys(move.source for move in wanted):
        stores[source] = stack.enter_context(closing(open_store(source)))
        align(log, source, stores[source], ())
    for move in wanted:
        _copy(stores[move.source], stores[target], prefix_of(move.operator))
    if wanted:
        _commit(log, target, stores[target], wanted)
    for move in wanted:
        stores[move.source].write([(prefix_of(move.operator), None, None)])


def _copy(source: TaskStore, target: TaskStore, prefix: bytes) -> None:
    """Copy the entries under a prefix in pieces, after removing those of an interrupted move."""
    target.write([(prefix, None, None)])
    piece: list[Change] = []
    size = 0
    for key, value in source.scan(prefix):
        piece.append((prefix, key, value))
        size += len(key) + len(value)
        if size >= PIECE_BYTES:
            target.write(piece)
            piece, size = [], 0
    target.write(piece)


def _commit(log: CommittedLog, target: str, store: TaskStore, wanted: Sequence[Move]) -> None:
    """Write both checkpoints to the log in one entry: from then on the state counts in the target's store only."""
    changed = dict(log.checkpoints())
    changed.setdefault(target, Checkpoint())
    for move in wanted:
        changed[target] = with_operator(changed[target], move.operator, changed[move.source])
        changed[move.source] = without(changed[move.source], [move.operator])
    now = changed[target] = structs.replace(changed[target], number=changed[target].number + 1)
    store.write([(META, MOVED, checkpoints.encode(now))])
    if log.producer.durable:
        store.sync()
    involved = (target, *(move.source for move in wanted))
    log.producer.begin().commit(log.plan.name, _encoded({name: changed[name] for name in involved}))
    finish_move(store, now)


def _encoded(changed: Mapping[str, Checkpoint]) -> dict[str, bytes]:
    return {name: checkpoints.encode(one) for name, one in changed.items()}
