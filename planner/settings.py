"""Settings: what a run may be told besides its pipeline."""

from datetime import timedelta
from typing import Literal

from msgspec import Struct

from ..dsl.errors import UsageError

Guarantee = Literal["at_least_once", "exactly_once"]
"""What a crash may do to what readers see."""


class Settings(Struct, frozen=True, kw_only=True):
    """Settings of a plan and of a run; every field has a default that suits most. A wrong one raises `UsageError`.

    >>> Settings(commit_interval=timedelta(milliseconds=500)).guarantee
    'at_least_once'

    guarantee                what a crash may do: `at_least_once` repeats outputs, `exactly_once` shows each once
    commit_interval          time between two checkpoints of a task
    intermediate_partitions  partitions of intermediate streams; None: the most that an input or output has
    output_partitions        partitions of outputs that do not exist yet; None: as many as the stage has tasks
    offset_default           where to read a stream that has no checkpoint: "earliest" or "latest"
    state_dir                folder of the local engine's stores; None: beside the log, or a temporary folder
    max_staged_bytes         a task commits early once it has staged this many bytes of output
    cached_entries           entries a store keeps decoded in memory
    stall_timeout            give up with exit code 6 after this long without progress while there is input
    spark_buckets            key buckets of Spark's stateful operators; frozen with the checkpoint
    spark_shuffle_partitions tasks of Spark's stateful operators; None: as many as cores, at most one for each bucket
    spark_batch_records      most messages of one partition in one Spark batch
    spark_trigger_interval   time between two Spark batches of a run that goes on; 0: as fast as they come
    """

    guarantee: Guarantee = "at_least_once"
    commit_interval: timedelta = timedelta(seconds=1)
    intermediate_partitions: int | None = None
    output_partitions: int | None = None
    offset_default: Literal["earliest", "latest"] = "earliest"
    state_dir: str | None = None
    max_staged_bytes: int = 32 << 20
    cached_entries: int = 200_000
    stall_timeout: timedelta = timedelta(minutes=5)
    spark_buckets: int = 8
    spark_shuffle_partitions: int | None = None
    spark_batch_records: int = 100_000
    spark_trigger_interval: timedelta = timedelta(0)

    def __post_init__(self) -> None:
        if self.guarantee not in ("at_least_once", "exactly_once"):
            raise UsageError(f"guarantee={self.guarantee!r}\n  expected: 'at_least_once' or 'exactly_once'")
        for name in (
            "intermediate_partitions",
            "output_partitions",
            "spark_buckets",
            "spark_shuffle_partitions",
            "spark_batch_records",
        ):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or value < 1):
                raise UsageError(f"{name}={value!r}\n  expected: a whole number, 1 or more")
        for name in ("commit_interval", "stall_timeout", "spark_trigger_interval"):
            value = getattr(self, name)
            if not isinstance(value, timedelta) or value < timedelta(0):
                raise UsageError(f"{name}={value!r}\n  expected: a timedelta, not negative")
