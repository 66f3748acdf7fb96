"""A warning for each table that is given messages without a key."""

import logging
from collections.abc import Iterable, Mapping

from ...dsl.pipeline import Pipeline
from ...dsl.validation import explain

LOGGER = "fluvial.tables"
"""Where the warnings are logged."""

_log = logging.getLogger(LOGGER)


class KeylessWarning:
    """Warns once in a run for each table that is given messages without a key."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._warned: set[str] = set()

    def check(self, counts: Iterable[Mapping[str, int]]) -> None:
        """Check the counts of messages without a key so far: for each task, by table."""
        totals: dict[str, int] = {}
        for part in counts:
            for table, number in part.items():
                totals[table] = totals.get(table, 0) + number
        for table in totals.keys() - self._warned:
            self._warned.add(table)
            wrong = (
                f"table {table!r} was given messages without a key, {totals[table]:,} by now, and does not keep them"
            )
            expected = "a key for each row: a table is the latest row of each key"
            remedy = "write the keys, with --key-field for one; report and metrics go on to count them as keyless"
            _log.warning(explain(wrong, expected, remedy, self._pipeline.operator(table).origin))
