"""Whether a run begins at the start where the other engine has gone on: engines keep places of their own."""

from typing import NamedTuple

from ..planner.plan import Plan
from ..planner.settings import Settings
from .kept_folders import has_begun_queries, queries_folder
from .state_compatibility import reset_command
from .systems.contract import System

NAMES = {"local": "the local engine", "spark": "Spark"}


class ReadBefore(NamedTuple):
    """What is to be told, and what can be done."""

    wrong: str
    remedy: str


def read_by_other(plan: Plan, system: System, settings: Settings, engine: str) -> ReadBefore | None:
    """What to say where an engine has read nothing of a pipeline, and the other one has; None elsewhere."""
    folder = queries_folder(system, settings)
    read = {
        "local": bool(system.admin().checkpoints(plan.name)),
        "spark": folder is not None and has_begun_queries(folder / plan.name),
    }
    other = "spark" if engine == "local" else "local"
    if read[engine] or not read[other]:
        return None
    wrong = f"{NAMES[engine]} has read nothing of pipeline {plan.name!r} on {system.url}, and {NAMES[other]} has: each "
    wrong += "engine goes on from its own checkpoints, so what was read is read again, and its outputs come once more"
    remedy = f"go on with engine {other!r}; or, if outputs may come again, forget what it has kept: "
    remedy += f"{reset_command(plan, system, settings, other)} --all"
    return ReadBefore(wrong, remedy)
