"""Having a pipeline read an input from its start again, or go on in a stream that was made anew."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from msgspec import structs

from ...dsl.errors import UnsupportedError, UsageError
from ...dsl.operators import table_id
from ...dsl.validation import explain
from ...planner.plan import Plan
from ..preflight.input_streams import inputs_of
from ..reset_step import ResetStep
from ..systems.contract import ProducingSystem, System
from .checkpoints.checkpoint import Checkpoint, checkpoints_in, write_checkpoints
from .coordination.exclusion import no_containers


@contextmanager
def input_steps(
    plan: Plan, system: System, streams: Sequence[str], *, keep_offsets: bool = False
) -> Iterator[list[ResetStep]]:
    """The steps that remove from checkpoints where streams were read to. With `keep_offsets` only which streams these
    were is removed: offsets hold for those that there are now. No container runs as long as the context lasts.

    Raises SystemProblem where a container is alive, UsageError for a stream that is no input, UnsupportedError on a
    system whose streams are never made anew.
    """
    if not isinstance(system, ProducingSystem):
        wrong = f"the place of a pipeline in a stream of {system.url} cannot be reset"
        raise UnsupportedError(
            explain(wrong, "kafka://HOST:PORT, where topics may be deleted and created again", "reset --all")
        )
    inputs = inputs_of(plan)
    for stream in streams:
        if stream not in inputs:
            wrong = f"pipeline {plan.name!r} does not read a stream {stream!r}"
            raise UsageError(explain(wrong, f"one of {', '.join(inputs)}", at=plan.pipeline.origin))
    with no_containers(plan.name, system):
        stored = checkpoints_in(system, plan.name)
        yield [
            ResetStep(
                "identity" if keep_offsets else "offset",
                f"of {stream} in {task}",
                partial(_forget, plan, system, task, stream, keep_offsets),
            )
            for task, checkpoint in stored.items()
            for stream in streams
            if stream in checkpoint.identities or (stream in checkpoint.offsets and not keep_offsets)
        ]


def _forget(plan: Plan, system: System, task: str, stream: str, keep_offsets: bool) -> None:
    checkpoint = checkpoints_in(system, plan.name)[task]
    write_checkpoints(system, plan.name, {task: _without(checkpoint, stream, keep_offsets)})


def _without(checkpoint: Checkpoint, stream: str, keep_offsets: bool) -> Checkpoint:
    identities = {name: id for name, id in checkpoint.identities.items() if name != stream}
    offsets = {name: at for name, at in checkpoint.offsets.items() if keep_offsets or name != stream}
    tables = {id: at for id, at in (checkpoint.tables or {}).items() if keep_offsets or id != table_id(stream)}
    return structs.replace(checkpoint, identities=identities, offsets=offsets, tables=tables)
