"""Whether the other engine has processed a pipeline that this one would begin: each engine has its own checkpoints."""

from typing import NamedTuple

from ...planner.plan import Plan
from ...planner.settings import Settings
from ..state.pipeline_folder import has_begun_queries, queries_folder
from ..systems.contract import System
from .state_compatibility import reset_command

NAMES = {"local": "the local engine", "spark": "Spark"}


class ReadBefore(NamedTuple):
    """A warning and its remedy."""

    wrong: str
    remedy: str


def read_by_other(plan: Plan, system: System, settings: Settings, engine: str) -> ReadBefore | None:
    """What to warn of where the other engine has a checkpoint of a pipeline and this one has none; None elsewhere."""
    folder = queries_folder(system, settings)
    on_spark = folder is not None and has_begun_queries(folder / plan.name)
    # The system is asked last: on Kafka that reads a topic.
    if on_spark != (engine == "local") or bool(system.admin().checkpoints(plan.name)) == on_spark:
        return None
    other = "spark" if on_spark else "local"
    wrong = f"{NAMES[engine]} has read nothing of pipeline {plan.name!r} on {system.url}, and {NAMES[other]} has: each "
    wrong += "engine goes on from its own checkpoints, so what was read is read again, and its outputs come once more"
    remedy = f"go on with engine {other!r}; or, if outputs may come again, forget what it has kept: "
    remedy += f"{reset_command(plan, system, settings, other)} --all"
    return ReadBefore(wrong, remedy)
