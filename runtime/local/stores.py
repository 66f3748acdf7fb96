"""Which store a task gets: RocksDB on the local disk, or memory where the streams are in memory too."""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from weakref import WeakKeyDictionary

from ...planner.assignment import task_name
from ...planner.plan import Plan
from ...planner.settings import Settings
from ..state import MemoryStore, RocksStore, TaskStore
from ..systems.contract import SendingSystem, System

_IN_MEMORY: WeakKeyDictionary[System, dict[str, MemoryStore]] = WeakKeyDictionary()
"""State of pipelines over systems in memory: it lives as long as the system, so that a later run finds it."""


def store_for(
    plan: Plan, task: str, stateful: bool, system: System, settings: Settings, container: int = 0
) -> TaskStore:
    """The store of a task, as the last run of the container left it."""
    if not stateful:
        return MemoryStore()
    folder = state_folder(plan, system, settings, container)
    if folder is None:
        return _IN_MEMORY.setdefault(system, {}).setdefault(f"{plan.name}/{task}", MemoryStore())
    return RocksStore(folder / _name(task), spare=isinstance(system, SendingSystem))


OpenStore = Callable[[], TaskStore]


def kept_stores(plan: Plan, system: System, settings: Settings) -> list[tuple[str, OpenStore]]:
    """The stores that are the only copy of a pipeline's state, by a name that people know, and what opens each.

    Where state has changelogs there are none: such a store is built anew from them.
    """
    if isinstance(system, SendingSystem):
        return []
    folder = state_folder(plan, system, settings)
    return (
        []
        if folder is None
        else [(str(one), partial(RocksStore, one)) for one in sorted(folder.glob("*")) if _holds_store(one)]
    )


def pipeline_folders(plan: Plan, system: System, settings: Settings) -> list[Path]:
    """The folders on this machine that hold all stores of a pipeline and nothing else."""
    folder = state_folder(plan, system, settings)
    if folder is None:
        return []
    folder = folder.parent if isinstance(system, SendingSystem) else folder
    return [folder] if folder.exists() else []


def _name(task: str) -> str:
    """The name of a task's folder."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", task)


def store_folders(plan: Plan, system: System, settings: Settings, stage: str) -> list[Path]:
    """The folders of a stage's stores on this machine, one for each task: of several containers' the latest."""
    home = state_folder(plan, system, settings)
    if home is None:
        return []
    homes = sorted(home.parent.glob("container-*")) if isinstance(system, SendingSystem) else [home]
    wanted = re.compile(re.escape(_name(task_name(stage, 0)).removesuffix("0")) + r"\d+")
    found: dict[str, Path] = {}
    for folder in sorted((one for home in homes for one in home.glob("*") if _holds_store(one)), key=_changed_at):
        if wanted.fullmatch(folder.name):
            found[folder.name] = folder
    return [found[name] for name in sorted(found)]


def _holds_store(folder: Path) -> bool:
    return (folder / "CURRENT").exists()


def _changed_at(folder: Path) -> float:
    return max(file.stat().st_mtime for file in folder.iterdir())


def state_folder(plan: Plan, system: System, settings: Settings, container: int = 0) -> Path | None:
    """The folder of a pipeline's stores: beside the log, or in the working directory; None if they are in memory.

    Where state has changelogs each container has a folder of its own: one that has lost its place may still hold its
    stores open. Else all share one, for there is no other copy of the state.
    """
    home = None if settings.state_dir is None else Path(settings.state_dir)
    if isinstance(system, SendingSystem):
        return (home or Path(".fluvial", "state")) / plan.name / f"container-{container}"
    if home is not None:
        return home / plan.name
    scheme, _, place = system.url.partition(":")
    return Path(place) / "state" / plan.name if scheme == "log" else None
