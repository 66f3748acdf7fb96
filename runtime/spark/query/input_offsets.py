"""The offsets of a query's inputs, for the partitions that its plan has.

A topic may get more partitions at any time, also between the plan of a run and the start of its query. A run reads
those that it was planned with (ADR 0029).
"""

from ....planner.plan import Plan
from ...systems.contract import Admin


def input_starts(plan: Plan, admin: Admin, stream: str) -> list[int]:
    """The first offset of each planned partition of a stream that can be read."""
    return admin.starts(stream)[: plan.stream(stream).partitions]


def input_ends(plan: Plan, admin: Admin, stream: str) -> list[int]:
    """The offset after the last record of each planned partition of a stream."""
    return admin.ends(stream)[: plan.stream(stream).partitions]
