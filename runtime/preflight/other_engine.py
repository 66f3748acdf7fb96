"""Warns of a pipeline that the other engine has run before: each engine has its own checkpoints, so this one would read
the inputs again."""

from typing import NamedTuple

from ...planner.plan import Plan
from ...planner.settings import Settings
from ..state.pipeline_folder import has_begun_queries, queries_folder
from ..systems.contract import System
from .state_compatibility import reset_command

NAMES = {"local": "the local engine", "spark": "Spark"}


class OtherEngineWarning(NamedTuple):
    """Two sentences for the user: the first says what is read and written again, the second has the command."""

    wrong: str
    remedy: str


def other_engine_warning(plan: Plan, system: System, settings: Settings, engine: str) -> OtherEngineWarning | None:
    """The warning if the other engine has a checkpoint of a pipeline, and `engine` has none; else None."""
    folder = queries_folder(system, settings)
    on_spark = folder is not None and has_begun_queries(folder / plan.name)
    # The system is asked last: on Kafka that reads a topic.
    if on_spark != (engine == "local") or bool(system.admin().checkpoints(plan.name)) == on_spark:
        return None
    other = "spark" if on_spark else "local"
    wrong = f"{NAMES[engine]} has read nothing of pipeline {plan.name!r} on {system.url}, and {NAMES[other]} has: each "
    wrong += "engine continues from its own checkpoints, so messages are read again, and their outputs written again"
    remedy = f"continue with engine {other!r}; or, if outputs may be repeated, remove its checkpoints: "
    remedy += f"{reset_command(plan, system, settings, other)} --all"
    return OtherEngineWarning(wrong, remedy)
