"""Sources that have got more partitions than the pipeline began with: their tasks stay, and read several."""

from collections.abc import Mapping
from dataclasses import replace

from msgspec import structs

from .grouping import first_numbers
from .plan import Plan, PlannedStream
from .stream_names import growth_name


def grown(plan: Plan, counts: Mapping[str, int]) -> Plan:
    """The plan with these partition counts of sources, in as many tasks as before; the plan itself if none has grown.
    A source never has fewer partitions than in the plan."""
    streams = tuple(_grown(stream, counts.get(stream.name, 0)) for stream in plan.streams)
    return plan if streams == plan.streams else replace(plan, streams=streams)


def _grown(stream: PlannedStream, count: int) -> PlannedStream:
    if stream.kind != "source" or count <= stream.partitions:
        return stream
    return structs.replace(stream, partitions=count, began_with=stream.spread)


def partitions_read(plan: Plan, stage: str, number: int) -> dict[str, tuple[str, int]]:
    """The partitions that the tasks of a number read, by the name of the input."""
    firsts = first_numbers(plan, stage)
    streams = [plan.stream(name) for name in firsts]
    return {
        growth_name(stream.name, growth): (stream.name, partition)
        for stream in streams
        for growth in range(stream.growths)
        if (partition := stream.partition_of(number - firsts[stream.name], growth)) is not None
    }


def before_growth(began: int, partition: int) -> range:
    """The partitions that may hold earlier messages of keys that a partition has got, of a stream that began with so
    many: all those of its task that there were before it.

    >>> [*before_growth(2, 7)], [*before_growth(2, 1)]
    ([1, 3, 5], [])
    """
    return range(partition % began, partition, began)


def is_stateful(plan: Plan, stream: str) -> bool:
    """Whether a stage that reads a stream keeps state by key, so that keys must not come to other tasks."""
    keeping = {store.stage for store in plan.stores}
    return any(stage.id in keeping and stream in stage.inputs for stage in plan.stages)


def fits(plan: Plan, stream: str, count: int) -> bool:
    """Whether the tasks of a plan can read so many partitions of a source: where they keep state, a multiple of those
    that it has in the plan, and of those that it began with. So each key stays with its task, and moves to a new
    partition or to none."""
    known = plan.stream(stream)
    return (count % known.partitions == 0 and count % known.spread == 0) or not is_stateful(plan, stream)
