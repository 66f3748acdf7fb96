"""Whether a checkpoint is the one whose batches the log has published, without Spark."""

from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

pytest.importorskip("pyspark", reason="the engine needs pyspark")

from explained import assert_explains, error_of
from fluvial.dsl import Pipeline, SystemProblem
from fluvial.planner import plan
from fluvial.runtime.spark.connectors.published_batches import BATCH, OFFSETS, check_published, offsets_hash
from fluvial.runtime.spark.key_buckets import KeyBuckets
from fluvial.runtime.spark.lowering.levels import Levels
from fluvial.runtime.spark.lowering.query_plan import QueryPlan
from fluvial.runtime.spark.lowering.shipped_plan import ShippedPlan
from fluvial.runtime.spark.query.checkpoint_log import DONE, PLANNED

RESET = "fluvial reset x.py"

if TYPE_CHECKING:
    from collections.abc import Mapping


def copying() -> Pipeline:
    pipeline = Pipeline("p")
    pipeline.stream("in", value=str).send_to("out")
    return pipeline


def query(folder: Path, planned: int, done: int, run: str = "first") -> QueryPlan:
    """A query of which so many batches are planned, and done; another `run` has read other messages."""
    for kind, count in ((PLANNED, planned), (DONE, done)):
        (folder / "spark" / kind).mkdir(parents=True)
        for number in range(count):
            (folder / "spark" / kind / str(number)).write_text(f"v1\n{{}}\n{run} at {number}")
    return QueryPlan(
        plan(copying()), cast("Levels", None), KeyBuckets(8), ShippedPlan("", b""), folder, "p@1", ("in",), {}
    )


def saved(of: QueryPlan, batch: int) -> "Mapping[str, bytes]":
    """What the log keeps once a batch is published."""
    return {BATCH: str(batch).encode(), OFFSETS: offsets_hash(of.checkpoint, batch)} if batch >= 0 else {}


@pytest.mark.parametrize(
    ("planned", "done", "batch"),
    [(0, 0, -1), (1, 0, -1), (1, 0, 0), (3, 3, 2), (3, 2, 1), (3, 2, 2)],
)
def test_a_run_goes_on_from_its_own_checkpoint(planned: int, done: int, batch: int, tmp_path: Path) -> None:
    """A crash may come before the last batch is published, or before Spark has noted that it is done."""
    found = query(tmp_path, planned, done)
    check_published(found, saved(found, batch), "log:x", RESET)


@pytest.mark.parametrize(
    ("planned", "done", "batch", "told"),
    [
        (2, 2, 2, "is older than its outputs: batches planned 2, published in log:x 3"),
        (0, 0, 0, "is older than its outputs: batches planned 0, published in log:x 1"),
        (3, 3, 1, "is newer than log:x: batches done 3, published there 2"),
        (3, 3, -1, "is newer than log:x: batches done 3, published there 0"),
    ],
)
def test_a_checkpoint_of_another_time_than_the_log_is_refused(
    planned: int, done: int, batch: int, told: str, tmp_path: Path
) -> None:
    later = saved(query(tmp_path / "later", batch + 1, batch + 1), batch)
    error = error_of(
        lambda: check_published(query(tmp_path / "found", planned, done), later, "log:x", RESET), SystemProblem
    )
    expected, remedy = "the checkpoint as the last run left it", f"{RESET} --all"
    assert_explains(error, told, copying, expected, remedy, below=1)


@pytest.mark.parametrize("done", [2, 3])
def test_a_batch_of_the_same_number_with_other_messages_is_refused(done: int, tmp_path: Path) -> None:
    other = saved(query(tmp_path / "other", 3, 3, run="other"), 2)
    error = error_of(lambda: check_published(query(tmp_path / "found", 3, done), other, "log:x", RESET), SystemProblem)
    assert "has read other messages up to batch 2 than those whose outputs log:x has" in str(error)


def test_what_a_version_before_has_published_counts_by_its_number(tmp_path: Path) -> None:
    found = query(tmp_path, 3, 3)
    check_published(found, {BATCH: b"2"}, "log:x", RESET)
    error_of(lambda: check_published(found, {BATCH: b"3"}, "log:x", RESET), SystemProblem)


def test_a_batch_that_spark_keeps_no_longer_counts_by_its_number(tmp_path: Path) -> None:
    found = query(tmp_path, 3, 2)
    told = saved(found, 1)
    Path(str(found.checkpoint), PLANNED, "1").unlink()
    check_published(found, told, "log:x", RESET)


def test_a_batch_that_has_read_nothing_is_not_missed_in_the_log(tmp_path: Path) -> None:
    """Spark makes it when it distributes state over another number of tasks."""
    found = query(tmp_path, 3, 3)
    offsets = Path(str(found.checkpoint), PLANNED)
    (offsets / "2").write_text((offsets / "1").read_text())
    check_published(found, saved(found, 1), "log:x", RESET)
