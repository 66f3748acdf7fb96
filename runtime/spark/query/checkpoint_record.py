"""Finds the checkpoint that a query continues, and refuses one of another query.

A file beside Spark's checkpoint records the query's sources, stages, buckets and state.
"""

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
from ...preflight.state_compatibility import refuse_changed
from ...process.data_files import check_owner
from ...state.checkpoint_path import CheckpointPath, children
from ...state.pipeline_folder import holds_query, removing_queries
from ...systems.log.disk import explained, sync_directory
from ..atomic_file import make_path, read, remove_path, write
from ..key_buckets import EARLIER, ON_FEW_CORES, KeyBuckets
from ..lowering.lowering import levels
from .checkpoint_log import PLANNED, batch_numbers
from .connection import Connection

# Any other number is refused, a lower one too: nothing converts what Spark has stored beside this record.
VERSION = 1
FILE = "query"
IDENTITY = "identity"
"""The file with the unique name of a checkpoint."""
_REMOVED = ".removed-"
_NO_SPLIT = " (it may become a multiple, where the query reads no broadcast and no DataFrame)"


class QueryRecord(Struct, frozen=True, kw_only=True):
    """The query that a checkpoint is of.

    Spark cannot continue the checkpoint with other `sources` (partitions by stream), `stages` (level by stage) or
    `buckets`. `states` has the schema of each operator's state. `resets` counts how often an operator's state was
    removed. Earlier versions did not label buckets so that they are `balanced`. A query whose buckets were split goes
    on from the state of the checkpoint in the folder `split_of`, beside this one, until its first batch is done.
    """

    version: int = VERSION
    sources: dict[str, int]
    stages: dict[str, int]
    buckets: int
    states: dict[str, StateSchema] = {}
    resets: dict[str, int] = {}
    balanced: bool = False
    split_of: str = ""

    @property
    def key_buckets(self) -> KeyBuckets:
        """The key buckets that the state of the query is divided into, and how they are labelled."""
        return KeyBuckets(self.buckets, balanced=self.balanced)


@dataclass(frozen=True, slots=True)
class QueryCheckpoint:
    """The folder of a query's checkpoint, and its record: None in a folder of a version that wrote no records."""

    folder: CheckpointPath
    record: QueryRecord | None

    @classmethod
    def of(cls, folder: CheckpointPath) -> "QueryCheckpoint":
        """That of a folder. Raises SystemProblem for a record that is damaged, or of a later version."""
        return cls(folder, _record(folder / FILE))

    @property
    def checkpoint(self) -> CheckpointPath:
        """Spark's own folder."""
        return self.folder / "spark"

    @property
    def begun(self) -> bool:
        """Whether Spark has planned a batch. Before the first batch the checkpoint holds nothing."""
        return bool(batch_numbers(self.checkpoint, PLANNED))

    def save(self, record: QueryRecord) -> None:
        """Write the record into the folder, in place of the one that was there."""
        write(self.folder / FILE, msgspec.json.encode(record))


def query_checkpoints(root: CheckpointPath) -> list[QueryCheckpoint]:
    """The checkpoints of the pipeline whose folder is `root`, without those that a reset removes. Raises SystemProblem
    for a record that is damaged, or of a later version."""
    return [QueryCheckpoint.of(folder) for folder in query_folders(root)]


def query_folders(root: CheckpointPath) -> list[CheckpointPath]:
    """The folders of `query_checkpoints`, whatever their records hold."""
    return [] if removing_queries(root).exists() else [one for one in _folders(root) if _is_query(one)]


def _folders(root: CheckpointPath) -> list[CheckpointPath]:
    """What the folders in a folder have."""
    return [query for stage in children(root) for query in children(stage)]


def _is_query(folder: CheckpointPath) -> bool:
    return _REMOVED not in folder.name and holds_query(folder)


def set_aside(folder: CheckpointPath) -> CheckpointPath:
    """Rename the folder of a query, so that no run finds it, and return its new path. The folder is then removed: a
    query that continued from a half of it would lose messages. Where renaming is no single step it keeps its name; the
    mark of `begin_removal` is enough, and so is that it has had no batch."""
    if _REMOVED in folder.name or not isinstance(folder, Path):
        return folder
    aside = folder.with_name(f"{folder.name}{_REMOVED}{uuid4().hex}")
    with explained("rename", folder):
        folder.rename(aside)
    sync_directory(folder.parent)
    return aside


def begin_removal(root: CheckpointPath) -> None:
    """Mark all queries of the pipeline whose folder is `root` for removal: from now on no run finds them."""
    write(removing_queries(root), b"")
    _sync(root)


def end_removal(root: CheckpointPath) -> None:
    """Remove the mark of `begin_removal`, so that runs find queries again. All marked queries have been removed."""
    if removing_queries(root).exists():
        remove_path(removing_queries(root))
        _sync(root)  # else a crash could restore the mark, and the next run would remove this run's queries


def _sync(folder: CheckpointPath) -> None:
    if isinstance(folder, Path):
        sync_directory(folder)


def folders_set_aside(root: CheckpointPath) -> list[CheckpointPath]:
    """The folders of queries that an interrupted reset has marked or renamed, and not removed."""
    marked = removing_queries(root).exists()
    return [folder for folder in _folders(root) if _REMOVED in folder.name or (marked and holds_query(folder))]


def group_name(plan: Plan, identity: str) -> str:
    """The name under which the system stores data about the checkpoint of that identity."""
    return f"{plan.name}@{identity}"


def group_of(plan: Plan, folder: CheckpointPath) -> str | None:
    """The `group_name` of the checkpoint in a folder; None if it has no name."""
    file = folder / IDENTITY
    # The system knows nothing by a damaged name, which is then refused.
    return group_name(plan, file.read_text(errors="replace")) if file.exists() else None


def remove_query(plan: Plan, connection: Connection, folder: CheckpointPath) -> None:
    """Remove the folder of a query, and what the system has stored about its checkpoint."""
    aside = set_aside(folder)
    group = group_of(plan, aside)
    if group is not None:
        connection.forget(group)
    remove_path(aside)


def _record(file: CheckpointPath) -> QueryRecord | None:
    if not file.exists():
        return None
    record = read(file, QueryRecord)
    if record.version != VERSION:
        wrong = f"{file} has version {record.version}"
        raise SystemProblem(explain(wrong, f"version {VERSION}", "run the version that wrote it", file))
    return record


def wanted_record(
    plan: Plan, stages: Sequence[PlannedStage], settings: Settings, buckets: int = ON_FEW_CORES
) -> QueryRecord:
    """What a checkpoint must agree with for the query to go on from it: sources, levels, buckets and states. A new
    checkpoint has so many `buckets`, unless the settings say how many."""
    ids, of_stage = {stage.id for stage in stages}, levels(plan, list(stages), buckets).of_stage
    names = [name for stage in stages for name in stage.inputs]
    return QueryRecord(
        sources={name: plan.stream(name).partitions for name in names if plan.stream(name).kind == "source"},
        stages={stage.id: of_stage[stage.id] for stage in stages},
        buckets=settings.spark_buckets or buckets,
        states={store.operator: store.schema for store in plan.stores if store.stage in ids},
        balanced=True,
    )


def find_checkpoint(
    plan: Plan, wanted: QueryRecord, buckets: int | None, root: CheckpointPath, reset: str, *, may_grow: bool = True
) -> QueryCheckpoint:
    """Find the checkpoint that a query continues, or make a new one. Its record is brought up to date.

    `buckets` is the number that the user has chosen; None: as many as the checkpoint has. A checkpoint whose buckets
    are yet to be split into so many is found as it is, if they `may_grow`. Raises PlanError if Spark cannot continue
    the existing checkpoint with this query, or if the state of an operator has changed its meaning.
    `reset` is the command that removes the checkpoint.
    """
    if isinstance(root, Path):
        check_owner(root)
    candidates = _candidates(wanted, root)
    checkpoint = _begun(plan, wanted, buckets, candidates, reset, may_grow=may_grow) or next(
        (candidate for candidate in candidates if candidate.record == wanted), None
    )
    for candidate in candidates:
        # It has had no batch, and may be of other sources.
        if candidate is not checkpoint and not _is_split(candidate, checkpoint):
            remove_path(set_aside(candidate.folder))
    if checkpoint is None:
        checkpoint = _without_record(plan, wanted, root, reset)
        make_path(checkpoint.folder)
        if checkpoint.begun:
            wanted = replace(wanted, buckets=buckets or EARLIER, balanced=False)
    record = checkpoint.record
    if record is not None:
        states = carried(record.states, wanted.states)
        wanted = replace(record, sources=wanted.sources, stages=wanted.stages, states=states)
    if record != wanted:
        checkpoint.save(wanted)
    return QueryCheckpoint(checkpoint.folder, wanted)


def check_checkpoint(plan: Plan, wanted: QueryRecord, root: CheckpointPath, reset: str) -> dict[str, StateSchema]:
    """Raise PlanError where `find_checkpoint` would because of a record. Nothing is written. Returns the records of the
    state that the query continues with, by operator.

    The number of buckets is not compared: only the settings of a run have it.
    """
    checkpoint = _begun(plan, wanted, None, _candidates(wanted, root), reset)
    return {} if checkpoint is None or checkpoint.record is None else checkpoint.record.states


def few_buckets(plan: Plan, wanted: QueryRecord, root: CheckpointPath) -> int | None:
    """The number of key buckets that a query has, if that is less than a new one has on any machine, and it may become
    that; None otherwise."""
    checkpoint = _begun(plan, wanted, None, _candidates(wanted, root), "")
    if checkpoint is None or checkpoint.record is None or not any(wanted.stages.values()):
        return None
    has = checkpoint.record.buckets
    return has if has < ON_FEW_CORES and may_split(plan, replace(wanted, buckets=has), ON_FEW_CORES) else None


def _candidates(wanted: QueryRecord, root: CheckpointPath) -> list[QueryCheckpoint]:
    """The checkpoints of queries that read one of the same sources, or have state of one of the same operators."""
    return [
        checkpoint
        for checkpoint in query_checkpoints(root)
        if (record := checkpoint.record) is not None
        and (record.sources.keys() & wanted.sources or record.states.keys() & wanted.states)
    ]


def _begun(
    plan: Plan,
    wanted: QueryRecord,
    buckets: int | None,
    candidates: Sequence[QueryCheckpoint],
    reset: str,
    *,
    may_grow: bool = True,
) -> QueryCheckpoint | None:
    """The checkpoint that has had a batch, None if none has. Raises PlanError if Spark cannot continue it, or if there
    are several: each has its own state, and a query continues one."""
    begun = [candidate for candidate in candidates if candidate.begun]
    begun = [one for one in begun if not any(_is_split(one, other) for other in begun)]
    for checkpoint in begun:
        assert checkpoint.record is not None
        has = checkpoint.record.buckets
        splits = buckets is None or (may_grow and may_split(plan, replace(wanted, buckets=has), buckets))
        compared = replace(wanted, buckets=has if splits else buckets)
        _refuse_changed(plan, checkpoint.record, compared, checkpoint.folder, reset)
    if len(begun) > 1:
        raise _changed(
            plan,
            begun[0].folder,
            f"another query of the same sources or state has its checkpoint in {begun[1].folder}",
            reset,
        )
    return begun[0] if begun else None


def _is_split(checkpoint: QueryCheckpoint, by: QueryCheckpoint | None) -> bool:
    """Whether a query goes on from a checkpoint in another one, with more buckets."""
    return by is not None and by.record is not None and by.record.split_of == checkpoint.folder.name


def may_split(plan: Plan, wanted: QueryRecord, buckets: int) -> bool:
    """Whether each bucket of a query can be split over several, so that there are so many. What a broadcast brings is
    in all of them, and not by key."""
    broadcasts = any(
        border.to_all and plan.operator(border.id).stage in wanted.stages for border in plan.pipeline.borders
    )
    return not broadcasts and buckets % wanted.buckets == 0


def _without_record(plan: Plan, wanted: QueryRecord, root: CheckpointPath, reset: str) -> QueryCheckpoint:
    """A new checkpoint, or one without a record, as a version before the records has made it. Raises PlanError for one
    of the same stage whose name says that it is of another query."""
    above, ids = root / next(iter(wanted.stages)), list(wanted.stages)
    new, earlier = (above / plan.fingerprint(buckets, ids) for buckets in (wanted.buckets, EARLIER))
    others = [path for path in children(above) if path not in (new, earlier) and _is_query(path)]
    if others and not (new.exists() or earlier.exists()):
        wrong = "it is of other sources, stateful operators, key types or partition counts"
        raise _changed(plan, above, wrong, reset)
    return QueryCheckpoint(earlier if earlier.exists() and not new.exists() else new, None)


def _refuse_changed(plan: Plan, recorded: QueryRecord, wanted: QueryRecord, folder: CheckpointPath, reset: str) -> None:
    differences = list(_differences(recorded, wanted))
    if differences:
        raise _changed(plan, folder, "; ".join(differences), reset)
    refuse_changed(plan, map(_by_bucket, recorded.states.items()), reset)


def _by_bucket(state: tuple[str, StateSchema]) -> tuple[str, StateSchema]:
    """The state schema of an operator without the number of partitions: on Spark its keys are in buckets."""
    operator, schema = state
    return operator, replace(schema, facts={name: fact for name, fact in schema.facts.items() if name != PARTITIONS})


def _differences(recorded: QueryRecord, wanted: QueryRecord) -> Iterator[str]:
    if list(recorded.sources.items()) != list(wanted.sources.items()):
        yield f"sources: was {_sources(recorded)}, is {_sources(wanted)}"
    if recorded.stages != wanted.stages:
        yield f"stages: was {_stages(recorded)}, is {_stages(wanted)}"
    if recorded.buckets != wanted.buckets:
        yield f"spark_buckets: was {recorded.buckets}, is {wanted.buckets}{_NO_SPLIT}"
    for operator in wanted.states.keys() - recorded.states.keys():
        if follows_a_stream(wanted, operator) and operator in recorded.sources:
            yield f"table {operator}: its stream was read before there was the table, and would not be read again"


def follows_a_stream(record: QueryRecord, operator: str) -> bool:
    """Whether an operator is a table whose rows the query reads from the stream of the same name."""
    return record.states[operator].kind == TableOf.kind and operator in record.sources


def _sources(record: QueryRecord) -> str:
    return ", ".join(f"{name} with {count} partition(s)" for name, count in record.sources.items())


def _stages(record: QueryRecord) -> str:
    shown = {id: f"behind {level} shuffle(s)" if level else "before any shuffle" for id, level in record.stages.items()}
    return ", ".join(f"{id} {text}" for id, text in shown.items())


def _changed(plan: Plan, folder: CheckpointPath, difference: str, reset: str) -> PlanError:
    wrong = f"Spark cannot continue the checkpoint in {folder} of pipeline {plan.name!r}: {difference}"
    expected = "the same sources, stages, shuffles in front of them, partition counts and spark_buckets"
    remedy = f"give the pipeline another name to start over beside it, or remove its checkpoints: {reset} --all"
    return PlanError(explain(wrong, expected, remedy, plan.pipeline.origin))
