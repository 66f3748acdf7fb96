"""The offsets at which a run stops reading its sources."""

from ....planner.plan import Plan
from ...systems.contract import StreamPartition, System
from ...systems.provisioning import frozen_ends

PartitionEnds = dict[StreamPartition, int]


def ends_of(plan: Plan, system: System, until: str) -> PartitionEnds | None:
    """The offsets at which a run is to end that begins now; None for one until it is stopped."""
    return None if until == "stopped" else frozen_ends(plan, system.admin())


def by_stream(ends: PartitionEnds | None) -> dict[str, list[int]] | None:
    """Ends as a record has them: for each stream one for each partition."""
    if ends is None:
        return None
    by_stream: dict[str, list[int]] = {}
    for (stream, _), end in sorted(ends.items()):
        by_stream.setdefault(stream, []).append(end)
    return by_stream


def by_partition(ends: dict[str, list[int]] | None) -> PartitionEnds | None:
    """Ends of a record as a run has them."""
    if ends is None:
        return None
    return {(stream, partition): end for stream, offsets in ends.items() for partition, end in enumerate(offsets)}


def ends_now(plan: Plan, system: System) -> dict[str, list[int]]:
    """The offsets at which the sources of a plan end at this moment, by stream and partition."""
    return by_stream(ends_of(plan, system, "end")) or {}
