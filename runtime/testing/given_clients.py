"""Clients that a test gives the pipeline driver, in place of those that resources make."""

from collections.abc import Mapping
from typing import Any

from ...dsl.errors import UsageError
from ...dsl.pipeline import Pipeline
from ...dsl.resource import Resource
from ...dsl.validation import explain

GIVE_ANOTHER = (
    "under virtual time no socket is ever ready: give a client of the test's own, "
    "as in PipelineDriver(pipeline, resources={...: ...})"
)
"""What to do about a client that waits for something other than time."""


def checked_clients(pipeline: Pipeline, given: Any) -> Mapping[Resource[Any], Any]:
    """The clients by resource; refuses what is no mapping, and resources that no operator of the pipeline has."""
    if given is None:
        return {}
    used = [one for operator in pipeline.operators for one in operator.opens if isinstance(one, Resource)]
    expected = f"clients by resource: {', '.join(map(repr, dict.fromkeys(used))) or 'the pipeline has none'}"
    if not isinstance(given, Mapping):
        raise UsageError(explain(f"resources={given!r}", expected, "write resources={clients: FakeClient()}"))
    for one in given:
        if one not in used:
            raise UsageError(explain(f"resources= has {one!r}", expected, "leave it out, or pass it to an operator"))
    return given
