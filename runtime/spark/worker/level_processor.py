"""One level of a query, as Spark carries it to its processes.

Spark starts a process for each level of each query that only asks for the names of its state. So this module imports
neither the kernel nor pandas: such a process starts in half of the time.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyspark.cloudpickle
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

if TYPE_CHECKING:
    import pandas as pd

    from ..lowering.shipped_plan import ShippedPlan
    from .outputs import Outputs

_cloudpickle: Any = pyspark.cloudpickle  # has no types


class _MapStateBlobs:
    """The state of a bucket in Spark's map state: bytes by name."""

    def __init__(self, state: Any) -> None:
        self._state = state

    def get(self, name: bytes) -> bytes | None:
        value = self._state.getValue((name,))
        return None if value is None else bytes(value[0])

    def put(self, name: bytes, data: bytes) -> None:
        self._state.updateValue((name,), (data,))

    def remove(self, name: bytes) -> None:
        self._state.removeKey((name,))


class LevelProcessor(StatefulProcessor):
    """One level of a query. It processes the rows of its own level and passes on those of later levels."""

    def __init__(self, shipped: "ShippedPlan", level: int, outputs: "Outputs") -> None:
        self._level = level
        # Pickled apart: who loads the processor does not load the modules of these.
        self._work = _cloudpickle.dumps((shipped, outputs))

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Called by Spark before the first rows: opens the pages of state."""
        self._state = handle.getMapState("pages", "name binary", "data binary")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> "Iterator[pd.DataFrame]":
        """Called by Spark with the rows of one key bucket in a batch: returns the rows that leave the level."""
        import pandas as pd  # noqa: PLC0415

        from ..rows import NAMES  # noqa: PLC0415
        from .keyed_level import process_bucket  # noqa: PLC0415

        blocks: list[bytes] = []
        for frame in rows:
            here = frame["level"] == self._level
            if not here.all():
                yield frame[~here]
            blocks.extend(frame["block"][here])
        shipped, outputs = _cloudpickle.loads(self._work)
        with outputs() as output:
            state = _MapStateBlobs(self._state)
            new_rows = process_bucket(shipped, self._level, int(key[0]), blocks, state, output)
        if new_rows:
            yield pd.DataFrame(new_rows, columns=list(NAMES))

    def close(self) -> None:
        """Nothing: the outputs of a bucket are closed before its rows are returned."""
