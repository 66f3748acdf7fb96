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
    from ..rows import Row
    from .inbox import Inbox
    from .keyed_level import LevelTask
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
        self._task: LevelTask | None = None
        self._failed = False
        # Pickled apart: who loads the processor does not load the modules of these.
        self._work = _cloudpickle.dumps((shipped, outputs))

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Called by Spark before the first rows: opens the pages of state."""
        self._state = handle.getMapState("pages", "name binary", "data binary")

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
        """Called by Spark in the first batch of a query that begins with state: names and blobs of one key bucket."""
        blobs = _MapStateBlobs(self._state)
        for name, data in zip(initialState["name"], initialState["data"], strict=True):
            blobs.put(bytes(name), bytes(data))

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> "Iterator[pd.DataFrame]":
        """Called by Spark with the rows of one key bucket in a batch: returns the rows that leave the level."""
        import pandas as pd  # noqa: PLC0415

        from ..rows import NAMES  # noqa: PLC0415
        from .inbox import Inbox  # noqa: PLC0415

        with Inbox() as inbox:
            for frame in rows:
                here = frame["level"] == self._level
                if not here.all():
                    yield frame[~here]
                inbox.extend(frame["block"][here])
            if inbox.empty or self._failed:
                return
            for new_rows in self._process(int(key[0]), inbox):
                if new_rows:
                    yield pd.DataFrame(new_rows, columns=list(NAMES))

    def _process(self, label: int, inbox: "Inbox") -> "Iterator[list[Row]]":
        from .error_texts import failure_rows  # noqa: PLC0415

        task = self._task = self._task or self._begun(label)
        try:
            yield from task.process(self._buckets.of_label[label], inbox, _MapStateBlobs(self._state))
        # It travels as rows, and the driver fails the batch: if it were raised, Spark would run the task again.
        except BaseException as error:
            self._task, self._failed = None, True
            task.__exit__(type(error), error, error.__traceback__)
            yield failure_rows(error, self._outputs)

    def _begun(self, label: int) -> "LevelTask":
        """The level in this task of Spark's, which has come to its first bucket."""
        from ..batch_times import times_of_batch  # noqa: PLC0415
        from ..lowering.packaging import unpack  # noqa: PLC0415
        from .keyed_level import LevelTask  # noqa: PLC0415

        shipped, self._outputs = _cloudpickle.loads(self._work)
        self._buckets = unpack(shipped)[0].buckets
        # With one address for all, what leaves the query wakes one bucket of this task at each later level.
        return LevelTask(shipped, self._level, times_of_batch(), label, self._outputs)

    def close(self) -> None:
        """Called by Spark behind the last bucket of a task: closes the outputs."""
        task, self._task = self._task, None
        if task is not None:
            task.__exit__(None, None, None)
