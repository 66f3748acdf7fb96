"""The state of one bucket, split over several."""

from zlib import crc32

import pytest

from explained import assert_explains, error_of
from fluvial.dsl import SystemProblem
from fluvial.planner.state_schema import StateSchema
from fluvial.runtime.kernel.chunked_values import ChunkedValues
from fluvial.runtime.kernel.operators.state_entries import under
from fluvial.runtime.spark.worker.state_pages import StatePages
from fluvial.runtime.spark.worker.state_split import HeldBlobs, check_state, key_of_entry, levels_in, split_state

WINDOW, SEEN = StateSchema(kind="window"), StateSchema(kind="deduplicate")
PROCESS = StateSchema(kind="process", facts={"state one": "value", "state names": "map by str, with ttl"})


@pytest.mark.parametrize(
    ("schema", "rest", "entry"),
    [
        (WINDOW, b"k", b"key"),
        (WINDOW, b"t" + bytes(8), b"key"),
        (WINDOW, b"r" + bytes(8), bytes(8) + b"key"),
        (StateSchema(kind="join"), b"r" + bytes(8), b"key"),
        (SEEN, b"p\0", under(b"key", b"identity")),
        (PROCESS, b"sone\0", b"key"),
        (PROCESS, b"snames\0", under(b"key", b"name")),
        (PROCESS, b"xnames\0" + b"1" + bytes(9), under(b"key", b"name")),
        (PROCESS, b"nnames\0", b"key"),
        (PROCESS, b"n\0", under(b"key", b"timer")),
        (PROCESS, b"pnames\0", under(b"key", b"0000")),
        (PROCESS, b"w\0", under(b"key", b"timer")),
        (PROCESS, b"sof a later version\0", None),
    ],
)
def test_an_entry_tells_the_key_that_it_is_of(schema: StateSchema, rest: bytes, entry: bytes | None) -> None:
    assert key_of_entry(schema, rest, entry or b"key") == (None if entry is None else b"key")


def test_a_chunk_of_a_large_value_tells_the_key_too() -> None:
    chunks = ChunkedValues(b"w\0k", StatePages(HeldBlobs()), unused=True)
    for prefix, entry, _ in chunks.changes(b"key", bytes(100_000)):
        assert key_of_entry(WINDOW, prefix.partition(b"\0")[2], entry or b"") == b"key"


def held(bucket: int, keys: list[bytes]) -> HeldBlobs:
    blobs = HeldBlobs()
    pages = StatePages(blobs)
    pages.index.producers["s"] = {"in": {0: 5}}
    pages.write((b"w\0k", key, b"value") for key in keys if crc32(key) % 3 == bucket)
    return blobs


def test_each_entry_comes_to_one_bucket_and_the_position_to_all() -> None:
    keys = [f"k{number}".encode() for number in range(5000)]
    for bucket in range(3):
        parts = split_state(held(bucket, keys), bucket, 3, 12, {"w": WINDOW}, {"in": 1})
        assert sorted(parts) == [bucket, bucket + 3, bucket + 6, bucket + 9]
        for number, blobs in parts.items():
            pages = StatePages(blobs)
            assert {key for key, _ in pages.scan(b"w\0k")} == {key for key in keys if crc32(key) % 12 == number}
            assert pages.index.position("s").producers == {"in": {0: 5}}
            assert levels_in(blobs, number, {"other": 1, "s": 2}) == {2}


def test_state_that_a_reset_has_removed_is_left_out() -> None:
    blobs = held(1, [f"k{number}".encode() for number in range(9)])
    for part in split_state(blobs, 1, 3, 6, {}, {"in": 1}, {"w": 1}).values():
        assert list(StatePages(part).index.prefixes) == []


def test_a_bucket_that_has_not_run_stays_empty() -> None:
    assert split_state(HeldBlobs(), 0, 3, 6, {}, {}) == {}


def test_state_of_a_stage_that_is_at_no_level_is_an_error() -> None:
    error = error_of(lambda: levels_in(held(1, [b"k"]), 1, {"other": 1}, remedy="go back"), SystemProblem)
    wrong = "the state in key bucket 1 is of s, which is at no level (level 1 has other)"
    assert_explains(error, wrong, None, "state of stages of the query", "go back")
    unknown = HeldBlobs({b"w\0k\0\0\0": b"page"})  # without an index
    assert "is of no stage" in str(error_of(lambda: levels_in(unknown, 1, {"other": 1}), SystemProblem))
    assert levels_in(HeldBlobs(), 1, {"other": 1}) == set()


def test_an_entry_of_another_bucket_is_no_guess() -> None:
    blobs = held(1, [f"k{number}".encode() for number in range(9)])
    for call in (
        lambda: split_state(blobs, 0, 3, 6, {"w": WINDOW}, {"in": 1}, remedy="go back"),
        lambda: check_state(blobs, 0, 3, {"w": WINDOW}, remedy="go back"),
        lambda: check_state(blobs, 1, 3, {}, remedy="go back"),  # of no known operator
    ):
        error = error_of(call, SystemProblem)
        assert_explains(error, "does not tell the key", None, "keys of this bucket", "go back")
    check_state(blobs, 1, 3, {"w": WINDOW})
    check_state(blobs, 1, 3, {}, {"w": 1})  # a reset has removed it
