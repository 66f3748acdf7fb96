"""Where a task's outputs go: by key to a partition, or to a sink."""

from collections.abc import Sequence
from typing import Any

from fluvial.dsl import Message, Pipeline
from fluvial.dsl.message import Record
from fluvial.planner import plan
from fluvial.runtime.local.output_router import Router
from fluvial.runtime.systems.partitioner import partition_of


class Kept:
    """A sink, and staged outputs: keeps what it is given."""

    def __init__(self) -> None:
        self.by_place: dict[tuple[str, int], list[Record]] = {}
        self.given: list[Any] = []
        self.flushed = 0
        self.size = 0

    def append(self, stream: str, partition: int, records: Sequence[Record]) -> None:
        self.by_place.setdefault((stream, partition), []).extend(records)

    def open(self) -> None:
        """Nothing to open."""

    def write(self, messages: Sequence[Message[str]]) -> None:
        self.given += messages

    def flush(self) -> None:
        self.flushed += 1

    def close(self) -> None:
        """Nothing to close."""


def record(key: bytes | None) -> Record:
    return (key, b"v", 0, ())


def router(kept: Kept, task: int = 0) -> Router:
    pipeline = Pipeline("p")
    words = pipeline.stream("in", value=str)
    words.send_to("out")
    words.sink(kept, id="sink")
    made = plan(pipeline, partitions={"in": 4, "out": 4})
    return Router(made, made.stages[0].id, task)


def test_records_of_a_key_go_to_its_partition() -> None:
    kept = Kept()
    keys = [b"%d" % number for number in range(20)]
    router(kept).route("send_to-2", [record(key) for key in keys], kept)
    found = {key: partition for (_, partition), records in kept.by_place.items() for key, *_ in records}
    assert found == {key: partition_of(key, 4) for key in keys}


def test_records_without_key_go_to_one_partition_of_the_task() -> None:
    kept = Kept()
    router(kept, task=6).route("send_to-2", [record(None)] * 3, kept)
    assert {place: len(records) for place, records in kept.by_place.items()} == {("out", 2): 3}


def test_outputs_are_counted_and_flushed() -> None:
    kept = Kept()
    made = router(kept)
    assert not made.unflushed
    made.route("sink", [1, 2], kept)
    made.route("send_to-2", [record(b"a")], kept)
    assert (made.unflushed, kept.given, made.written) == (True, [1, 2], {"sink": 2, "out": 1})
    made.flush()
    assert (made.unflushed, kept.flushed) == (False, 1)
