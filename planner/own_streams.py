"""Checks of the names of streams that a plan adds: no operator uses them, and they are valid names of topics."""

from ..dsl import operators as ops
from ..dsl.errors import PlanError
from ..dsl.operators.calls import limits_of
from ..dsl.origin import Origin
from ..dsl.pipeline import Pipeline
from ..dsl.validation import LONGEST_NAME, explain
from .journals import keeps_journal
from .stream_names import (
    changelog,
    checkpoints,
    coordinator,
    dead_letters,
    handled_letters,
    heartbeats,
    journal,
    limits,
)
from .validation import written_by


def check_own_streams(pipeline: Pipeline) -> None:
    """Refuse an operator that reads or writes a stream that the pipeline keeps for itself, and names that are too long
    for a topic, because they are made of the pipeline's and an id. It does not matter on which system it runs, for the
    same pipeline runs on all."""
    own = _own_streams(pipeline)
    for name, (what, origin) in own.items():
        _check_length(name, what, origin)
    for operator in pipeline.operators:
        if operator.reads is not None:
            _check_free(operator, "reads", operator.reads, own)
        for name in written_by(pipeline, operator):
            _check_length(name, operator.label, operator.origin)
            _check_free(operator, "writes", name, own)


def _own_streams(pipeline: Pipeline) -> dict[str, tuple[str, Origin]]:
    """What the pipeline keeps in each of its own streams, and the line that asks for it."""
    own = {
        checkpoints(pipeline.name): ("the pipeline's checkpoints", pipeline.origin),
        coordinator(pipeline.name): ("what the pipeline's containers agree on", pipeline.origin),
        heartbeats(pipeline.name): ("the heartbeats of the pipeline's containers", pipeline.origin),
    }
    if limits_of(pipeline.calls):
        own[limits(pipeline.name)] = "the limits of the pipeline's calls", pipeline.origin
    if pipeline.on_error.action == "dead_letter":
        own[dead_letters(pipeline.name)] = "the pipeline's dead letters", pipeline.origin
        own[handled_letters(pipeline.name)] = "which of the pipeline's dead letters are handled", pipeline.origin
    for operator in pipeline.operators:
        if operator.role == "both":
            own[changelog(pipeline.name, operator.id)] = f"the changelog of {operator.label}", operator.origin
        if keeps_journal(operator):
            own[journal(pipeline.name, operator.id)] = f"the journal of {operator.label}", operator.origin
    return own


def _check_free(operator: ops.Operator, does: str, name: str, own: dict[str, tuple[str, Origin]]) -> None:
    if name in own:
        what, origin = own[name]
        wrong = f"{operator.label} {does} the stream {name!r}, which is kept for {what}, at {origin}"
        # Who writes a border has not chosen the stream's name: it is made of the id.
        remedy = "choose another id" if operator.is_border else "choose another stream"
        raise PlanError(explain(wrong, "a stream of its own", remedy, operator.origin))


def _check_length(name: str, what: str, origin: Origin) -> None:
    if len(name) > LONGEST_NAME:
        wrong = f"{what}: the name of the stream would have {len(name)} characters"
        remedy = "choose a shorter id, or a shorter name for the pipeline"
        raise PlanError(explain(wrong, f"{LONGEST_NAME} at most, for it may name a topic", remedy, origin))
