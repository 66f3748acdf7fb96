"""Pages of a bucket's state against a dictionary."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

pytest.importorskip("pyspark", reason="the Spark engine is tested where pyspark is installed")

from engines.spark_in_process import Blobs
from fluvial.runtime.kernel.chunked_values import CHUNK, chunk_prefix
from fluvial.runtime.kernel.state_backend import Change
from fluvial.runtime.kernel.state_cache import KeyedState
from fluvial.runtime.kernel.time.position import Position
from fluvial.runtime.spark.worker import state_pages as pages
from fluvial.runtime.spark.worker.state_pages import PageIndex, StatePages

KEYS = st.binary(min_size=1, max_size=3)
BATCHES = st.lists(st.dictionaries(KEYS, st.none() | st.binary(max_size=3)), max_size=6)
PREFIXES = st.sampled_from([b"w\0%c" % letter for letter in b"abcdefgh"])
CHANGES = st.lists(st.tuples(PREFIXES, st.none() | KEYS, st.none() | st.binary(max_size=3)), max_size=12)
"""Of several prefixes; without a key a whole prefix is removed."""


@given(BATCHES, st.integers(1, 4))
def test_pages_hold_what_was_last_written(batches: list[Mapping[bytes, bytes | None]], full: int) -> None:
    blobs, model = Blobs(), dict[bytes, bytes]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pages, "FULL", full)
        patch.setattr(pages, "FULL_BYTES", 4 * full)
        for batch in batches:
            StatePages(blobs).write([(b"w\0k", key, value) for key, value in batch.items()])
            model.update({key: value for key, value in batch.items() if value is not None})
            for key in [key for key, value in batch.items() if value is None]:
                model.pop(key, None)
    found = StatePages(blobs)
    assert dict(found.scan(b"w\0k")) == model
    assert all(found.get(b"w\0k", key) == value for key, value in model.items())


@given(st.lists(CHANGES, max_size=6), st.integers(1, 6))
def test_prefixes_with_few_entries_share_pages_and_leave_them_when_they_grow(
    batches: list[list[Change]], full: int
) -> None:
    blobs, model = Blobs(), dict[tuple[bytes, bytes], bytes]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pages, "FULL", 4 * full)
        patch.setattr(pages, "FULL_BYTES", 16 * full)
        for batch in batches:
            StatePages(blobs).write(batch)
            for prefix, key, value in batch:
                for other in [other for other in model if other[0] == prefix] if key is None else []:
                    del model[other]
                if key is not None and value is not None:
                    model[prefix, key] = value
                elif key is not None:
                    model.pop((prefix, key), None)
    found = StatePages(blobs)
    assert {(prefix, key): value for prefix in found.index.prefixes for key, value in found.scan(prefix)} == model
    assert all(found.get(*place) == value for place, value in model.items())
    assert {prefix for prefix, _ in model} == set(found.index.prefixes)
    small = {prefix for prefix, size in found.index.prefixes.items() if not size.pages}
    assert found.index.shared_bytes == sum(len(key) + len(value) for (of, key), value in model.items() if of in small)
    if not model:
        assert list(blobs.data) in ([], [b"\0index"])


def test_many_windows_of_few_keys_take_few_pages() -> None:
    blobs = Blobs()
    StatePages(blobs).write([(b"w\0t%08d\0" % time, b"%d" % key, b"1") for time in range(500) for key in range(3)])
    assert len(blobs.data) == 2


def test_pages_of_large_entries_are_as_large_as_those_of_many() -> None:
    blobs = Blobs()
    StatePages(blobs).write([(b"w\0k", b"%d" % number, bytes(pages.FULL_BYTES // 8)) for number in range(100)])
    sizes = [len(page) for name, page in blobs.data.items() if name.startswith(b"w\0k")]
    assert sum(sizes) / len(sizes) <= pages.FULL_BYTES * 1.1
    StatePages(blobs).write([(b"w\0k", b"one", bytes(pages.FULL_BYTES * 50))])
    assert len(StatePages(blobs).get(b"w\0k", b"one") or b"") == pages.FULL_BYTES * 50
    StatePages(blobs).write([(b"w\0k", b"%d" % number, None) for number in range(100)])
    StatePages(blobs).write([(b"w\0k", b"one", None)])
    assert len(blobs.data) == 1


def test_bytes_that_an_earlier_version_did_not_count_are_counted_once_pages_double() -> None:
    blobs = Blobs()
    before = StatePages(blobs)
    before.write([(b"w\0k", b"%d" % number, bytes(1000)) for number in range(9)])
    before.index.prefixes[b"w\0k"].bytes = 0
    before.write([(b"w\0k", b"0", b"1")])
    assert before.index.prefixes[b"w\0k"].bytes == 2
    before.write([(b"w\0k", b"large %d" % number, bytes(pages.FULL_BYTES)) for number in range(2)])
    held = [*before.scan(b"w\0k")]
    assert len(held) == 11
    assert before.index.prefixes[b"w\0k"].bytes == sum(len(key) + len(value) for key, value in held)


def test_a_batch_reads_no_page_of_large_values_that_it_does_not_use() -> None:
    class Read(Blobs):
        """Tells what was read."""

        def __init__(self) -> None:
            super().__init__()
            self.names: list[bytes] = []

        def get(self, name: bytes) -> bytes | None:
            self.names.append(name)
            return super().get(name)

    blobs = Read()
    for key, value in ((b"large", bytes(10 * CHUNK)), (b"small", b"1"), (b"small", b"2")):
        blobs.names.clear()
        before = StatePages(blobs)
        state = KeyedState("w", before, bytes, bytes, complete=not before.index.prefixes)
        state.cache.fresh[key] = value
        before.write(state.changes())
        assert key == b"large" or not any(name.startswith(chunk_prefix(b"w\0k")) for name in blobs.names)
    assert any(name.startswith(chunk_prefix(b"w\0k")) for name in blobs.data)


def test_a_prefix_is_forgotten_as_a_whole() -> None:
    blobs = Blobs()
    StatePages(blobs).write([(prefix, b"%d" % number, b"1") for prefix in (b"w\0a", b"w\0b") for number in range(9)])
    StatePages(blobs).write([(b"w\0a", b"3", b"2"), (b"w\0a", None, None), (b"w\0a", b"4", b"new")])
    found = StatePages(blobs)
    assert dict(found.scan(b"w\0a")) == {b"4": b"new"}
    assert [key for key, _ in found.scan(b"w\0b")] == [b"%d" % number for number in range(9)]


def test_an_emptied_prefix_leaves_nothing_but_the_index() -> None:
    blobs = Blobs()
    StatePages(blobs).write([(b"w\0k", b"a", b"1")])
    StatePages(blobs).write([(b"w\0k", b"a", None)])
    assert len(blobs.data) == 1
    assert StatePages(blobs).get(b"w\0k", b"a") is None


def test_prefixes_name_the_times_that_hold_values() -> None:
    blobs = Blobs()
    time = b"w\0t" + bytes(8) + b"\0"
    StatePages(blobs).write([(time, b"a", b"1"), (b"w\0k", b"b", b"2")])
    assert list(StatePages(blobs).prefixes(b"w\0t")) == [time]


def test_a_reset_removes_the_state_of_an_operator_once() -> None:
    blobs = Blobs()
    kept = StatePages(blobs)
    kept.write([(b"w\0k", b"a", b"1"), (b"w\0t12345678\0", b"a", b"2"), (b"wide\0k", b"a", b"3")])
    kept = StatePages(blobs)
    kept.reset({"w": 1})
    kept.write([])
    kept = StatePages(blobs)
    assert [*kept.scan(b"w\0k"), *kept.scan(b"w\0t12345678\0"), *kept.scan(b"wide\0k")] == [(b"a", b"3")]
    kept.write([(b"w\0k", b"b", b"4")])
    kept = StatePages(blobs)
    kept.reset({"w": 1})
    assert [*kept.scan(b"w\0k")] == [(b"b", b"4")]


_FIELDS = (
    b"\x01\x81\xc4\x02w\x00\x92\x02\x03\x81\xa1s\x81\xa2in(\x81\xa1s\x81\xa3mid\x82\x00\x1e\x02#"
    b"\x81\xa1s\x81\xa3mid\x91\x02\x81\xa1s2\x81\xa1s\x81\xa1w\x14\x81\xa1s\x81\xa3mid\x81\x000\x81\xa1s\x81\xa3mid"
    b"\x81\x02$\x81\xa1w\x01\x81\xa1s\x81\xa1w\x03\x81\xa1s\x81\xa1w\n\x81\xa1s\x81\xa1w!\x81\xa1s\x81\xa1p-"
    b"\x81\xa1s\x81\xa1t\x02\x81\xa1s\x81\xa1j\x03"
)
OLDER = b"\xdc\x00\x10" + _FIELDS
"""The index of a bucket as an earlier version wrote it, with something in each field."""
INDEX = (
    b"\xdc\x00\x15"
    + _FIELDS.replace(b"\x92\x02\x03", b"\x93\x02\x03\x00")
    + b"\x81\xa1s\x81\xa1w<\x81\xa1s\x81\xa1w\x92F\xc4\x01k\x08\x01\x00"
)
"""The same as it is written now. Its pages stay where they are, by the hash of a key without the last 8 bits."""

POSITION = Position(
    producers={"mid": {0: 30, 2: 35}},
    idle={"mid": [2]},
    clock=50,
    met={"w": 20},
    rested={"mid": {2: 36}},
    lateness={"w": 3},
    forgotten={"w": 10},
    reached={"w": 33},
    clock_fired={"p": 45},
    versions={"t": 2},
    built={"j": 3},
    fired_at_end={"w": 60},
    cursors={"w": (70, b"k")},
)


def test_an_index_that_an_earlier_version_wrote_tells_the_position_of_a_stage() -> None:
    blobs = Blobs()
    blobs.put(b"\0index", OLDER)
    assert StatePages(blobs).index.position("s") == structs.replace(POSITION, fired_at_end={}, cursors={})


def test_an_index_that_was_written_before_tells_the_position_of_a_stage_and_is_written_as_it_was() -> None:
    blobs = Blobs()
    blobs.put(b"\0index", INDEX)
    kept = StatePages(blobs)
    assert kept.index.position("s") == POSITION
    assert kept.index.position("another") == Position()
    kept.write([])
    assert blobs.get(b"\0index") == INDEX


@pytest.mark.parametrize(
    ("producers", "marks", "whole"),
    [
        (2, {0: 30, 1: 20}, {0: 20}),
        (3, {0: 30, 1: 20}, None),  # one has not reported
    ],
)
def test_a_stream_of_version_1_has_one_watermark_from_now_on(
    producers: int, marks: dict[int, int], whole: dict[int, int] | None
) -> None:
    index = PageIndex(version=1, producers={"s": {"mid": marks}})
    index.convert({"mid": producers})
    assert index.position("s").producers == ({} if whole is None else {"mid": whole})
    index.convert({"mid": 7})  # once
    assert index.position("s").producers == ({} if whole is None else {"mid": whole})


def test_idle_producers_of_version_1_do_not_count() -> None:
    index = PageIndex(
        version=1,
        producers={"s": {"mid": {0: 30, 1: 20, 2: 50}}},
        idle={"s": {"mid": [1]}},
        rested={"s": {"mid": {1: 25}}},
    )
    index.convert({"mid": 3})
    assert index.position("s") == Position(producers={"mid": {0: 30}})


def test_what_is_remembered_of_a_stage_without_a_clock_leaves_alone_what_was_by_the_clock() -> None:
    blobs = Blobs()
    blobs.put(b"\0index", INDEX)
    index = StatePages(blobs).index
    index.remember("s", Position(reached={"w": 40}), clocked=False)
    assert index.position("s") == Position(
        idle=POSITION.idle, clock=50, met=POSITION.met, rested=POSITION.rested, reached={"w": 40}
    )
    index.remember("s", Position(idle={"mid": [1]}, clock=60), clocked=True)
    assert index.position("s") == Position(idle={"mid": [1]}, clock=60)
