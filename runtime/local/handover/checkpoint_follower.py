"""The last checkpoints of a pipeline whose containers run, as they are written."""

from ....planner.stream_names import checkpoints as checkpoints_of
from ...systems.contract import ProducingSystem
from ..checkpoints.checkpoint import Checkpoint, checkpoints_in, decode


class CheckpointFollower:
    """Reads the checkpoints of a pipeline, and goes on with those that are written since. One thread may use it.

    `checkpoints` has the last one of each task, as of the last `read`."""

    def __init__(self, system: ProducingSystem, pipeline: str) -> None:
        stream = checkpoints_of(pipeline)
        position = system.admin().ends(stream)[0]
        # After the position: a checkpoint that is written in between is read twice, and not missed.
        self.checkpoints: dict[str, Checkpoint] = dict(checkpoints_in(system, pipeline))
        self._consumer = system.consumer(committed=True)
        self._consumer.assign({(stream, 0): position})

    def read(self, timeout: float) -> None:
        """Read what was written since the last time. Waits up to `timeout` seconds if there is nothing."""
        for batch in self._consumer.poll(timeout):
            for key, value, _, _ in batch.records:
                if value is not None:
                    task = (key or b"").decode(errors="replace")
                    read, known = decode(value, task), self.checkpoints.get(task)
                    if known is None or read.number >= known.number:
                        self.checkpoints[task] = read

    def close(self) -> None:
        """Stop reading."""
        self._consumer.close()
