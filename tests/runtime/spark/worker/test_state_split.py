"""The state of one bucket, split over several."""

from zlib import crc32

from explained import assert_explains, error_of
from fluvial.dsl import SystemProblem
from fluvial.planner.state_schema import StateSchema
from fluvial.runtime.spark.worker.state_pages import StatePages
from fluvial.runtime.spark.worker.state_split import HeldBlobs, check_state, levels_in, split_state

WINDOW = StateSchema(kind="window")


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


def test_what_is_of_no_key_comes_to_all_buckets() -> None:
    blobs, process = HeldBlobs(), StateSchema(kind="process")
    StatePages(blobs).write([(b"p\0e\0", b"run", b"a run")])
    check_state(blobs, 0, 1, {"p": process})
    parts = split_state(blobs, 0, 1, 4, {"p": process}, {})
    assert [StatePages(part).get(b"p\0e\0", b"run") for part in parts.values()] == [b"a run"] * 4
