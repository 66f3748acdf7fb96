"""What lies in a pipeline's folder below `state_dir`: both engines may keep theirs there, and remove their own alone.

A store of the local engine is a folder in it, or in that of a container; a query of Spark's is one in that of a stage.
"""

from pathlib import Path

from ...planner.settings import Settings
from ..systems.contract import ProducingSystem, System
from ..systems.log import LogSystem

_OF_A_QUERY = ("query", "starts", "spark")
_ON_KAFKA = Path(".fluvial", "kafka", "spark")
_REMOVING = ".removing-queries"


def queries_folder(system: System, settings: Settings) -> Path | None:
    """Where pipelines have their queries on Spark: `state_dir`, else a folder beside the streams; None for a system
    that Spark cannot read."""
    home = None if settings.state_dir is None else Path(settings.state_dir)
    if isinstance(system, LogSystem):
        return home or system.directory / "spark"
    return home or _ON_KAFKA if isinstance(system, ProducingSystem) else None


def holds_query(folder: Path) -> bool:
    """Whether a folder holds the checkpoint of a query of Spark's, and what lies beside it."""
    return any((folder / name).exists() for name in _OF_A_QUERY)


def removing_queries(folder: Path) -> Path:
    """The file whose presence tells that all queries of the pipeline that a folder belongs to are to be removed. A
    reset makes it first: cut off between two queries, it would leave some to go on beside others that begin anew."""
    return folder / _REMOVING


def has_begun_queries(folder: Path) -> bool:
    """Whether a query of the pipeline that this folder belongs to has planned a batch, and is not to be removed."""
    if removing_queries(folder).exists():
        return False
    return any(any(offsets.iterdir()) for offsets in folder.glob("*/*/spark/offsets"))


def without_queries(folder: Path) -> list[Path]:
    """A pipeline's folder; where it holds queries of Spark's, the folders in it that hold none."""
    of_spark = {query.parent for query in folder.glob("*/*") if holds_query(query)}
    return sorted({*folder.iterdir()} - of_spark - {removing_queries(folder)}) if of_spark else [folder]
