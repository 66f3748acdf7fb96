"""Resets a pipeline on Spark: removes the state of some operators, or all checkpoints of its queries."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from ...dsl.errors import UnsupportedError, UsageError
from ...dsl.validation import explain
from ...planner.plan import Plan
from ...planner.settings import Settings
from ..preflight.state_compatibility import reset_command
from ..reset_step import ResetStep
from ..state.checkpoint_path import CheckpointPath
from ..systems.contract import System
from .engine import connect, folder_of
from .hadoop_path import HadoopPath
from .query.checkpoint_record import QueryCheckpoint, QueryRecord, follows_a_stream, query_checkpoints
from .query.checkpoint_removal import removals
from .query.session import session_for


@contextmanager
def reset_steps(
    plan: Plan, system: System, settings: Settings, operators: Sequence[str] | None
) -> Iterator[list[ResetStep]]:
    """The steps that remove the state of these operators, or all checkpoints if `operators` is None. Within this
    context the pipeline cannot run on Spark.

    Raises SystemProblem if the pipeline runs, UsageError for an operator without state, UnsupportedError for a table
    whose rows come from a stream.
    """
    connection = connect(plan, system)
    folder = folder_of(plan, system, settings)
    with connection.claim(plan.name, folder), _opened(folder) as root:
        if operators is None:
            yield list(removals(plan, connection, root / plan.name))
        else:
            checkpoints = query_checkpoints(root / plan.name)
            yield _state_steps(plan, checkpoints, operators, reset_command(plan, system, settings, "spark"))


@contextmanager
def _opened(folder: Path | str) -> Iterator[CheckpointPath]:
    """The folder of the queries. One on another file system needs a Spark."""
    if not isinstance(folder, str):
        yield folder
        return
    with session_for(None) as session:
        yield HadoopPath.of(session, folder)


def _state_steps(
    plan: Plan, checkpoints: Sequence[QueryCheckpoint], operators: Sequence[str], reset: str
) -> list[ResetStep]:
    steps = []
    for query in checkpoints:
        states = {} if query.record is None else query.record.states
        mine = [operator for operator in operators if operator in states]
        if mine:
            name = f"{', '.join(mine)} in {query.folder}"
            steps.append(ResetStep("state", name, partial(_remove, query, mine)))
    records = [query.record for query in checkpoints if query.record is not None]
    known = sorted({operator for record in records for operator in record.states})
    for operator in operators:
        if operator not in known:
            wrong = f"no state of {operator!r} is stored on Spark by pipeline {plan.name!r}"
            raise UsageError(explain(wrong, f"one of {', '.join(known) or 'none'}", at=plan.pipeline.origin))
    _refuse_tables(plan, records, operators, reset)
    return steps


def _refuse_tables(plan: Plan, records: Sequence[QueryRecord], operators: Sequence[str], reset: str) -> None:
    """Refuse to empty a table whose rows come from a stream: the query has read the stream, and does not read it
    again."""
    for operator in operators:
        if any(operator in record.states and follows_a_stream(record, operator) for record in records):
            wrong = f"the rows of table {operator!r} cannot be removed alone: Spark would not read its stream again"
            remedy = f"start over with {reset} --all"
            raise UnsupportedError(explain(wrong, "an operator that reads no stream", remedy, plan.pipeline.origin))


def _remove(query: QueryCheckpoint, operators: Sequence[str]) -> None:
    """Record that the state of operators is to be removed. Each bucket removes its own in its next batch."""
    record = query.record
    assert record is not None
    resets = {**record.resets, **{operator: record.resets.get(operator, 0) + 1 for operator in operators}}
    states = {name: schema for name, schema in record.states.items() if name not in operators}
    query.save(replace(record, states=states, resets=resets))
