"""What a pipeline means: checks, types, stages and streams, as one frozen plan; and its drawings."""

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
