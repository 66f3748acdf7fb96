"""Partition counts: how many partitions each stream of a plan has.

An intermediate stream takes the count that the state behind it needs, else the setting `intermediate_partitions`, else
the most that an input or output has. Streams whose messages meet in one keyed operator must agree.
"""

from collections.abc import Mapping

from ..dsl import operators as ops
from ..dsl.errors import PlanError
from ..dsl.pipeline import Pipeline
from ..dsl.validation import explain
from .grouping import grouping_of, tasks_for
from .settings import Settings
from .stages import border, cut, inputs_of
from .stream_names import intermediate
from .validation import written_by


def counts(pipeline: Pipeline, given: Mapping[str, int], settings: Settings) -> dict[str, int]:
    """The partition count of every source and intermediate stream, and of the outputs that `given` holds."""
    known = dict(given)
    sources = [source.stream for source in pipeline.sources]
    known.update({name: 1 for name in sources if name not in known})
    met = _meetings(pipeline)
    _spread(known, list(met.values()))
    named = [*sources, *(name for op in pipeline.operators for name in written_by(pipeline, op))]
    rows = table_streams(pipeline)  # tables come after what they serve
    most = max((known[name] for name in named if name in known and name not in rows), default=1)
    default = settings.intermediate_partitions or most
    for operator in pipeline.borders:
        if not operator.to_all:
            known.setdefault(intermediate(pipeline.name, operator.id), default)
            _spread(known, list(met.values()))
    known.update(_broadcast(pipeline, known, settings))
    for id, streams in met.items():
        _check(pipeline.operator(id), {name: known[name] for name in streams})
    return known


def table_streams(pipeline: Pipeline) -> frozenset[str]:
    """The sources that hold the rows of tables."""
    inputs = [pipeline.operator(id).reads for table in pipeline.operators if table.is_table for id in table.inputs]
    return frozenset(name for name in inputs if name is not None)


def _broadcast(pipeline: Pipeline, known: Mapping[str, int], settings: Settings) -> dict[str, int]:
    """The counts of streams that every task behind them reads whole: a copy for each of those tasks."""
    streams = {intermediate(pipeline.name, border.id): border for border in pipeline.borders if border.to_all}
    counts: dict[str, int] = {}
    for stage in cut(pipeline) if streams else []:
        names = inputs_of(pipeline, stage)
        sizes = [known[name] for name in names if name not in streams]
        tasks = tasks_for(grouping_of(pipeline, stage, settings), sizes)
        for name in names:
            if name in streams:
                counts[name] = tasks
                _check_copies(streams[name], name, known.get(name, tasks), tasks)
    return counts


def _check_copies(operator: ops.Operator, name: str, count: int, tasks: int) -> None:
    if count != tasks:
        wrong = f"broadcast {operator.id!r}: the stream {name!r} has {count} partitions, and {tasks} tasks read it"
        remedy = "remove that stream, so that it is created again, or give the operator another id"
        raise PlanError(explain(wrong, "a partition for each task of the next stage", remedy, operator.origin))


def _meetings(pipeline: Pipeline) -> dict[str, list[str]]:
    """For each keyed operator, the streams whose messages reach it, or the table it uses, without crossing another
    border."""
    reach = _reach(pipeline)
    rows = {operator.id: reach[operator.id] for operator in pipeline.operators if operator.is_table}
    for operator in pipeline.operators:
        if operator.fills is not None:
            rows[operator.fills] = list(dict.fromkeys([*rows[operator.fills], *reach[operator.id]]))
    met: dict[str, list[str]] = {}
    for operator in pipeline.operators:
        if operator.uses_table is not None:
            met[operator.id] = list(dict.fromkeys([*reach[operator.id], *rows[operator.uses_table]]))
        elif operator.role == "both":
            met[operator.id] = reach[operator.id]
    return met


def _reach(pipeline: Pipeline) -> dict[str, list[str]]:
    """For each operator, the streams whose messages reach it without crossing another border."""
    reach: dict[str, list[str]] = {}
    for operator in pipeline.operators:
        streams: dict[str, None] = {} if operator.reads is None else {operator.reads: None}
        for source in operator.fed_by:
            names = [intermediate(pipeline.name, source)] if border(pipeline, source) else reach[source]
            streams.update(dict.fromkeys(names))
        reach[operator.id] = list(streams)
    return reach


def _spread(known: dict[str, int], meetings: list[list[str]]) -> None:
    """Give streams without a count that of a stream that they meet in an operator, until nothing changes."""
    changed = True
    while changed:
        changed = False
        for streams in meetings:
            count = next((known[name] for name in streams if name in known), None)
            for name in streams:
                if count is not None and name not in known:
                    known[name] = count
                    changed = True


def _check(operator: ops.Operator, counts: dict[str, int]) -> None:
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name} has {count}" for name, count in counts.items())
        wrong = f"{operator.kind} {operator.id!r} joins streams with different partition counts: {listed}"
        remedy = "bring the smaller ones together with .partition_by(...) first"
        raise PlanError(explain(wrong, "equal counts, for equal keys must meet in one task", remedy, operator.origin))
