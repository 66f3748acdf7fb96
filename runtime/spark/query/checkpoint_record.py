"""Which checkpoint a query goes on with, and whether it may: a record beside Spark's checkpoint says what it is of."""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ....dsl.errors import PlanError, SystemProblem
from ....dsl.operators import TableOf
from ....dsl.validation import explain
from ....planner.plan import Plan, PlannedStage
from ....planner.settings import Settings
from ....planner.state_schema import PARTITIONS, StateSchema, carried
from ...data_files import check_owner, make_folder, write_file
from ...preflight.state_compatibility import refuse_changed
from ...state.pipeline_folder import holds_query, removing_queries
from ...systems.log.disk import explained, sync_directory
from ..lowering.levels import Levels
from .atomic_file import write
from .checkpoint_log import PLANNED, batch_numbers

VERSION = 1
FILE = "query"
_REMOVED = ".removed-"


class QueryRecord(Struct, frozen=True, kw_only=True):
    """What a query's checkpoint is of: `facts` by name that Spark cannot change as long as it is kept, and the records
    of its operators' state. `resets` counts how often the state of an operator was removed."""

    version: int = VERSION
    sources: dict[str, int]
    stages: dict[str, int]
    buckets: int
    states: dict[str, StateSchema] = {}
    resets: dict[str, int] = {}


@dataclass(frozen=True, slots=True)
class QueryCheckpoint:
    """The folder of a query's checkpoint, with its record; None where the folder is older than records are."""

    folder: Path
    record: QueryRecord | None

    @property
    def checkpoint(self) -> Path:
        """Spark's own folder."""
        return self.folder / "spark"

    @property
    def begun(self) -> bool:
        """Whether there was a batch, without which nothing is kept."""
        return bool(batch_numbers(self.checkpoint, PLANNED))

    def save(self, record: QueryRecord) -> None:
        write(self.folder / FILE, msgspec.json.encode(record))


def query_checkpoints(root: Path) -> list[QueryCheckpoint]:
    """The checkpoints of a pipeline whose folder is `root`, but for those that a reset is to remove; raises
    SystemProblem for a record of a later version."""
    if removing_queries(root).exists():
        return []
    return [QueryCheckpoint(folder, _record(folder / FILE)) for folder in sorted(root.glob("*/*")) if _is_query(folder)]


def _is_query(folder: Path) -> bool:
    return _REMOVED not in folder.name and holds_query(folder)


def set_aside(folder: Path) -> Path:
    """Give the folder of a query a name under which no run finds it, at one stroke: it is to be removed, and a query
    that began with the half of it would lose messages. Returns where it is."""
    if _REMOVED in folder.name:
        return folder
    aside = folder.with_name(f"{folder.name}{_REMOVED}{uuid4().hex}")
    with explained("rename", folder):
        folder.rename(aside)
    sync_directory(folder.parent)
    return aside


def begin_removal(root: Path) -> None:
    """Let no run find the queries of a pipeline whose folder is `root`, at one stroke: they are to be removed."""
    write_file(removing_queries(root), b"")
    sync_directory(root)


def end_removal(root: Path) -> None:
    """Let runs find queries in the folder of a pipeline again: of those that were set aside none is left."""
    if removing_queries(root).exists():
        removing_queries(root).unlink()
        sync_directory(root)  # else a crash might bring it back, and the next run would remove what this one began


def folders_set_aside(root: Path) -> list[Path]:
    """Folders of queries that were set aside and not removed: whoever was to do that was ended before."""
    if removing_queries(root).exists():
        return [folder for folder in sorted(root.glob("*/*")) if _REMOVED in folder.name or holds_query(folder)]
    return sorted(root.glob(f"*/*{_REMOVED}*"))


def _record(file: Path) -> QueryRecord | None:
    if not file.exists():
        return None
    try:
        found = msgspec.json.decode(file.read_bytes(), type=QueryRecord)
    except msgspec.DecodeError as error:
        raise SystemProblem(f"{file} cannot be read: {error}") from None
    if found.version != VERSION:
        wrong = f"{file} has version {found.version}"
        raise SystemProblem(f"{wrong}\n  expected: version {VERSION}\n  to do: run the version that wrote it")
    return found


def wanted_record(plan: Plan, stages: Sequence[PlannedStage], levels: Levels, settings: Settings) -> QueryRecord:
    """The record of the query that some stages become."""
    ids = {stage.id for stage in stages}
    names = [name for stage in stages for name in stage.inputs]
    return QueryRecord(
        sources={name: plan.stream(name).partitions for name in names if plan.stream(name).kind == "source"},
        stages={stage.id: levels.of_stage[stage.id] for stage in stages},
        buckets=settings.spark_buckets,
        states={store.operator: store.schema for store in plan.stores if store.stage in ids},
    )


def find_checkpoint(plan: Plan, wanted: QueryRecord, fingerprint: str, root: Path, reset: str) -> QueryCheckpoint:
    """The checkpoint that a query goes on with, which is made if need be; its record is up to date.

    Raises PlanError where what is kept is of a query that Spark cannot go on with as this one, and where the state of
    an operator has another meaning. `reset` is the command that removes what is kept.
    """
    check_owner(root)
    found = _kept_of(wanted, root)
    kept = _begun(plan, wanted, found, reset) or next((one for one in found if one.record == wanted), None)
    for other in found:
        if other is not kept:  # nothing is kept in it, and it may be of other sources
            shutil.rmtree(set_aside(other.folder))
    if kept is None:
        kept = QueryCheckpoint(root / next(iter(wanted.stages)) / fingerprint, None)
        _check_older(plan, kept.folder, reset)
        make_folder(kept.folder)
    record = kept.record
    if record is not None:
        wanted = replace(wanted, states=carried(record.states, wanted.states), resets=record.resets)
    if record != wanted:
        kept.save(wanted)
    return QueryCheckpoint(kept.folder, wanted)


def check_checkpoint(plan: Plan, wanted: QueryRecord, root: Path, reset: str) -> None:
    """Raise PlanError where `find_checkpoint` would, as far as records tell; nothing is made.

    The number of buckets is not compared: that of the runs is known to them alone.
    """
    found = _kept_of(wanted, root)
    buckets = next((kept.record.buckets for kept in found if kept.record is not None and kept.begun), wanted.buckets)
    _begun(plan, replace(wanted, buckets=buckets), found, reset)


def _kept_of(wanted: QueryRecord, root: Path) -> list[QueryCheckpoint]:
    """The checkpoints of queries that read one of the same sources, or kept the state of one of the same operators."""
    return [
        kept
        for kept in query_checkpoints(root)
        if (found := kept.record) is not None
        and (found.sources.keys() & wanted.sources or found.states.keys() & wanted.states)
    ]


def _begun(plan: Plan, wanted: QueryRecord, found: Sequence[QueryCheckpoint], reset: str) -> QueryCheckpoint | None:
    """The one of some checkpoints that has had a batch, if any has; raises PlanError where Spark cannot go on with
    it, or there are several: each has a state of its own, and a query goes on with one."""
    begun = [kept for kept in found if kept.begun]
    for kept in begun:
        assert kept.record is not None
        _refuse_changed(plan, kept.record, wanted, kept.folder, reset)
    if len(begun) > 1:
        raise _changed(plan, begun[0].folder, f"another query of the same is kept in {begun[1].folder}", reset)
    return begun[0] if begun else None


def _check_older(plan: Plan, folder: Path, reset: str) -> None:
    """Refuse to begin beside a checkpoint without a record, of the same stage: it is of another query."""
    others = [path for path in folder.parent.glob("*") if path.name != folder.name and _is_query(path)]
    if others and not folder.exists():
        wrong = "it is of other sources, stateful operators, key types or partition counts"
        raise _changed(plan, folder.parent, wrong, reset)


def _refuse_changed(plan: Plan, kept: QueryRecord, wanted: QueryRecord, folder: Path, reset: str) -> None:
    found = list(_differences(kept, wanted))
    if found:
        raise _changed(plan, folder, "; ".join(found), reset)
    refuse_changed(plan, map(_by_bucket, kept.states.items()), reset)


def _by_bucket(state: tuple[str, StateSchema]) -> tuple[str, StateSchema]:
    """The record of an operator without the number of partitions: on Spark its keys are spread over buckets."""
    operator, schema = state
    return operator, replace(schema, facts={name: fact for name, fact in schema.facts.items() if name != PARTITIONS})


def _differences(kept: QueryRecord, wanted: QueryRecord) -> Iterator[str]:
    if list(kept.sources.items()) != list(wanted.sources.items()):
        yield f"sources: was {_sources(kept)}, is {_sources(wanted)}"
    if kept.stages != wanted.stages:
        yield f"stages: was {_stages(kept)}, is {_stages(wanted)}"
    if kept.buckets != wanted.buckets:
        yield f"spark_buckets: was {kept.buckets}, is {wanted.buckets}"
    for operator in wanted.states.keys() - kept.states.keys():
        if follows_a_stream(wanted, operator) and operator in kept.sources:
            yield f"table {operator}: its stream was read before there was the table, and would not be read again"


def follows_a_stream(record: QueryRecord, operator: str) -> bool:
    """Whether an operator is a table that the query reads from the stream of that name."""
    return record.states[operator].kind == TableOf.kind and operator in record.sources


def _sources(record: QueryRecord) -> str:
    return ", ".join(f"{name} with {count} partition(s)" for name, count in record.sources.items())


def _stages(record: QueryRecord) -> str:
    places = {
        id: f"behind {level} shuffle(s)" if level else "before any shuffle" for id, level in record.stages.items()
    }
    return ", ".join(f"{id} {place}" for id, place in places.items())


def _changed(plan: Plan, folder: Path, difference: str, reset: str) -> PlanError:
    wrong = f"Spark cannot go on with the checkpoint in {folder} of pipeline {plan.name!r}: {difference}"
    expected = "the same sources, stages, shuffles in front of them, partition counts and spark_buckets"
    remedy = f"give the pipeline another name to begin anew beside it, or remove what is kept: {reset} --all"
    return PlanError(explain(wrong, expected, remedy, plan.pipeline.origin))
