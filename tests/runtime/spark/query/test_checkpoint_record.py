"""Which checkpoint a query on Spark goes on with, and which it refuses."""

import shutil
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

pytest.importorskip("pyspark", reason="the engine needs pyspark")

from engines.targets import write as write_streams
from explained import assert_explains, error_of
from fluvial.dsl import (
    Aggregate,
    Pipeline,
    PlanError,
    SystemProblem,
    Table,
    UnsupportedError,
    collect,
    count,
    maximum,
    tumbling,
)
from fluvial.planner import Plan, Settings, plan
from fluvial.planner.plan import PlannedStage
from fluvial.runtime import reset
from fluvial.runtime.cli.commands.check import check
from fluvial.runtime.preflight.requirements import missing
from fluvial.runtime.spark import engine
from fluvial.runtime.spark.atomic_file import write
from fluvial.runtime.spark.engine import check_checkpoints
from fluvial.runtime.spark.lowering.lowering import components
from fluvial.runtime.spark.query.checkpoint_record import (
    FILE,
    QueryCheckpoint,
    QueryRecord,
    find_checkpoint,
    may_split,
    query_checkpoints,
    wanted_record,
)
from fluvial.runtime.systems import LogSystem


def counting(minutes: int = 1, aggregate: Aggregate[Any, Any] | None = None, stream: str = "in") -> Pipeline:
    pipeline = Pipeline("p")
    window = tumbling(timedelta(minutes=minutes))
    pipeline.stream(stream, key=str, value=int).window(window, aggregate or count(), id="w").send_to("out")
    return pipeline


def planned(pipeline: Pipeline, partitions: int = 1) -> Plan:
    return plan(pipeline, partitions={stage.id: partitions for stage in plan(pipeline).stages})


def found(
    root: Path, made: Plan, buckets: int = 8, *, begun: bool = True, part: list[PlannedStage] | None = None
) -> QueryCheckpoint:
    """The checkpoint of a plan's only query, or that of a `part`, in which a batch was planned if it has `begun`."""
    settings = Settings(spark_buckets=buckets)
    (stages,) = components(made) if part is None else [part]
    reset = "fluvial reset test_checkpoint_record.py --engine spark"
    kept = find_checkpoint(made, wanted_record(made, stages, settings), buckets, root, reset)
    if begun:
        offsets = Path(str(kept.checkpoint), "offsets")
        offsets.mkdir(parents=True, exist_ok=True)
        (offsets / "0").touch()
    return kept


def test_the_same_query_goes_on(tmp_path: Path) -> None:
    assert found(tmp_path, planned(counting())) == found(tmp_path, planned(counting()))


def test_another_meaning_of_state_is_refused(tmp_path: Path) -> None:
    found(tmp_path, planned(counting()))
    error = error_of(lambda: found(tmp_path, planned(counting(5))), PlanError)
    wrong = "the stored state of window w has another meaning: windows: was tumbling 1 min, is tumbling 5 min"
    assert_explains(error, wrong, counting, "the meaning with which it was stored", "--state w", below=3)
    # What is kept is another type too, by which the folder is named.
    error = error_of(lambda: found(tmp_path, planned(counting(1, maximum(str)))), PlanError)
    assert "accumulator: was int, is str | None" in str(error)


def collecting(kind: Any) -> Pipeline:
    pipeline = Pipeline("p")
    keyed = pipeline.stream("in", key=str, value=kind)
    keyed.window(tumbling(timedelta(minutes=1)), collect(), id="w").send_to("out")
    return pipeline


def test_what_is_gone_is_named_by_the_record(tmp_path: Path) -> None:
    def visit(*fields: Any) -> Any:
        return msgspec.defstruct("Visit", [("n", int), *fields])

    found(tmp_path, planned(collecting(visit(("who", int, 0)))))
    found(tmp_path, planned(collecting(visit())))
    error = error_of(lambda: found(tmp_path, planned(collecting(visit(("who", str, ""))))), PlanError)
    assert "field who: was int, is str" in str(error)
    assert found(tmp_path, planned(collecting(visit(("who", int, 0))))).begun


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (
            lambda root: found(root, planned(counting(), partitions=2)),
            "sources: was in with 1 partition(s), is in with 2",
        ),
        (
            lambda root: found(root, planned(counting(stream="more"))),
            "sources: was in with 1 partition(s), is more with 1",
        ),
        (lambda root: found(root, planned(counting()), buckets=4), "spark_buckets: was 8, is 4"),
    ],
)
def test_what_spark_cannot_change_is_refused(other: Any, told: str, tmp_path: Path) -> None:
    found(tmp_path, planned(counting()))
    error = error_of(lambda: other(tmp_path), PlanError)
    assert told in str(error)
    assert "test_checkpoint_record.py --engine spark --all" in str(error)


def test_key_buckets_may_become_a_multiple(tmp_path: Path) -> None:
    kept = found(tmp_path, planned(counting()), buckets=8)
    assert found(tmp_path, planned(counting()), buckets=64) == kept
    error = error_of(lambda: found(tmp_path, planned(counting()), buckets=12), PlanError)
    assert "spark_buckets: was 8, is 12 (it may become a multiple" in str(error)


def test_what_a_broadcast_brings_is_not_split() -> None:
    pipeline = counting()
    rules = pipeline.stream("rules", key=str, value=int).broadcast(id="rules-to-all")
    rules.map(str).send_to("seen")
    made = planned(pipeline)
    wanted = [wanted_record(made, stages, Settings(spark_buckets=8)) for stages in components(made)]
    told = [any("rules" in stage for stage in record.stages) for record in wanted]
    assert [may_split(made, record, 16) for record in wanted] == [not all_of_them for all_of_them in told]
    assert sorted(told) == [False, True]


def test_what_has_not_begun_keeps_nothing(tmp_path: Path) -> None:
    first = found(tmp_path, planned(counting()), begun=False)
    second = found(tmp_path, planned(counting(5, stream="more")))
    assert [kept.folder for kept in query_checkpoints(tmp_path)] == [second.folder]
    assert first.folder != second.folder


@pytest.mark.parametrize("begun", ["a", "b"])
def test_a_query_without_a_batch_hides_none_that_had_one(begun: str, tmp_path: Path) -> None:
    """Whichever of the two stands first: what becomes of both would leave the state of the one that had a batch."""
    windows = tumbling(timedelta(minutes=1))
    two, one = Pipeline("p"), Pipeline("p")
    for name in ("a", "b"):
        two.stream(name, key=str, value=int).window(windows, count(), id=f"w-{name}").send_to(f"out-{name}")
    both = one.stream("a", key=str, value=int).merge(one.stream("b", key=str, value=int))
    both.window(windows, count(), id=f"w-{begun}").send_to("out")

    root, partitions = tmp_path / "spark" / "p", {"a": 1, "b": 1}
    apart, together = (plan(pipeline, partitions=partitions) for pipeline in (two, one))
    for part in components(apart):
        found(root, apart, part=part, begun=begun in part[0].inputs)
    before = query_checkpoints(root)
    told = f"sources: was {begun} with 1 partition(s), is a with 1 partition(s), b with 1 partition(s)"
    error = error_of(lambda: check_checkpoints(together, LogSystem(tmp_path, fsync=False), Settings()), PlanError)
    assert told in str(error)
    assert told in str(error_of(lambda: found(root, together), PlanError))
    assert query_checkpoints(root) == before  # whoever is refused may go on as before


def test_of_several_that_have_had_a_batch_none_is_gone_on_with(tmp_path: Path) -> None:
    first = found(tmp_path, planned(counting()))
    copied = first.folder.parent / "copied"
    shutil.copytree(str(first.folder), str(copied))
    error = error_of(lambda: found(tmp_path, planned(counting())), PlanError)
    assert f"another query of the same sources or state has its checkpoint in {copied}" in str(error)


def test_one_without_a_batch_goes_where_another_has_had_one(tmp_path: Path) -> None:
    first = found(tmp_path, planned(counting()))
    second = Path(str(first.folder.parent), "0")  # it stands first
    shutil.copytree(str(first.folder), second)
    shutil.rmtree(second / "spark")
    assert found(tmp_path, planned(counting())) == first
    assert [kept.folder for kept in query_checkpoints(tmp_path)] == [first.folder]


def test_a_checkpoint_without_record_is_adopted_once(tmp_path: Path) -> None:
    first = found(tmp_path, planned(counting()))
    Path(str(first.folder), FILE).unlink()
    assert found(tmp_path, planned(counting(5))).folder == first.folder  # nothing tells that it was another window
    error_of(lambda: found(tmp_path, planned(counting())), PlanError)


def test_a_checkpoint_without_record_of_another_query_is_refused(tmp_path: Path) -> None:
    first = found(tmp_path, planned(counting()))
    Path(str(first.folder), FILE).unlink()
    error = error_of(lambda: found(tmp_path, planned(counting(1, maximum(str)))), PlanError)
    assert "it is of other sources, stateful operators, key types or partition counts" in str(error)


def test_an_operator_may_be_added_to_a_stage(tmp_path: Path) -> None:
    pipeline = Pipeline("p")
    keyed = pipeline.stream("in", key=str, value=int)
    keyed.window(tumbling(timedelta(minutes=1)), count(), id="w").send_to("out")
    first = found(tmp_path, planned(pipeline))
    keyed.window(tumbling(timedelta(minutes=5)), count(), id="v").send_to("more")
    second = found(tmp_path, planned(pipeline))
    assert second.record is not None
    assert (second.folder, sorted(second.record.states)) == (first.folder, ["v", "w"])


def test_an_operator_that_moves_its_stage_behind_a_shuffle_is_refused(tmp_path: Path) -> None:
    """The first one with state of a stage; and so is the last to go."""
    stateless = Pipeline("p")
    stateless.stream("in", key=str, value=int).send_to("out")
    for number, (first, second) in enumerate([(stateless, counting()), (counting(), stateless)]):
        found(tmp_path / str(number), planned(first))
        told = ["in before any shuffle", "in behind 1 shuffle(s)"][:: 1 - 2 * number]
        refused = partial(found, tmp_path / str(number), planned(second))
        error = error_of(refused, PlanError)
        assert f"stages: was {told[0]}, is {told[1]}\n" in str(error)
        assert "expected: the same sources, stages, shuffles in front of them, partition counts" in str(error)


def test_a_refused_run_leaves_the_records_of_all_queries_as_they_were(tmp_path: Path) -> None:
    """Of two queries whose operators have changed places, the first alone could go on. It is refused before a Spark is
    needed: there is none at that URL."""

    def two(*operators: str) -> Pipeline:
        pipeline = Pipeline("p")
        for stream, operator in zip(("a", "b"), operators, strict=True):
            counted = pipeline.stream(stream, key=str, value=int).window(
                tumbling(timedelta(minutes=1)), count(), id=operator
            )
            counted.send_to(f"out-{operator}")
        return pipeline

    system, root = LogSystem(tmp_path, fsync=False), tmp_path / "spark" / "p"
    for part in components(planned(two("x", "y"))):
        found(root, planned(two("x", "y")), part=part)
    before = query_checkpoints(root)
    changed = planned(two("y", "x"))
    error_of(lambda: engine.run(changed, system, Settings(), "end", None, spark="spark://localhost:1"), PlanError)
    assert query_checkpoints(root) == before


def test_partitions_of_streams_between_stages_may_change(tmp_path: Path) -> None:
    """On Spark there are no such streams: keys are spread over buckets."""
    pipeline = Pipeline("p")
    moved = pipeline.stream("in", value=int).partition_by(str, id="moved", key_type=str)
    moved.window(tumbling(timedelta(minutes=1)), count(), id="w").send_to("out")
    two, four = (plan(pipeline, partitions={"in": 1}, settings=Settings(intermediate_partitions=n)) for n in (2, 4))
    assert found(tmp_path, two).folder == found(tmp_path, four).folder


def test_check_looks_at_what_is_kept_of_a_pipeline_that_keeps_no_state_now(tmp_path: Path) -> None:
    if need := missing("spark"):
        pytest.skip(f"{need.missing}: {need.remedy}")
    system = LogSystem(tmp_path / "log", fsync=False)
    write_streams(system, {"in": [[(b"k", b"1", 0, ())]]})
    found(tmp_path / "log" / "spark" / "p", planned(counting()))
    stateless = Pipeline("p")
    stateless.stream("in", key=str, value=int).send_to("out")
    (finding,) = (one for one in check(stateless, "spark", system) if one.text.startswith("state: "))
    assert finding.code == PlanError.exit_code
    (finding,) = (one for one in check(counting(), "spark", system) if one.text.startswith("state: "))
    assert finding.code == 0


def test_check_takes_the_kept_number_of_buckets_for_that_of_the_run(tmp_path: Path) -> None:
    """It has no setting for it."""
    system = LogSystem(tmp_path / "log", fsync=False)
    found(tmp_path / "log" / "spark" / "p", planned(counting()), buckets=4)
    check_checkpoints(planned(counting()), system, Settings())
    error_of(lambda: check_checkpoints(planned(counting(5)), system, Settings()), PlanError)


@pytest.mark.parametrize(
    ("kept", "settings", "told"), [(8, None, True), (8, 8, False), (64, None, False), (5, None, False)]
)
def test_check_tells_of_few_buckets_that_may_become_more(
    tmp_path: Path, kept: int, settings: int | None, told: bool
) -> None:
    if need := missing("spark"):
        pytest.skip(f"{need.missing}: {need.remedy}")
    system = LogSystem(tmp_path / "log", fsync=False)
    write_streams(system, {"in": [[(b"k", b"1", 0, ())]]})
    found(tmp_path / "log" / "spark" / "p", planned(counting()), buckets=kept)
    findings = check(counting(), "spark", system, Settings(spark_buckets=settings))
    hints = [str(one) for one in findings if one.text.startswith("key buckets: ")]
    assert bool(hints) is told
    for hint in hints:
        assert hint.startswith("! key buckets: the checkpoint has 8, so at most 8 tasks keep state; a new one has 64")
        assert "--spark-buckets 64" in hint


def test_a_record_of_a_later_version_is_refused(tmp_path: Path) -> None:
    first = found(tmp_path, planned(counting()))
    write(first.folder / FILE, b'{"version":2,"sources":{},"stages":{},"buckets":8}')
    error = error_of(lambda: found(tmp_path, planned(counting())), SystemProblem)
    assert_explains(error, "has version 2", None, "version 1", "run the version that wrote it")
    write(first.folder / FILE, b"{")
    assert "cannot be read" in str(error_of(lambda: found(tmp_path, planned(counting())), SystemProblem))


def test_resets_are_kept(tmp_path: Path) -> None:
    first = found(tmp_path, planned(counting()))
    record = first.record or QueryRecord(sources={}, stages={}, buckets=0)
    first.save(QueryRecord(sources=record.sources, stages=record.stages, buckets=8, resets={"w": 2}))
    again = found(tmp_path, planned(counting(5)))
    assert again.record is not None
    assert (again.folder, again.record.resets) == (first.folder, {"w": 2})


def looking_up() -> Pipeline:
    pipeline = Pipeline("p")
    rows: Table[str, str] = pipeline.table("rows", key=str, value=str)
    pipeline.stream("in", key=str, value=str).join(rows, lambda one, row: f"{one}{row}", id="j").send_to("out")
    return pipeline


def copying() -> Pipeline:
    """The same sources, of which one is not a table yet, and another operator with state."""
    pipeline = Pipeline("p")
    rows, others = (pipeline.stream(name, key=str, value=str) for name in ("rows", "in"))
    others.merge(rows).window(tumbling(timedelta(minutes=1)), count(), id="w").send_to("out")
    return pipeline


def test_a_stream_that_becomes_a_table_is_refused(tmp_path: Path) -> None:
    found(tmp_path, plan(copying(), partitions={"rows": 1, "in": 1}))
    error = error_of(lambda: found(tmp_path, plan(looking_up(), partitions={"rows": 1, "in": 1})), PlanError)
    assert "table rows: its stream was read before there was the table" in str(error)


def test_the_rows_of_a_table_cannot_be_reset_alone(tmp_path: Path) -> None:
    system = LogSystem(tmp_path / "log")
    for name in ("rows", "in"):
        system.admin().create(name, 1)
    found(tmp_path / "state" / "p", plan(looking_up(), partitions={"rows": 1, "in": 1}))
    settings = Settings(state_dir=str(tmp_path / "state"))
    error = error_of(
        lambda: reset(looking_up(), states=["rows"], engine="spark", system=system, settings=settings),
        UnsupportedError,
    )
    assert_explains(error, "Spark would not read its stream again", looking_up, "reads no stream", "--all", below=1)
