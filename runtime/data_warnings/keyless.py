"""Messages without a key that tables were given: the first of them is warned of."""

import logging
from collections.abc import Iterable, Mapping

from ...dsl.pipeline import Pipeline
from ...dsl.validation import explain

LOGGER = "fluvial.tables"
"""Where the warnings are logged."""

_log = logging.getLogger(LOGGER)


class KeylessWarning:
    """Warns of each table once in a run."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._warned: set[str] = set()

    def look(self, counts: Iterable[Mapping[str, int]]) -> None:
        """Take in how many messages without a key each table was given by now, by task."""
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
