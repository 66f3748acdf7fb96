"""Pages of a bucket's state against a dictionary."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

pytest.importorskip("pyspark", reason="the Spark engine is tested where pyspark is installed")

from engines.spark_in_process import Blobs
from fluvial.dsl import SystemProblem
from fluvial.runtime.kernel.chunked_values import CHUNK, chunk_prefix
from fluvial.runtime.kernel.state_backend import Change
from fluvial.runtime.kernel.state_cache import KeyedState
from fluvial.runtime.kernel.time.position import Position
from fluvial.runtime.spark.worker import page_deltas, page_index, page_views, state_pages
from fluvial.runtime.spark.worker.page_index import PageIndex
from fluvial.runtime.spark.worker.state_pages import StatePages

KEYS = st.binary(min_size=1, max_size=3)
BATCHES = st.lists(st.dictionaries(KEYS, st.none() | st.binary(max_size=3)), max_size=6)


@given(BATCHES, st.integers(1, 4))
def test_pages_hold_what_was_last_written(batches: list[Mapping[bytes, bytes | None]], full: int) -> None:
    blobs, model = Blobs(), dict[bytes, bytes]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page_index, "FULL", full)
        patch.setattr(page_index, "FULL_BYTES", 4 * full)
        for batch in batches:
            StatePages(blobs).write([(b"w\0k", key, value) for key, value in batch.items()])
            model.update({key: value for key, value in batch.items() if value is not None})
            for key in [key for key, value in batch.items() if value is None]:
                model.pop(key, None)
    found = StatePages(blobs)
    assert dict(found.scan(b"w\0k")) == model
    assert all(found.get(b"w\0k", key) == value for key, value in model.items())


@contextmanager
def smaller(random: Random) -> Iterator[None]:
    """Bounds at which a few entries fill pages and deltas."""
    full = random.randint(1, 6)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page_index, "FULL", 4 * full)
        patch.setattr(page_index, "FULL_BYTES", 16 * full)
        patch.setattr(page_deltas, "LARGE", random.choice((1, 20, 1000)))
        patch.setattr(page_views, "HELD", random.choice((0, 30, 1000)))
        patch.setattr(state_pages, "FEW_BYTES", random.choice((0, 10, 1 << 16)))
        patch.setattr(state_pages, "SPARSE", random.randint(0, 4))
        patch.setattr(state_pages, "MERGED", random.randint(0, 4))
        patch.setattr(state_pages, "SMALL", random.choice((0, 20, 100)))
        patch.setattr(state_pages, "DELTAS", random.randint(1, 9))
        yield


def history(random: Random) -> Iterator[list[Change]]:
    """Batches that change few entries of many, that let some prefixes grow, and that remove some."""
    prefixes = [b"w\0%c" % letter for letter in b"abcdefgh"[: random.randint(1, 8)]]
    for _ in range(random.randint(1, 25)):
        chosen = random.choices(prefixes, k=random.randint(1, 3))
        keys = range(random.choice((3, 12, 60)))
        batch: list[Change] = [(prefix, None, None) for prefix in chosen if random.random() < 0.1]
        if random.random() < 0.1:
            batch.extend((prefixes[0], b"%d" % key, None) for key in range(60))
        for prefix in chosen:
            for key in random.sample(keys, random.randint(1, min(len(keys), random.choice((2, 40))))):
                value = random.choice((None, bytes([random.randrange(256)]), bytes([random.randrange(256)]) * 4))
                batch.append((prefix, b"%d" % key, value))
        yield batch if random.random() < 0.95 else [(prefix, None, None) for prefix in prefixes]


def apply(model: dict[tuple[bytes, bytes], bytes], batch: list[Change]) -> None:
    for prefix, key, value in batch:
        for other in [other for other in model if other[0] == prefix] if key is None else []:
            del model[other]
        if key is not None and value is not None:
            model[prefix, key] = value
        elif key is not None:
            model.pop((prefix, key), None)


@given(st.integers(0, 1 << 32))
def test_pages_and_deltas_hold_what_was_last_written(seed: int) -> None:
    random = Random(seed)
    blobs, model = Blobs(), dict[tuple[bytes, bytes], bytes]()
    with smaller(random):
        for number, batch in enumerate(history(random)):
            written = StatePages(blobs)
            if random.random() < 0.05:
                written.reset({"w": number + 1})
                model.clear()
            written.write(batch)
            apply(model, batch)
            for found in (written, StatePages(blobs)):
                check(found, model)
            check_blobs(blobs, found.index)


def check(found: StatePages, model: dict[tuple[bytes, bytes], bytes]) -> None:
    """All is there that was written, by key and by prefix, and it is counted right."""
    assert all(found.get(*place) == value for place, value in model.items())
    assert {(prefix, key): value for prefix in found.index.prefixes for key, value in found.scan(prefix)} == model
    assert {prefix for prefix, _ in model} == set(found.index.prefixes)
    sizes = Counter[bytes]()
    for (prefix, key), value in model.items():
        sizes[prefix] += len(key) + len(value)
    assert {prefix: size.byte_count for prefix, size in found.index.prefixes.items()} == sizes
    small = {prefix for prefix, size in found.index.prefixes.items() if not size.pages}
    assert found.index.shared_bytes == sum(size for prefix, size in sizes.items() if prefix in small)
    assert found.index.shared == 1 or small


def check_blobs(blobs: Blobs, index: PageIndex) -> None:
    """Nothing is stored but the index, the pages that it names, and its deltas."""
    pages = [(prefix, number) for prefix, size in index.prefixes.items() for number in range(size.pages)]
    shared = [(page_index.SHARED, number) for number in range(index.shared)]
    deltas = [(b"\0delta", delta.number) for delta in index.deltas.stored]
    assert {b"\0index"} <= blobs.data.keys()
    assert blobs.data.keys() <= {b"\0index", *(page_index.page_name(*name) for name in (*pages, *shared, *deltas))}


class Counted(Blobs):
    """Counts the bytes that are written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = 0

    def put(self, name: bytes, data: bytes) -> None:
        super().put(name, data)
        self.written += len(data)

    def by(self, batch: Iterable[Change]) -> int:
        """The bytes that a batch writes."""
        before = self.written
        StatePages(self).write(batch)
        return self.written - before

    @property
    def state(self) -> int:
        """The bytes of all that is stored."""
        return sum(map(len, self.data.values()))


def counts(keys: Iterable[int], count: int) -> list[Change]:
    return [(b"w\0k", b"user-%08d" % key, count.to_bytes(20, "big")) for key in keys]


@pytest.mark.parametrize("touched", [0.0002, 0.002, 0.01])
def test_batches_that_touch_few_keys_write_little_of_the_state(touched: float) -> None:
    blobs, random, keys = Counted(), Random(1), 40_000
    blobs.by(counts(range(keys), 0))
    state = blobs.state
    written = [blobs.by(counts(random.sample(range(keys), int(touched * keys)), count)) for count in range(1, 60)]
    assert sum(written) / len(written) < state * max(0.1 * touched / 0.01, 0.02)
    assert max(written) < state / 5
    assert blobs.state < 1.3 * state


def test_a_batch_that_changes_most_writes_pages_alone() -> None:
    blobs = Counted()
    for count in range(3):
        written = blobs.by(counts(range(40_000), count))
        assert written == blobs.state
        assert not any(name.startswith(b"\0delta") for name in blobs.data)


def test_state_that_grows_is_not_written_as_a_whole() -> None:
    blobs = Counted()
    batches = [blobs.by(counts(range(start, start + 1000), 0)) / blobs.state for start in range(0, 60_000, 1000)]
    assert max(batches[30:]) < 0.5


def test_many_changes_are_several_deltas() -> None:
    blobs = Counted()
    blobs.by(counts(range(40_000), 0))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page_deltas, "LARGE", 20_000)
        blobs.by(counts(range(0, 40_000, 20), 1))
    deltas = [len(data) for name, data in blobs.data.items() if name.startswith(b"\0delta")]
    assert len(deltas) > 1
    assert max(deltas) < 1.5 * 20_000


def test_a_delta_that_is_lost_is_an_error() -> None:
    blobs = Blobs()
    StatePages(blobs).write(counts(range(40_000), 0))
    StatePages(blobs).write(counts(range(0, 40_000, 1000), 1))
    del blobs.data[page_index.page_name(b"\0delta", 0)]
    with pytest.raises(SystemProblem, match=r"(?s)there is no delta 0.*restore the checkpoint from a copy"):
        StatePages(blobs)


def test_many_windows_of_few_keys_take_few_pages() -> None:
    blobs = Blobs()
    StatePages(blobs).write([(b"w\0t%08d\0" % time, b"%d" % key, b"1") for time in range(500) for key in range(3)])
    assert len(blobs.data) == 2


def test_shared_pages_are_few_again_once_they_are_empty() -> None:
    blobs, windows = Blobs(), [b"w\0t%08d\0" % time for time in range(50)]
    StatePages(blobs).write([(window, b"1", bytes(page_index.FULL_BYTES // 8)) for window in windows])
    assert StatePages(blobs).index.shared > 1
    StatePages(blobs).write([(window, None, None) for window in windows])
    assert StatePages(blobs).index.shared == 1
    assert list(blobs.data) == [b"\0index"]


def test_pages_of_large_entries_are_as_large_as_those_of_many() -> None:
    blobs = Blobs()
    StatePages(blobs).write([(b"w\0k", b"%d" % number, bytes(page_index.FULL_BYTES // 8)) for number in range(100)])
    sizes = [len(page) for name, page in blobs.data.items() if name.startswith(b"w\0k")]
    assert sum(sizes) / len(sizes) <= page_index.FULL_BYTES * 1.1
    StatePages(blobs).write([(b"w\0k", b"one", bytes(page_index.FULL_BYTES * 50))])
    assert len(StatePages(blobs).get(b"w\0k", b"one") or b"") == page_index.FULL_BYTES * 50
    StatePages(blobs).write([(b"w\0k", b"%d" % number, None) for number in range(100)])
    StatePages(blobs).write([(b"w\0k", b"one", None)])
    assert len(blobs.data) == 1


def test_bytes_that_an_earlier_version_did_not_count_are_counted_once_pages_double() -> None:
    blobs = Blobs()
    before = StatePages(blobs)
    before.write([(b"w\0k", b"%d" % number, bytes(1000)) for number in range(9)])
    before.index.prefixes[b"w\0k"].byte_count = 0
    before.write([(b"w\0k", b"0", b"1")])
    assert before.index.prefixes[b"w\0k"].byte_count == 2
    before.write([(b"w\0k", b"large %d" % number, bytes(page_index.FULL_BYTES)) for number in range(2)])
    held = [*before.scan(b"w\0k")]
    assert len(held) == 11
    assert before.index.prefixes[b"w\0k"].byte_count == sum(len(key) + len(value) for key, value in held)


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
BEFORE_DELTAS = (
    b"\xdc\x00\x15"
    + _FIELDS.replace(b"\x92\x02\x03", b"\x93\x02\x03\x00")
    + b"\x81\xa1s\x81\xa1w<\x81\xa1s\x81\xa1w\x92F\xc4\x01k\x08\x01\x00"
)
"""The same as it was written before there were deltas. Its pages stay where they are, by the hash of a key without the
last 8 bits."""
INDEX = BEFORE_DELTAS.replace(b"\xdc\x00\x15", b"\xdc\x00\x16") + b"\x94\x90\x00\xc4\x00\x00"
"""The same as it is written now."""

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


@pytest.mark.parametrize("written", [BEFORE_DELTAS, INDEX])
def test_an_index_that_was_written_before_tells_the_position_of_a_stage_and_is_written_as_it_was(
    written: bytes,
) -> None:
    blobs = Blobs()
    blobs.put(b"\0index", written)
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
