"""Turns a pipeline into a plan: checks, types, stages, streams and stores, as frozen data. Draws plans, too.

Comes in: a `Pipeline`, the partition counts of existing streams, and `Settings`. Goes out: a `Plan`, which both engines
run. Read `planner` first, then `plan`; `kinds` has a row for each kind of operator."""

from .drawing import draw
from .plan import Plan, PlannedOperator, PlannedStage, PlannedStore, PlannedStream
from .planner import plan
from .settings import Guarantee, Settings

__all__ = [
    "Guarantee",
    "Plan",
    "PlannedOperator",
    "PlannedStage",
    "PlannedStore",
    "PlannedStream",
    "Settings",
    "draw",
    "plan",
]
