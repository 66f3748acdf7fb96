"""What Spark's notes of its batches say, without Spark."""

from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the engine needs pyspark")

from fluvial.dsl import SystemProblem
from fluvial.runtime.spark.query.checkpoint_log import (
    DONE,
    PLANNED,
    end_offsets,
    is_between_batches,
    last_end_offsets,
    planned_lines,
)


def checkpoint(folder: Path, planned: int, done: int) -> Path:
    for kind, count in ((PLANNED, planned), (DONE, done)):
        (folder / kind).mkdir()
        (folder / kind / ".0.crc").touch()
        for number in range(count):
            (folder / kind / str(number)).write_text(f"v1\n{{}}\nsource at {number}\nother at {number}")
    return folder


@pytest.mark.parametrize(("planned", "done", "between"), [(0, 0, True), (11, 11, True), (1, 0, False), (11, 10, False)])
def test_a_query_is_between_batches_when_none_is_begun(tmp_path: Path, planned: int, done: int, between: bool) -> None:
    assert is_between_batches(checkpoint(tmp_path, planned, done)) is between


def test_the_last_batch_tells_how_far_each_source_is(tmp_path: Path) -> None:
    found = checkpoint(tmp_path, 11, 10)
    assert last_end_offsets(found, PLANNED) == ["source at 10", "other at 10"]
    assert last_end_offsets(found, DONE) == ["source at 9", "other at 9"]


def test_both_versions_of_the_offset_log_are_read(tmp_path: Path) -> None:
    """Which one Spark writes is set in the user's session."""
    told = ['{"streams": {"clicks": [4]}, "time": 0}', "-", *(f'{{"t{number}":{{"0":4}}}}' for number in range(2, 12))]
    one, two = tmp_path / "1", tmp_path / "2"
    for checkpoint in (one, two):
        (checkpoint / PLANNED).mkdir(parents=True)
    lines = [f"{number}:{line}" for number, line in enumerate(told)]
    (one / PLANNED / "0").write_text("\n".join(["v1", "{}", *told]))
    (two / PLANNED / "0").write_text("\n".join(["v2", "{}", *sorted(lines)]))
    assert end_offsets(one, 0) == end_offsets(two, 0) == planned_lines(one, 0) == told
    assert planned_lines(two, 0) == sorted(lines)  # a hash of them is kept


def test_before_the_first_batch_nothing_is_reported(tmp_path: Path) -> None:
    assert last_end_offsets(checkpoint(tmp_path, 1, 0), DONE) is None


@pytest.mark.parametrize("left", ["", "v1", "v1\n{}"])
def test_a_file_that_a_power_cut_has_emptied_is_reported(tmp_path: Path, left: str) -> None:
    found = checkpoint(tmp_path, 2, 1)
    (found / PLANNED / "1").write_text(left)
    with pytest.raises(SystemProblem, match=r"offsets/1 cannot be read: it has \d characters[\s\S]*reset --all"):
        last_end_offsets(found, PLANNED)
