"""The store of each task: RocksDB on the local disk, or memory if the streams are in memory too."""

import logging
import re
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from weakref import WeakKeyDictionary

from ....dsl.errors import SystemProblem, UsageError
from ....dsl.validation import explain
from ....planner.plan import Plan
from ....planner.settings import Settings
from ....planner.task_assignment import task_name
from ...process.data_files import check_owner
from ...state import MemoryStore, RocksStore, StoreLocked, TaskStore
from ...state.pipeline_folder import remote_folder, without_queries
from ...systems.contract import ProducingSystem, System

_AGAIN = "~"
# More paused processes of one container at a time than any supervisor makes; a bound, so that the search for a free one
# ends.
_MOST_FOLDERS = 8
"""The most folders of one task on a machine. Each but the last may be locked by a process that is paused."""

_log = logging.getLogger(__name__)

_IN_MEMORY: WeakKeyDictionary[System, dict[str, MemoryStore]] = WeakKeyDictionary()
"""The stores of pipelines on systems in memory. They live as long as the system, so that a later run finds them."""


def store_for(plan: Plan, task: str, system: System, settings: Settings, container: int = 0) -> TaskStore:
    """The store of a task that keeps state, as the last run of the container left it."""
    folder = state_folder(plan, system, settings, container)
    if folder is None:
        return _IN_MEMORY.setdefault(system, {}).setdefault(f"{plan.name}/{task}", MemoryStore())
    if isinstance(system, ProducingSystem):
        return _spare_store(folder, folder_name(task), settings)
    return _open(folder / folder_name(task), settings)


def _open(folder: Path, settings: Settings, *, spare: bool = False) -> RocksStore:
    buffer_bytes, cache_bytes = settings.rocksdb_buffer_bytes, settings.rocksdb_cache_bytes
    return RocksStore(folder, spare=spare, buffer_bytes=buffer_bytes, cache_bytes=cache_bytes)


def task_folders(plan: Plan, system: System, settings: Settings, task: str) -> list[Path]:
    """The folder of a task's store, if it exists and is the only copy of the state.

    On systems with changelogs the list is empty: their stores can be restored.
    """
    home = None if isinstance(system, ProducingSystem) else state_folder(plan, system, settings)
    return [] if home is None else [folder for folder in (home / folder_name(task),) if _holds_store(folder)]


def pipeline_folders(plan: Plan, system: System, settings: Settings) -> list[Path]:
    """The folders on this machine that contain all stores of a pipeline, and no queries of Spark."""
    folder = state_folder(plan, system, settings)
    if folder is None:
        return []
    folder = folder.parent if isinstance(system, ProducingSystem) else folder
    return without_queries(folder) if folder.exists() else []


def folder_name(task: str) -> str:
    """The name of a task's folder. Key buckets stand behind dots: a stage may be called as another one's bucket."""
    stage, _, suffix = task.rpartition("/")
    return re.sub(r"[^A-Za-z0-9._-]", "-", f"{stage}/{suffix.replace('-', '.')}")


def _spare_store(home: Path, name: str, settings: Settings) -> RocksStore:
    """The store of a task whose state has changelogs: the one that was written last and that no process has open.

    A paused process may still have the first folder open after another process has replaced it (ADR 0018). Then the
    store gets a folder of the same name with a number, and is restored. So it does where a folder cannot be opened,
    since it is another user's, say. Older folders that no process has open are removed.
    """
    folders = [home / name, *(home / f"{name}{_AGAIN}{number}" for number in range(2, _MOST_FOLDERS + 1))]
    existing = sorted(filter(_holds_store, folders), key=_changed_at, reverse=True)
    failed: list[SystemProblem] = []
    unlocked = [store for folder in existing if (store := _opened(folder, settings, failed)) is not None]
    # They are locked by now, so no paused process can come back to them while they are removed.
    for older in unlocked[1:]:
        older.remove()
    if unlocked:
        return unlocked[0]
    for folder in folders:
        # Another process may have locked the folder, and not filled it yet.
        if folder not in existing and (store := _opened(folder, settings, failed)) is not None:
            if failed:
                _log.warning("the store is restored into %s: %s", folder, failed[0])
            return store
    return _open(folders[0], settings, spare=True)


def _opened(folder: Path, settings: Settings, failed: list[SystemProblem]) -> RocksStore | None:
    """The store in a folder; None, and another error in `failed`, where it cannot be opened."""
    try:
        return _open(folder, settings, spare=True)
    except StoreLocked:
        return None
    except SystemProblem as error:
        failed.append(error)
        return None


def remove_others(plan: Plan, system: System, settings: Settings, container: int, tasks: Collection[str]) -> None:
    """Remove the stores of a container that are of other tasks than these, which are all that there are: of those that
    were split, or merged. What a process has open stays."""
    home = state_folder(plan, system, settings, container)
    names = {folder_name(task) for task in tasks}
    for folder in () if home is None else home.glob("*"):
        known = any(_of_stage(stage.id).fullmatch(folder.name) for stage in plan.stages)
        if known and without_number(folder) not in names and _holds_store(folder):
            with suppress(StoreLocked, OSError):  # it takes room, and does no harm
                _open(folder, settings, spare=True).remove()


def _of_stage(stage: str) -> re.Pattern[str]:
    """The names of the folders of a stage's tasks."""
    home = re.escape(folder_name(task_name(stage, 0)).removesuffix("0"))
    return re.compile(rf"({home}\d+(?:[.]\d+[.]\d+)?)(?:{_AGAIN}\d+)?")


def store_folders(plan: Plan, system: System, settings: Settings, stage: str) -> list[Path]:
    """The folders of a stage's stores on this machine, one for each task: the latest, if several containers had it."""
    wanted = _of_stage(stage)
    latest: dict[str, Path] = {}
    for folder in every_folder(plan, system, settings):
        if match := wanted.fullmatch(folder.name):
            latest[match[1]] = folder
    return [latest[name] for name in sorted(latest)]


def every_folder(plan: Plan, system: System, settings: Settings) -> list[Path]:
    """The folders of all stores of a pipeline on this machine, from the oldest write to the latest."""
    home = state_folder(plan, system, settings)
    if home is None:
        return []
    homes = sorted(home.parent.glob("container-*")) if isinstance(system, ProducingSystem) else [home]
    return sorted((one for home in homes for one in home.glob("*") if _holds_store(one)), key=_changed_at)


def number_in(folder: Path) -> str:
    """The number of the task whose store is in a folder, with its key bucket."""
    return without_number(folder).rpartition("-")[2]


def without_number(folder: Path) -> str:
    """The name of a task's folder, without the number of a second one."""
    return folder.name.partition(_AGAIN)[0]


def _holds_store(folder: Path) -> bool:
    return (folder / "CURRENT").exists()


def _changed_at(folder: Path) -> float:
    return max(file.stat().st_mtime for file in folder.iterdir())


def state_folder(plan: Plan, system: System, settings: Settings, container: int = 0) -> Path | None:
    """The folder of a pipeline's stores: beside the log, or in the working directory; None if they are in memory.

    On systems with changelogs each container has its own folder, since a container that was replaced may still have its
    stores open. On others all containers share one, since there is no other copy of the state.

    Raises SystemProblem if another user may have created the folder.
    """
    folder = _state_folder(plan, system, settings, container)
    if folder is not None:
        check_owner(folder)
    return folder


def _state_folder(plan: Plan, system: System, settings: Settings, container: int) -> Path | None:
    if (url := remote_folder(settings)) is not None:
        wrong = f"state_dir={url!r}: the local engine keeps its stores on a local disk"
        raise UsageError(explain(wrong, "a folder", "name one; a lost one is restored from changelogs on Kafka"))
    home = None if settings.state_dir is None else Path(settings.state_dir)
    if isinstance(system, ProducingSystem):
        return (home or Path(".fluvial", "state")) / plan.name / f"container-{container}"
    if home is not None:
        return home / plan.name
    scheme, _, folder = system.url.partition(":")
    return Path(folder) / "state" / plan.name if scheme == "log" else None
