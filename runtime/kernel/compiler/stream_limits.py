"""Which operators of a stage write to streams that limit their records."""

from collections.abc import Mapping
from dataclasses import replace

from ....planner.stream_names import dead_letters
from ...size_limit import SizeLimit
from ..code.stage_graph import StageGraph
from ..output_buffer import DEAD_LETTERS
from ..time.border_watermarks import TRAILER_BYTES


def limits_of_operators(graph: StageGraph, limits: Mapping[str, SizeLimit], trailers: bool) -> dict[str, SizeLimit]:
    """The limits of the records that the operators of a stage write, by id, and of DEAD_LETTERS; `limits` are those of
    streams. With `trailers` the records of an intermediate stream get one besides."""
    by_operator: dict[str, SizeLimit] = {}
    for id, operator in graph.operators.items():
        for stream in graph.plan.operator(id).writes:
            limit = limits.get(stream)
            if limit is not None and operator.is_border and trailers:
                limit = replace(limit, largest=limit.largest - TRAILER_BYTES)
            if limit is not None:
                by_operator[id] = limit
    letters = limits.get(dead_letters(graph.plan.name))
    return by_operator if letters is None else {**by_operator, DEAD_LETTERS: letters}
