"""The columns of the streams of a plan: what `fluvial plan --columns` shows."""

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from ...dsl.annotations import UNKNOWN
from ...dsl.serde import Serde, type_name
from ...planner.flow import Flow, plain
from ...planner.plan import Plan
from ...planner.type_inference import flows, written_flow
from .columns import VALUE, Column, NoColumn, columns_of


class StreamColumns(Struct, frozen=True, kw_only=True):
    """The columns of a stream that a pipeline reads or writes. `why_none` says why there are none."""

    stream: str
    kind: str
    columns: tuple[Column, ...] = ()
    why_none: str = ""


def plan_columns(plan: Plan) -> Iterator[StreamColumns]:
    """The columns of each stream that may be read from a DataFrame, or written to one.

    >>> pipeline = Pipeline("copy")
    >>> pipeline.stream("words", value=str).send_to("copies")
    >>> [(one.stream, one.columns[0].type) for one in plan_columns(plan(pipeline))]
    [('words', 'string'), ('copies', 'string')]
    """
    known = flows(plan.pipeline)
    for stream in plan.streams:
        if stream.kind == "intermediate":
            continue
        if stream.kind == "source":
            types = [known[id].value for id in stream.read_by]
        else:
            types = written_types(plan, stream.name)
        yield _columns(stream.name, stream.kind, types)


def written_flows(plan: Plan, stream: str) -> list[Flow]:
    """The types that operators write to a stream, each once."""
    known = flows(plan.pipeline)
    writers = plan.stream(stream).written_by
    return list(dict.fromkeys(written_flow(plan.pipeline.operator(id), known) for id in writers))


def written_types(plan: Plan, stream: str) -> list[Any]:
    """The types, or Serdes, of the values of a stream: more than one where operators write several. Dead letters are
    bytes, as they came."""
    types = list(dict.fromkeys(flow.value for flow in written_flows(plan, stream)))
    return types or [bytes]


def _columns(stream: str, kind: str, types: list[Any]) -> StreamColumns:
    if len(types) > 1:
        return StreamColumns(stream=stream, kind=kind, why_none=f"values of {' and '.join(map(_name, types))}")
    (declared,) = types
    if kind == "source" and isinstance(declared, Serde):
        return StreamColumns(stream=stream, kind=kind, columns=(Column(VALUE, "binary"),))
    if declared is UNKNOWN:
        return StreamColumns(stream=stream, kind=kind, why_none="the type of the values is not known")
    try:
        return StreamColumns(stream=stream, kind=kind, columns=columns_of(plain(declared)))
    except NoColumn as error:
        return StreamColumns(stream=stream, kind=kind, why_none=str(error))


def _name(declared: Any) -> str:
    return "a type that is not known" if declared is UNKNOWN else type_name(plain(declared))
