"""The folder of a pipeline below `state_dir`. Both engines may use it, and each removes only its own files.

The local engine has a folder for each store, on Kafka below that of the container. Spark has one for each query, below
that of a stage.
"""

import re
from pathlib import Path
from typing import TypeVar

from ...planner.settings import Settings
from ..systems.contract import ProducingSystem, System
from ..systems.log import LogSystem
from .checkpoint_path import CheckpointPath

Folder = TypeVar("Folder", bound=CheckpointPath)

_OF_A_QUERY = ("query", "starts", "spark")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
"""How a URL begins: Hadoop takes `dbfs:/x` and `hdfs:/x` for its own default host."""
_ON_KAFKA = Path(".fluvial", "kafka", "spark")
_REMOVING = ".removing-queries"


def remote_folder(settings: Settings) -> str | None:
    """The URL of `state_dir` if it is one: of a folder on a file system that Spark alone reaches."""
    return settings.state_dir if settings.state_dir is not None and _URL.match(settings.state_dir) else None


def queries_folder(system: System, settings: Settings) -> Path | None:
    """The folder of all queries on Spark, on a local disk: `state_dir`, else a folder beside the streams. None for a
    system that Spark cannot read, and if `state_dir` is the URL of another file system."""
    if remote_folder(settings) is not None:
        return None
    home = None if settings.state_dir is None else Path(settings.state_dir)
    if isinstance(system, LogSystem):
        return home or system.directory / "spark"
    return home or _ON_KAFKA if isinstance(system, ProducingSystem) else None


def holds_query(folder: CheckpointPath) -> bool:
    """Whether a folder is that of a query on Spark, with its checkpoint."""
    return any((folder / name).exists() for name in _OF_A_QUERY)


def removing_queries(folder: Folder) -> Folder:
    """The file that marks all queries of a pipeline's folder as to be removed. A reset creates it first: if it crashed
    between two queries, some would continue while others start over."""
    return folder / _REMOVING


def has_begun_queries(folder: Path) -> bool:
    """Whether a query in a pipeline's folder has planned a batch, and is not marked as to be removed."""
    if removing_queries(folder).exists():
        return False
    return any(any(offsets.iterdir()) for offsets in folder.glob("*/*/spark/offsets"))


def without_queries(folder: Path) -> list[Path]:
    """A pipeline's folder; if it has queries of Spark, the folders in it that have none."""
    of_spark = {query.parent for query in folder.glob("*/*") if holds_query(query)}
    return sorted({*folder.iterdir()} - of_spark - {removing_queries(folder)}) if of_spark else [folder]
