"""Reset of an input: the next run reads it from its start, or continues at the same offsets in a topic that was created
again."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from msgspec import structs

from ...dsl.errors import UnsupportedError, UsageError
from ...dsl.operators import table_id
from ...dsl.validation import explain
from ...planner.plan import Plan
from ...planner.stream_names import growth_of
from ..preflight.input_streams import inputs_of
from ..reset_step import ResetStep
from ..systems.contract import ProducingSystem, System
from .checkpoints.checkpoint import Checkpoint, checkpoints_in, write_checkpoints
from .checkpoints.migration import read_before
from .coordination.exclusion import no_containers
from .journals.removal import ends_of_journals


@contextmanager
def input_steps(
    plan: Plan, system: System, streams: Sequence[str], *, keep_offsets: bool = False, dry_run: bool = False
) -> Iterator[list[ResetStep]]:
    """The steps that remove the offsets of streams from checkpoints. With `keep_offsets` they remove the ids of the
    streams only: the offsets then count for the streams of today. No container can run while the context is open.

    Raises SystemProblem if a container is alive, UsageError for a stream that is no input, UnsupportedError for a
    system on which streams have no ids.
    """
    if not isinstance(system, ProducingSystem):
        wrong = f"the offsets of a pipeline on {system.url} cannot be reset"
        raise UnsupportedError(
            explain(wrong, "kafka://HOST:PORT, where topics may be deleted and created again", "reset --all")
        )
    inputs = inputs_of(plan)
    for stream in streams:
        if stream not in inputs:
            wrong = f"pipeline {plan.name!r} does not read a stream {stream!r}"
            raise UsageError(explain(wrong, f"one of {', '.join(inputs)}", at=plan.pipeline.origin))
    with no_containers(plan.name, system, dry_run=dry_run):
        stored = checkpoints_in(system, plan.name)
        yield [
            ResetStep(
                "identity" if keep_offsets else "offset",
                f"of {stream} in {task}",
                partial(_forget, plan, system, task, stream, keep_offsets),
            )
            for task, checkpoint in stored.items()
            for stream in streams
            if stream in checkpoint.identities or (stream in read_before({task: checkpoint}) and not keep_offsets)
        ]


def _forget(plan: Plan, system: System, task: str, stream: str, keep_offsets: bool) -> None:
    checkpoint = checkpoints_in(system, plan.name)[task]
    checkpoint = structs.replace(checkpoint, journals=ends_of_journals(plan, system, task, checkpoint))
    write_checkpoints(system, plan.name, {task: _without(checkpoint, stream, keep_offsets)})


def _without(checkpoint: Checkpoint, stream: str, keep_offsets: bool) -> Checkpoint:
    identities = {name: id for name, id in checkpoint.identities.items() if name != stream}
    offsets = {name: at for name, at in checkpoint.offsets.items() if keep_offsets or growth_of(name)[0] != stream}
    holds = {name: hold for name, hold in checkpoint.holds.items() if keep_offsets or growth_of(name)[0] != stream}
    tables = {id: at for id, at in (checkpoint.tables or {}).items() if keep_offsets or id != table_id(stream)}
    return structs.replace(checkpoint, identities=identities, offsets=offsets, tables=tables, holds=holds)
