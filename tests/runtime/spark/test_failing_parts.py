"""A query that fails ends the run, though those of the other parts could go on for ever."""

from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the engine needs pyspark")

from pyspark.errors import StreamingQueryException

from fluvial.dsl import SystemProblem
from fluvial.runtime.spark import engine


class Query:
    """Stands for a query of Spark's."""

    def __init__(self, error: Exception | None) -> None:
        self.isActive = error is None
        self._error = error

    def exception(self) -> Exception | None:
        return self._error

    def awaitTermination(self, _: float) -> None:  # noqa: N802 - the name of Spark
        """It goes on."""

    def stop(self) -> None:
        self.isActive = False


class Watch:
    """Waits for five turns, then wishes to stop."""

    turns = 0

    def stop(self) -> bool:
        self.turns += 1
        return self.turns > 5

    def tell(self) -> None:
        """Nobody listens."""


def test_a_query_that_fails_ends_the_run() -> None:
    going_on, watch = Query(None), Watch()
    run_all: Any = engine._run_all
    with pytest.raises(SystemProblem, match="lost its way"):
        run_all([lambda: going_on, lambda: Query(StreamingQueryException("lost its way"))], watch)
    assert (watch.turns, going_on.isActive) == (1, False)


def test_a_query_that_does_not_start_ends_those_that_have() -> None:
    going_on = Query(None)

    def refuse() -> Query:
        raise OSError("no room for its checkpoint")

    run_all: Any = engine._run_all
    with pytest.raises(OSError, match="no room"):
        run_all([lambda: going_on, refuse], Watch())
    assert not going_on.isActive
