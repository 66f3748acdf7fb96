"""What a container has read for all of its tasks, and the keys that most of the messages of a key bucket have."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from ....dsl.serde import source_key_serde
from ...files import shown, unobeyed
from ...metrics.space_saving import SpaceSaving
from ...report import HotKey, Sample, hottest_first
from ...systems.contract import RecordBatch, StreamPartition
from ..task import LocalTask

SAMPLED_EVERY = 251
"""One message of so many is looked at for its key. A prime: else messages of keys that come in turns could be passed
over again and again."""
FEWEST_SAMPLED = 32
"""Of fewer messages nothing is said."""
MOST_KEYS = 5
"""Keys of one input of a task that are reported."""
LEAST_SHARE = 0.05
"""A key with less of the messages of its key bucket is not what makes that slow."""
MOST_KEY_BYTES = 1024
"""Longer keys are not sampled: a task keeps up to 64 of each input in memory."""
# A key is shown in one line of a terminal beside its stream and its share.
MOST_KEY_CHARACTERS = 64


class InputCounts:
    """Counts what a container reads. `key_bucket_seconds` is the time in which the key buckets of messages were
    computed, which `ContainerInputs` updates."""

    def __init__(self, tasks: Sequence[LocalTask] = ()) -> None:
        self.key_bucket_seconds = 0.0
        self._read: dict[StreamPartition, int] = {}
        self._keys: dict[StreamPartition, dict[int, SpaceSaving]] = {}
        self.follow(tasks)

    def follow(self, tasks: Sequence[LocalTask]) -> None:
        """Count for these tasks from now on. The keys of those that it has counted for stay known."""
        self._tasks, before = tasks, self._keys
        self._keys = {}
        for task in tasks:
            for stream, number in task.queues.positions:
                if task.program.graph.inputs[stream].split:
                    known = before.get((stream, number), {}).get(task.setup.bucket)
                    self._keys.setdefault((stream, number), {})[task.setup.bucket] = known or SpaceSaving()

    def add(self, batch: RecordBatch) -> None:
        """Count a batch that was read, and sample the keys of its messages."""
        partition, number = (batch.stream, batch.partition), len(batch.records)
        self._read[partition] = self._read.get(partition, 0) + number
        if batch.buckets:
            keys = self._keys[partition]
            for at in range(-batch.offsets[0] % SAMPLED_EVERY, number, SAMPLED_EVERY):
                key, sketch = batch.records[at][0], keys.get(batch.buckets[at])
                if key is not None and sketch is not None and len(key) <= MOST_KEY_BYTES:
                    sketch.add(key)

    def samples(self) -> Iterator[Sample]:
        """The samples of the container's metrics."""
        yield Sample("tasks", len(self._tasks))
        for (stream, number), read in self._read.items():
            yield Sample("container_messages_read", read, (stream, str(number)))
        if self._keys:
            yield Sample("key_bucket_seconds", self.key_bucket_seconds)

    def hot_keys(self) -> tuple[HotKey, ...]:
        """The hottest keys of each input of a task that is split, the hottest first."""
        return hottest_first(one for task in self._tasks for one in self._hot_keys_of(task))

    def _hot_keys_of(self, task: LocalTask) -> Iterator[HotKey]:
        for stream, number in task.queues.positions:
            keys = self._keys.get((stream, number), {}).get(task.setup.bucket)
            if keys is None or keys.total < FEWEST_SAMPLED:
                continue
            type_ = task.program.flows[task.program.graph.inputs[stream].writer].key
            for hot in keys.hottest(MOST_KEYS):
                if hot.at_least >= LEAST_SHARE:
                    yield HotKey(task.name, stream, key_text(type_, hot.key), round(hot.at_least, 3))


def key_text(type_: Any, key: bytes) -> str:
    """A key of this type or Serde as JSON, on one line that terminals do not interpret; what cannot be decoded is shown
    as text or in base64.

    >>> key_text(int, (17).to_bytes(8)), key_text(str, b"ada"), key_text(int, b"ada")
    ('17', '"ada"', '"ada"')
    """
    try:
        value = source_key_serde(type_).decode(key)
        value = shown(value) if isinstance(value, bytes) else msgspec.to_builtins(value, enc_hook=str, str_keys=True)
    except Exception:  # a Serde of a user's may raise anything
        value = shown(key)
    text = unobeyed(msgspec.json.encode(value)).decode()
    return text if len(text) <= MOST_KEY_CHARACTERS else f"{text[: MOST_KEY_CHARACTERS - 1]}…"
