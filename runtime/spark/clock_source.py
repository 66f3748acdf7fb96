"""The clock: a small source that is part of every query from its first start, and can end the input.

Spark runs a batch only when a source has something new. This one has, whenever the file it watches says so: that is how
a run "to the end" gets its closing batch, in which every window fires. A later run on the same checkpoint goes on.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from .rows import ENDED, SPARK_SCHEMA, Row


@dataclass
class _End(InputPartition):
    """The end of input number `number`."""

    number: int


class ClockDataSource(DataSource):
    """Spark's name for the clock."""

    @classmethod
    def name(cls) -> str:
        return "fluvial_clock"

    def schema(self) -> str:
        return SPARK_SCHEMA

    def streamReader(self, schema: Any) -> "ClockReader":
        return ClockReader(Path(self.options["file"]), closing=self.options["closing"] == "true")


def ends_told(file: Path) -> int:
    """How many ends of input have been told so far."""
    return int(file.read_text()) if file.exists() else 0


def tell_end(file: Path) -> None:
    """Say that the input has ended, once more."""
    told = ends_told(file) + 1
    fresh = file.with_suffix(".new")
    fresh.write_text(str(told))
    fresh.replace(file)


class ClockReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets count the ends of input. Only a `closing` query takes in new ones: an end that was told before a crash
    must not close windows in the middle of a later run's input."""

    def __init__(self, file: Path, *, closing: bool) -> None:
        self._file = file
        self._closing = closing

    def initialOffset(self) -> dict[str, int]:
        return {"ends": 0}

    def prepareForTriggerAvailableNow(self) -> None:
        """Nothing new comes while a query runs."""

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        return {"ends": ends_told(self._file)} if self._closing else start

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [_End(end["ends"])] if start["ends"] < end["ends"] else []

    def read(self, partition: InputPartition) -> Iterator[Row]:
        yield 0, 0, ENDED, "", 0, 0, None, None, 0, None
