"""The streams of a plan, made where they are not there yet."""

from ..dsl.operators import Source, TableOf
from ..planner.names import checkpoints
from ..planner.plan import Plan, StreamKind
from .systems.contract import Admin, StreamPartition


def make_streams(plan: Plan, admin: Admin, *, without: StreamKind | None = None) -> None:
    """Make the streams that the plan writes, but for those of a kind. Raises SystemProblem where one exists with
    another partition count."""
    for stream in plan.streams:
        if stream.kind not in ("source", without):
            admin.create(
                stream.name, stream.partitions, "intermediate" if stream.kind == "intermediate" else "messages"
            )


def make_changelogs(plan: Plan, admin: Admin) -> None:
    """Make the streams of checkpoints and of changelogs. Raises SystemProblem as `make_streams` does."""
    admin.create(checkpoints(plan.name), 1, "checkpoints")
    for store in plan.stores:
        admin.create(store.changelog, plan.stage(store.stage).tasks, "changelog")


def bootstrap_streams(plan: Plan) -> frozenset[str]:
    """The sources that are processed before others."""
    return frozenset(op.stream for op in plan.pipeline.operators if isinstance(op, Source) and op.bootstrap)


def table_streams(plan: Plan) -> frozenset[str]:
    """The sources that hold the rows of tables: they are read from their start, wherever others begin."""
    tables = [op for op in plan.pipeline.operators if isinstance(op, TableOf)]
    return frozenset(op.stream for op in tables if op.inputs)


def frozen_ends(plan: Plan, admin: Admin) -> dict[StreamPartition, int]:
    """Where the sources end now."""
    sources = [stream.name for stream in plan.streams if stream.kind == "source"]
    return {(name, partition): end for name in sources for partition, end in enumerate(admin.ends(name))}
