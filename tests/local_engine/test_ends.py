"""A run to the end goes to the end that its inputs had when it began."""

from collections.abc import Mapping
from datetime import timedelta

import pytest

from engines.targets import contents, write
from fluvial.dsl import MessageStream, Pipeline, count, tumbling
from fluvial.runtime import run
from fluvial.runtime.local.slices import SLICE
from fluvial.runtime.systems import MemorySystem
from fluvial.runtime.systems.contract import RecordBatch, StreamPartition
from fluvial.runtime.systems.memory import MemoryAdmin, MemoryConsumer

SECOND = timedelta(seconds=1)


def test_messages_that_come_meanwhile_are_a_later_runs() -> None:
    system = MemorySystem()
    late = [(b"k", b"2", 0, ())] * 3

    def more(value: str) -> str:
        """The first message of all is followed by others while it is processed."""
        if value == "1":
            write(system, {"in": [late, []]})
        return value

    pipeline = Pipeline("meanwhile")
    keyed = pipeline.stream("in", value=str, key=str).map(more)
    keyed.window(tumbling(SECOND), count(), id="w").map(lambda pane: pane.value).send_to("out")
    # The other partition keeps the run going for some turns.
    write(system, {"in": [[(b"k", b"1", 0, ()), (b"k", b"0", 0, ())], [(b"j", b"0", 0, ())] * 3 * SLICE]})
    assert run(pipeline, system=system, until="end").read == {"in": 2 + 3 * SLICE}
    assert run(pipeline, system=system, until="end").read == {"in": 3}
    assert {record[1] for record in contents(system, "out")} == {
        b"15000",
        b"2",
        b"5",
    }  # the window of the first run goes on


class _Gaps(MemoryConsumer):
    """Reads a stream of which records were removed: offsets are doubled, so that every other one holds none."""

    def assign(self, positions: Mapping[StreamPartition, int]) -> None:
        super().assign({partition: (at + 1) // 2 for partition, at in positions.items()})

    def poll(self, timeout: float = 0.0, wanted: frozenset[StreamPartition] | None = None) -> list[RecordBatch]:
        found = super().poll(timeout, wanted)
        doubled = [(batch, [2 * offset for offset in batch.offsets]) for batch in found]
        return [RecordBatch(b.stream, b.partition, at, b.records, 2 * b.next_offset) for b, at in doubled]


class _Ends(MemoryAdmin):
    def ends(self, stream: str) -> list[int]:
        return [2 * end for end in super().ends(stream)]


class _GappedSystem(MemorySystem):
    def __init__(self, plain: MemorySystem) -> None:
        self._memory = plain._memory

    def admin(self) -> MemoryAdmin:
        return _Ends(self._memory)

    def consumer(self, *, max_records: int = 10_000) -> MemoryConsumer:
        return _Gaps(self._memory, max_records)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_offsets_may_have_gaps_at_the_end_of_a_stream_too(asynchronous: bool) -> None:
    async def at_once(value: str) -> list[str]:
        return [value]

    system, pipeline = MemorySystem(), Pipeline("gaps")
    source: MessageStream[str] = pipeline.stream("in", value=str)
    source = source.async_flat_map(at_once, id="call") if asynchronous else source
    source.partition_by(str, id="by", key_type=str).send_to("out", value=str)
    for value in (b"1", b"2"):
        write(system, {"in": [[(None, value, 0, ())] * 3]})
        assert run(pipeline, system=_GappedSystem(system), until="end").read == {"in": 3, "gaps-by": 3}
    assert [record[1] for record in contents(system, "out")] == [b"1"] * 3 + [b"2"] * 3


def test_what_lies_before_an_end_may_be_a_gap_alone() -> None:
    batch = RecordBatch("in", 0, [7, 9], [(None, b"7", 0, ()), (None, b"9", 0, ())])
    assert [(list(part.offsets), part.next_offset) for part in map(batch.before, (5, 8, 9, 10))] == [
        ([], 5),
        ([7], 8),
        ([7], 9),
        ([7, 9], 10),
    ]


def test_what_tells_the_time_across_a_border_is_not_counted() -> None:
    system = MemorySystem()
    write(system, {"in": [[(None, b"1", 0, ())], []]})
    pipeline = Pipeline("counted")
    pipeline.stream("in", value=str).partition_by(str, id="by", key_type=str).send_to("out")
    report = run(pipeline, system=system, until="end")
    assert report.read == {"in": 1, "counted-by": 1}
    assert report.written == {"counted-by": 1, "out": 1}
