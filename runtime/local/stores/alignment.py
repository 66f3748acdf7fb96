"""Brings a store and its log to the same commit before a task resumes from them (ADR 0028).

The log is authoritative: it has the checkpoint of each task, with the operators whose state is in the task's store. The
store has the checkpoint of the last commit that was written to it, and the token that publishes that commit.
"""

from collections.abc import Collection
from dataclasses import dataclass

from ....dsl.errors import SystemProblem
from ....planner.plan import Plan
from ...state.contract import TaskStore
from ...state.read_only import StoreView
from ...systems.contract import Publisher, PublishingSystem
from ..checkpoints import checkpoint as checkpoints
from ..checkpoints.checkpoint import Checkpoint, Checkpoints, checkpoints_in
from . import errors as store_problems
from .store_keys import CHECKPOINT, IDENTITY, META, MOVED, PENDING, prefix_of


@dataclass(frozen=True, slots=True)
class CommittedLog:
    """A pipeline in a log: its checkpoints, the producer that publishes, and the command that resets the pipeline."""

    plan: Plan
    system: PublishingSystem
    producer: Publisher
    reset: str

    def checkpoints(self) -> Checkpoints:
        """The last checkpoint of each task, by name."""
        return checkpoints_in(self.system, self.plan.name)

    def checkpoint(self, task: str) -> Checkpoint | None:
        """The last checkpoint of one task, or None. Checkpoints of other tasks are not decoded."""
        data = self.system.admin().checkpoints(self.plan.name).get(task)
        return None if data is None else checkpoints.decode(data, task)


def align(log: CommittedLog, task: str, store: TaskStore, operators: Collection[str]) -> None:
    """Bring a task's store and its log to the same commit; `operators` are those whose state belongs in the store.

    After a crash the last commit may be in the store only: then it is published. State that the log's checkpoint does
    not have is removed from the store.

    Raises SystemProblem if the store lacks a commit of the log, or the log lacks one of the store.
    """
    committed = log.checkpoint(task)
    # First, since it decides which checkpoint the store has.
    finish_move(store, committed)
    own = stored_checkpoint(store, task)
    if own is None:
        _check_gone(log, task, () if committed is None else committed.states)
        store.clear()
        store.write([(META, IDENTITY, log.producer.identity.encode())])
        return
    # Before anything is published or removed: a store of another log has the right to neither.
    if not _belongs_to(log, store):
        raise store_problems.foreign(log.plan, log.reset, log.system.url, task)
    if committed is not None and not committed.states and (own.states or own.number):
        store.clear()  # its operators were reset, or moved to other stores
    else:
        committed = _compared(log, task, own, publish_pending(log, task, store))
        _check_gone(log, task, committed.states.keys() - own.states.keys())
        _remove(store, {*operators, *own.states} - committed.states.keys() if committed.states else ())
    # Also where it was there: a store of an earlier version has none, and is known to be of this log from here on.
    store.write([(META, IDENTITY, log.producer.identity.encode())])


def stored_checkpoint(store: TaskStore | StoreView, task: str) -> Checkpoint | None:
    """The checkpoint of the last commit that was written to a store, or None."""
    data = store.get(META, CHECKPOINT)
    return None if data is None else checkpoints.decode(data, task)


def finish_move(store: TaskStore, committed: Checkpoint | None) -> None:
    """Make state that was moved to the store its own if the log has the checkpoint of the move; else discard the
    move."""
    data = store.get(META, MOVED)
    if data is not None:
        done = committed is not None and data == checkpoints.encode(committed)
        store.write([*([(META, CHECKPOINT, data)] if done else []), (META, MOVED, None)])


def publish_pending(log: CommittedLog, task: str, store: TaskStore) -> Checkpoint | None:
    """Publish the last commit of a store if the log lacks exactly that one. Returns the log's checkpoint afterwards."""
    own, token = stored_checkpoint(store, task), store.get(META, PENDING)
    committed = log.checkpoint(task)
    number = 0 if committed is None else committed.number
    if own is None or token is None or own.number != number + 1 or not _belongs_to(log, store):
        return committed
    try:
        log.producer.publish(token)
    except SystemProblem as problem:
        raise store_problems.ahead(log.plan, log.reset, log.system.url, task, own, committed, problem) from problem
    return log.checkpoint(task)


def _belongs_to(log: CommittedLog, store: TaskStore) -> bool:
    """Whether a store was written with this log. A store without the identity of a log counts as written with it."""
    return store.get(META, IDENTITY) in (None, log.producer.identity.encode())


def _compared(log: CommittedLog, task: str, own: Checkpoint, committed: Checkpoint | None) -> Checkpoint:
    """Return the checkpoint of the log. Raises SystemProblem unless the store is at the same commit. Commits without a
    number are compared by their offsets."""
    if committed is None:
        raise store_problems.unknown(log.plan, log.reset, log.system.url, task)
    if own.number < committed.number or checkpoints.is_ahead(committed, own):
        raise store_problems.behind(log.plan, log.reset, log.system.url, task, own, committed)
    if own.number > committed.number or checkpoints.is_ahead(own, committed):
        raise store_problems.ahead(log.plan, log.reset, log.system.url, task, own, committed)
    return committed


def _remove(store: TaskStore, operators: Collection[str]) -> None:
    store.write([(prefix_of(operator), None, None) for operator in sorted(operators)])


def _check_gone(log: CommittedLog, task: str, operators: Collection[str]) -> None:
    if operators:
        raise store_problems.gone(log.plan, log.reset, task, operators)
