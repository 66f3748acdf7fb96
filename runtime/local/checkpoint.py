"""Checkpoints: what a task writes down at a commit, to go on from there."""

from collections.abc import Mapping

from msgspec import DecodeError, Struct, json, structs

from ...dsl.checks import explain
from ...dsl.errors import SystemProblem
from ...dsl.operators import TableOf, table_id
from ...planner.state_schema import StateSchema
from ..kernel.program import Position
from ..kernel.times import START
from ..systems.contract import System

VERSION = 1

OPERATOR_FACTS = ("states", "changelogs", "lateness", "forgotten", "reached", "rung", "tables", "versions", "built")
"""What a checkpoint knows of each operator that keeps state: it goes where the state goes."""
STREAM_FACTS = ("offsets", "highs", "producers", "idle", "rested", "out_of_order", "identities")
"""What a checkpoint knows of each input."""


class Checkpoint(Struct, frozen=True, kw_only=True):
    """Where a task stands: for each input stream the offset before which every message has landed, how far event time
    and the clock had come (see `Position`), and, by operator, where the changelog of its state ended and what gives
    its state a meaning. `identities` are the ids of the input streams, where they have one: the offsets hold for these
    alone. Which producers have `ended` is known of one `run` alone. `atomic` says that the changelogs hold nothing
    beyond it: it was written with them in one transaction. `number` counts the commits of the task; it is 0 in
    checkpoints of versions that did not count. `tables` are the offsets before which each table has taken in the
    records of its stream, which may be read on without the table; None in checkpoints of versions that kept none."""

    version: int = VERSION
    offsets: dict[str, int] = {}
    highs: dict[str, int] = {}
    producers: dict[str, dict[int, int]] = {}
    changelogs: dict[str, int] = {}
    run: str = ""
    ended: dict[str, list[int]] = {}
    idle: dict[str, list[int]] = {}
    clock: int = START
    met: dict[str, int] = {}
    rested: dict[str, dict[int, int]] = {}
    lateness: dict[str, int] = {}
    out_of_order: dict[str, int] = {}
    forgotten: dict[str, int] = {}
    reached: dict[str, int] = {}
    rung: dict[str, int] = {}
    states: dict[str, StateSchema] = {}
    atomic: bool = False
    number: int = 0
    identities: dict[str, str] = {}
    tables: dict[str, int] | None = None
    versions: dict[str, int] = {}
    built: dict[str, int] = {}

    @property
    def blank(self) -> bool:
        """Whether nothing was ever committed: a checkpoint has the offsets of all inputs, unless they were reset, or
        state."""
        return not (self.offsets or self.states or self.changelogs)

    @property
    def position(self) -> Position:
        told = {stream: dict(told) for stream, told in self.producers.items()}
        rested = {stream: dict(found) for stream, found in self.rested.items()}
        return Position(
            highs=dict(self.highs),
            producers=told,
            ended=dict(self.ended),
            idle=dict(self.idle),
            clock=self.clock,
            met=dict(self.met),
            rested=rested,
            lateness=self.lateness,
            out_of_order=self.out_of_order,
            forgotten=self.forgotten,
            reached=self.reached,
            rung=self.rung,
            versions=self.versions,
            built=self.built,
        )

    def within(self, run: str) -> "Checkpoint":
        """The same, without what is known of another run."""
        return self if self.run == run else structs.replace(self, run="", ended={})


Checkpoints = Mapping[str, Checkpoint]
"""The checkpoints of a pipeline, by the names that tasks have or had."""


def checkpoints_in(system: System, pipeline: str) -> Checkpoints:
    """The last checkpoint of each task of a pipeline. Raises SystemProblem as `decode` does."""
    return {task: decode(data, task) for task, data in system.admin().checkpoints(pipeline).items()}


def is_ahead(one: Checkpoint, other: Checkpoint) -> bool:
    """Whether one checkpoint is later than another in any respect."""
    changelogs = any(end > other.changelogs.get(name, 0) for name, end in one.changelogs.items())
    return changelogs or any(offset > other.offsets.get(name, 0) for name, offset in one.offsets.items())


def encode(checkpoint: Checkpoint) -> bytes:
    """A checkpoint as JSON."""
    return json.encode(checkpoint)


def decode(data: bytes, task: str) -> Checkpoint:
    """Raises SystemProblem for a checkpoint of another version, or none at all."""
    try:
        found = json.decode(data, type=Checkpoint)
    except (DecodeError, UnicodeDecodeError) as error:
        wrong = f"the checkpoint of task {task} cannot be read: {error}"
        remedy = "remove what another program has written, or start over with fluvial reset --all"
        expected = "a checkpoint that a run of the pipeline wrote"
        raise SystemProblem(explain(wrong, expected, remedy, "the checkpoints of the pipeline")) from None
    if found.version != VERSION:
        wrong = f"the checkpoint of task {task} has version {found.version}"
        raise SystemProblem(f"{wrong}\n  expected: version {VERSION}\n  to do: run the version that wrote it")
    before = _tables_of_before(found) if found.tables is None else None
    return structs.replace(found, tables=before) if before else found


def _tables_of_before(found: Checkpoint) -> dict[str, int]:
    """How far the tables of a checkpoint that does not tell have come: their streams were read for them alone."""
    by_table = {table_id(stream): offset for stream, offset in found.offsets.items()}
    kept = (id for id, schema in found.states.items() if schema.kind == TableOf.kind)
    return {id: by_table[id] for id in kept if id in by_table}
