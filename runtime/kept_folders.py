"""What lies in a pipeline's folder below `state_dir`: both engines may keep theirs there, and remove their own alone.

A store of the local engine is a folder in it, or in that of a container; a query of Spark's is one in that of a stage.
"""

from pathlib import Path

_OF_A_QUERY = ("query", "starts", "spark")


def holds_query(folder: Path) -> bool:
    """Whether a folder holds the checkpoint of a query of Spark's, and what lies beside it."""
    return any((folder / name).exists() for name in _OF_A_QUERY)


def without_queries(folder: Path) -> list[Path]:
    """A pipeline's folder; where it holds queries of Spark's, the folders in it that hold none."""
    of_spark = {query.parent for query in folder.glob("*/*") if holds_query(query)}
    return sorted({*folder.iterdir()} - of_spark) if of_spark else [folder]
