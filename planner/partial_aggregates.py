"""Borders at which messages may be aggregated before they cross: those that a single operator reads, which takes
partial aggregates in their place."""

from typing import Any

from ..dsl.annotations import UNKNOWN
from ..dsl.operators import Operator
from ..dsl.pipeline import Pipeline
from ..dsl.serde import Serde


def partial_reader(pipeline: Pipeline, border: str, value: Any) -> Operator | None:
    """The operator that may be given partial aggregates by a border whose values are of that type; None if messages
    alone may cross it. Bytes of the user's own could look like a partial aggregate."""
    if isinstance(value, Serde) or value in (bytes, UNKNOWN):
        return None
    readers = [operator for operator in pipeline.operators if border in operator.inputs]
    to_all = any(one.to_all for one in pipeline.borders if one.id == border)
    return readers[0] if len(readers) == 1 and readers[0].takes_partials is not None and not to_all else None


def combining_reader(pipeline: Pipeline, border: str, value: Any) -> Operator | None:
    """The operator for which a border is to aggregate messages; None if it is to send each alone."""
    combines = any(operator.combines for operator in pipeline.operators if border in operator.inputs)
    return partial_reader(pipeline, border, value) if combines else None
