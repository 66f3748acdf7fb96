"""Stages: cuts the graph of operators at its borders."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from ..dsl import operators as ops
from ..dsl.pipeline import Pipeline
from .stream_names import intermediate


def cut(pipeline: Pipeline) -> list[list[ops.Operator]]:
    """The operators of each stage in the order they were written; stages in the order of their first operator.

    Operators share a stage if messages pass between them without an intermediate stream, in either direction. All
    operators that look up or fill a table share the stage of the table.
    """
    together: list[tuple[str, str]] = []
    # Readers of one intermediate stream share the tasks that read it.
    readers: dict[str, str] = {}
    for operator in pipeline.operators:
        for source in operator.inputs:
            other = readers.setdefault(source, operator.id) if border(pipeline, source) else source
            together.append((operator.id, other))
        # A row is looked up in the store of the task at hand, so both ends must be in one task.
        if operator.uses_table is not None:
            together.append((operator.id, operator.uses_table))
    parts = _parts([operator.id for operator in pipeline.operators], together)
    stages: dict[int, list[ops.Operator]] = {}
    for operator in pipeline.operators:
        stages.setdefault(id(parts[operator.id]), []).append(operator)
    return list(stages.values())


# Of the graphs of pipelines too little is asked for networkx, which takes a fifth of the start of a command to load.
def _parts(ids: Iterable[str], together: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """The part of each id: one list for all that pairs hold together."""
    parts = {id: [id] for id in ids}
    for one, other in together:
        larger, smaller = sorted((parts[one], parts[other]), key=len, reverse=True)
        if larger is not smaller:
            larger += smaller
            parts.update(dict.fromkeys(smaller, larger))
    return parts


def reaching(start: str, sources: Mapping[str, Iterable[str]]) -> set[str]:
    """All others from which a way leads to an operator, where each has its sources.

    >>> sorted(reaching("c", {"a": [], "b": ["a"], "c": ["b"], "d": ["c"]}))
    ['a', 'b']
    """
    found, open_ends = {start}, [start]
    while open_ends:
        new = {*sources[open_ends.pop()]} - found
        found |= new
        open_ends += new
    return found - {start}


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
