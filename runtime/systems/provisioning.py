"""Creates the streams of a plan that do not exist yet."""

from collections.abc import Iterable

from ...dsl.errors import PlanError, SystemProblem
from ...dsl.text import plural
from ...dsl.validation import explain
from ...planner.journals import PlannedJournal, journals_of
from ...planner.partition_counts import counts
from ...planner.plan import Plan, StreamKind
from ...planner.settings import Settings
from ...planner.stream_names import checkpoints, intermediate
from ..size_limit import SizeLimit
from .contract import Admin, StreamPartition


def make_streams(plan: Plan, admin: Admin, *, without: StreamKind | None = None) -> None:
    """Create the streams that the plan writes, except those of kind `without`, and its journals. Raises SystemProblem
    where one exists with another partition count."""
    for stream in plan.streams:
        if stream.kind not in ("source", without):
            admin.create(
                stream.name, stream.partitions, "intermediate" if stream.kind == "intermediate" else "messages"
            )
    for one in journals_of(plan):
        _refuse_other_tasks(plan, one, admin.partitions(one.stream))
        admin.create(one.stream, one.stage.tasks, "journal")


def _refuse_other_tasks(plan: Plan, journal: PlannedJournal, partitions: int | None) -> None:
    """Raise SystemProblem where a journal was made for a stage with another number of tasks."""
    if partitions in (None, journal.stage.tasks):
        return
    operator, tasks = plan.pipeline.operator(journal.operator), plural(journal.stage.tasks, "task")
    wrong = f"the journal {journal.stream!r} of {operator.label} has {plural(partitions or 0, 'partition')}, and its "
    wrong += f"stage has {tasks} now"
    remedy = f"forget the kept results: on Kafka by fluvial reset --state {operator.id}, elsewhere by another id"
    raise SystemProblem(explain(wrong, "a partition for each task number", remedy, operator.origin))


def refuse_other_counts(plan: Plan, settings: Settings) -> None:
    """Raise PlanError where a stream between stages has another partition count than `intermediate_partitions` asks
    for: the count of a stream that exists does not change."""
    if settings.intermediate_partitions is None:
        return
    others = {stream.name: stream.spread for stream in plan.streams if stream.kind != "intermediate"}
    wanted = counts(plan.pipeline, others, settings)
    for border in plan.pipeline.borders:
        name = intermediate(plan.name, border.id)
        partitions = plan.stream(name).partitions
        if wanted[name] != partitions:
            wrong = f"the stream {name!r} has {partitions} partitions, and is to have {wanted[name]}, as the setting "
            wrong += f"intermediate_partitions={settings.intermediate_partitions} says"
            remedy = f"leave out the setting, or give {border.id!r} another id, so that a new stream is created"
            raise PlanError(explain(wrong, "the count that the stream was made with", remedy, border.origin))


def make_changelogs(plan: Plan, admin: Admin) -> None:
    """Make the streams of checkpoints and of changelogs. Raises SystemProblem as `make_streams` does."""
    admin.create(checkpoints(plan.name), 1, "checkpoints")
    for store in plan.stores:
        admin.create(store.changelog, plan.stage(store.stage).tasks, "changelog")


def outputs_of(plan: Plan) -> list[str]:
    """The streams that a run makes and writes messages to."""
    return [stream.name for stream in plan.streams if stream.kind != "source"]


def record_limits(plan: Plan, admin: Admin, *, without: StreamKind | None = None) -> dict[str, SizeLimit]:
    """The limits of the records that a run writes, by stream, where there are some; except those of kind `without`."""
    return admin.record_limits([stream.name for stream in plan.streams if stream.kind not in ("source", without)])


def changelogs_of(plan: Plan) -> list[str]:
    """The streams of checkpoints and of changelogs."""
    return [checkpoints(plan.name), *(store.changelog for store in plan.stores)]


def bootstrap_streams(plan: Plan) -> frozenset[str]:
    """The sources that are read to their ends before all others."""
    return frozenset(source.stream for source in plan.pipeline.sources if source.bootstrap)


def input_priorities(plan: Plan) -> dict[str, int]:
    """The streams of which messages come before those of others in their task, or behind them: those with a priority
    other than 0."""
    sources = {source.stream: source.priority for source in plan.pipeline.sources}
    borders = {plan.operator(border.id).writes[0]: border.priority for border in plan.pipeline.borders}
    return {stream: priority for stream, priority in (sources | borders).items() if priority}


def table_streams(plan: Plan) -> frozenset[str]:
    """The sources with the rows of tables. They are read from their start, whatever `offset_default` says."""
    return frozenset(tables_by_stream(plan, (op.id for op in plan.pipeline.operators)))


def tables_by_stream(plan: Plan, operators: Iterable[str]) -> dict[str, str]:
    """The tables among `operators` that are filled from a stream, by the name of the stream."""
    pipeline = plan.pipeline
    tables = [table for table in map(pipeline.operator, operators) if table.is_table]
    followed = {pipeline.operator(source).reads: table.id for table in tables for source in table.inputs}
    return {stream: table for stream, table in followed.items() if stream is not None}


def frozen_ends(plan: Plan, admin: Admin) -> dict[StreamPartition, int]:
    """The end offsets of the sources at this moment."""
    sources = [stream.name for stream in plan.streams if stream.kind == "source"]
    return {(name, partition): end for name in sources for partition, end in enumerate(admin.ends(name))}
