"""Stages: cuts the graph of operators at its borders."""

from collections.abc import Collection, Sequence

from ..dsl import operators as ops
from ..dsl.pipeline import Pipeline
from .stream_names import intermediate


def cut(pipeline: Pipeline) -> list[list[ops.Operator]]:
    """The operators of each stage in the order they were written; stages in the order of their first operator.

    Operators share a stage if messages pass between them without an intermediate stream, in either direction. All
    operators that look up or fill a table share the stage of the table.
    """
    import networkx as nx  # noqa: PLC0415 - costs more to load than all the rest

    within: nx.Graph[str] = nx.Graph()
    for operator in pipeline.operators:
        within.add_node(operator.id)
        within.add_edges_from((source, operator.id) for source in operator.inputs if not border(pipeline, source))
        # A row is looked up in the store of the task at hand, so both ends must be in one task.
        if operator.uses_table is not None:
            within.add_edge(operator.id, operator.uses_table)
    # Readers of one intermediate stream share the tasks that read it.
    readers: dict[str, str] = {}
    for operator in pipeline.operators:
        for source in operator.inputs:
            if border(pipeline, source):
                within.add_edge(operator.id, readers.setdefault(source, operator.id))
    members = {id: number for number, part in enumerate(nx.connected_components(within)) for id in part}
    stages: dict[int, list[ops.Operator]] = {}
    for operator in pipeline.operators:
        stages.setdefault(members[operator.id], []).append(operator)
    return list(stages.values())


def border(pipeline: Pipeline, id: str) -> bool:
    """Whether what this operator emits crosses an intermediate stream."""
    return pipeline.operator(id).is_border


def name_of(pipeline: Pipeline, inputs: Collection[str]) -> str:
    """The shown name of a stage that reads these streams: the stream that comes first in the pipeline."""
    streams = (
        intermediate(pipeline.name, operator.id) if operator.is_border else operator.reads
        for operator in pipeline.operators
    )
    return next(name for name in streams if name is not None and name in inputs)


def inputs_of(pipeline: Pipeline, stage: Sequence[ops.Operator]) -> list[str]:
    """The streams a stage reads, in the order its operators name them."""
    inputs: dict[str, None] = {}
    for operator in stage:
        if operator.reads is not None:
            inputs.setdefault(operator.reads)
        for source in operator.inputs:
            if border(pipeline, source):
                inputs.setdefault(intermediate(pipeline.name, source))
    return list(inputs)
