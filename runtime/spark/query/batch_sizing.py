"""How many messages a batch takes at most, so that batches take about a wanted time.

Spark fixes the bound when a query starts. So a query is started again, between two batches, when another bound is
clearly better.
"""

from datetime import timedelta

LEAST = 100
"""The smallest bound."""
_CLEARLY = 1.5
"""By this factor another bound must differ to be worth a start."""
_AGREEING = 3
"""So many batches in a row must ask for it."""


class BatchSizer:
    """The bound of one query. It begins with `most`, and never exceeds it."""

    def __init__(self, target: timedelta, most: int) -> None:
        self.target = target.total_seconds()
        """How long a batch should take, in seconds."""
        self.bound = self._most = most
        self._wanted: list[int] = []
        self._warm = False

    def took(self, seconds: float, messages: int) -> None:
        """Note what a batch has taken. The first batch after a start compiles and loads, and does not count."""
        if self._warm and messages:
            wanted = int(messages * self.target / max(seconds, 1e-3))
            too_long = seconds > _CLEARLY * self.target and wanted * _CLEARLY < self.bound
            # A batch that was not full says nothing of a larger bound.
            too_short = messages >= 0.8 * self.bound and wanted > self.bound * _CLEARLY
            self._wanted = [*self._wanted, wanted] if too_long or too_short else []
        self._warm = True

    @property
    def due(self) -> bool:
        """Whether the query is to be started again with another bound."""
        return len(self._wanted) >= _AGREEING and self._next() != self.bound

    def begin(self) -> int:
        """The bound of a query that is started now."""
        if self.due:
            self.bound = self._next()
        self._wanted, self._warm = [], False
        return self.bound

    def _next(self) -> int:
        agreed = sorted(self._wanted[-_AGREEING:])[_AGREEING // 2]
        return max(LEAST, min(agreed, self._most))
