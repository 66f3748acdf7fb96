"""What a run of the local engine tells of itself while it goes on."""

import asyncio
from collections.abc import Iterable, Mapping
from datetime import timedelta
from pathlib import Path

from engines.sending import ProducingSystem
from engines.targets import write
from fluvial.dsl import (
    Adaptive,
    Breaker,
    Limit,
    Pipeline,
    SystemProblem,
    count,
    dead_letter,
    in_threads,
    skip,
    tumbling,
)
from fluvial.planner import Settings
from fluvial.runtime import Progress, run
from fluvial.runtime.launch import checked_plan
from fluvial.runtime.local.coordination.assignments import SizingRecord
from fluvial.runtime.local.observe.progress import ProgressReporter
from fluvial.runtime.local.observe.size_progress import SizeProgress
from fluvial.runtime.metrics.collector import families
from fluvial.runtime.metrics.definitions import METRICS
from fluvial.runtime.systems import LogSystem, MemorySystem, System
from fluvial.runtime.systems.end_offsets import EndOffsets
from fluvial.runtime.systems.memory import MemoryAdmin


def told_by(pipeline: Pipeline, system: System, settings: Settings | None = None) -> list[Progress]:
    told: list[Progress] = []
    run(pipeline, system=system, until="end", settings=settings, progress=told.append)
    return told


def values(progress: Progress, measure: str) -> Mapping[tuple[str, ...], object]:
    return {fact.labels: fact.value for fact in progress.facts if fact.metric == measure}


def per_ten() -> Pipeline:
    pipeline = Pipeline("p", on_error=skip())
    keyed = pipeline.stream("in", value=int, key=str)
    keyed.window(tumbling(timedelta(milliseconds=10)), count(), id="tens").map(lambda pane: pane.value).send_to("out")
    return pipeline


async def twice(number: int) -> list[int]:
    await asyncio.sleep(0)
    return [number, 12 // number]


def calling() -> Pipeline:
    pipeline = Pipeline("p", on_error=dead_letter())
    pipeline.stream("in", value=int).async_flat_map(twice, id="call", journal=True, hedge=timedelta(seconds=5)).send_to(
        "out"
    )
    return pipeline


def limited() -> Pipeline:
    pipeline = Pipeline("p", on_error=dead_letter())
    limit = Limit("service", calls=1000, budget=2.0, when_exhausted="error")
    numbers = pipeline.stream("in", value=int)
    calls = numbers.async_flat_map(twice, id="call", limit=limit, breaker=Breaker("service"), concurrency=Adaptive())
    calls.send_to("out")
    return pipeline


def halves(number: int) -> list[int]:
    return [number // 2]


def pooled() -> Pipeline:
    pipeline = Pipeline("p")
    numbers = pipeline.stream("in", value=int)
    for threads in (2, 3):  # of one name
        numbers.async_flat_map(in_threads(halves, threads=threads), id=f"call-{threads}").send_to("out")
    return pipeline


def numbers(system: System, *times: int) -> System:
    write(system, {"in": [[(b"a", b"1", time, ()) for time in times]]})
    return system


def test_a_run_tells_at_once_and_in_the_end() -> None:
    told = told_by(per_ten(), numbers(MemorySystem(), *range(6000)))
    assert (told[0].phase, told[-1].phase) == ("running", "done")
    last = told[-1]
    assert (last.pipeline, last.engine, last.container, last.read, last.lag) == ("p", "local", "0", 6000, 0)
    assert values(told[0], "watermark_timestamp_seconds") == {("in", "in/0", "in", "0"): 0.099}  # of the first slice


def test_state_that_is_lost_is_reported_while_it_is_restored(tmp_path: Path) -> None:
    system = numbers(ProducingSystem(), *range(0, 300, 10))
    first = told_by(per_ten(), system, Settings(state_dir=str(tmp_path / "kept"), commit_interval=timedelta(0)))
    assert "restoring" not in [progress.phase for progress in first]
    told = told_by(per_ten(), system, Settings(state_dir=str(tmp_path / "lost")))
    assert [*dict.fromkeys(progress.phase for progress in told)] == ["restoring", "running", "done"]
    begun, ended = told[0], told[-1]
    (done,), (left,) = (values(begun, name).values() for name in ("restored_records", "restore_remaining_records"))
    assert isinstance(done, float | int)
    assert isinstance(left, float | int)
    assert values(ended, "restored_records") == {(): done + left}
    assert values(ended, "restore_remaining_records") == {(): 0}


def changing(folder: Path) -> list[Progress]:
    """What two runs tell, the second of which has another elasticity."""
    system = numbers(LogSystem(folder / "log", fsync=False), 1)
    return [told for elasticity in (1, 2) for told in told_by(calling(), system, Settings(elasticity=elasticity))]


def test_a_run_that_changes_the_elasticity_tells_how_long_that_took(tmp_path: Path) -> None:
    first, *_, last = changing(tmp_path)
    assert values(first, "elasticity_change_seconds") == {}
    (seconds,) = values(last, "elasticity_change_seconds").values()
    assert isinstance(seconds, float)
    assert 0 < seconds < 60
    assert (values(first, "tasks"), values(last, "tasks")) == ({(): 1}, {(): 2})


def test_all_that_the_table_says_is_reported_and_nothing_else(tmp_path: Path) -> None:
    system = numbers(ProducingSystem(), *range(0, 300, 10))
    for name in ("kept", "lost"):
        told = told_by(per_ten(), system, Settings(state_dir=str(tmp_path / name), commit_interval=timedelta(0)))
    told += told_by(calling(), numbers(MemorySystem(), 1), Settings(elasticity=2))
    told += changing(tmp_path)
    told += told_by(limited(), numbers(MemorySystem(), 1))
    told += told_by(pooled(), numbers(MemorySystem(), 1))
    facts = {fact.metric for progress in told for fact in progress.facts}
    facts |= {fact.metric for fact in SizeProgress(sizing=sized()).samples()}
    assert facts == {measure.name for measure in METRICS if "local" in measure.engines}
    assert all(list(families(progress)) for progress in told)


def test_what_is_used_of_limits_is_reported_and_an_exhausted_budget_is_a_warning() -> None:
    last = told_by(limited(), numbers(MemorySystem(), 1, 2, 3))[-1]
    assert values(last, "limit_used") == {("service", "calls"): 2, ("service", "budget"): 2}
    assert values(last, "limit_share") == {("service", "calls"): 1000, ("service", "budget"): 2}
    assert values(last, "limit_holds") == values(last, "limit_waiting_calls") == {("service",): 0}
    assert values(last, "calls_at_once") == {("in", "in/0", "call"): 10}
    assert values(last, "breaker_open") == values(last, "breaker_openings") == {("service",): 0}
    assert last.warnings == {"limit service": "the budget of limit 'service', 2, is exhausted: messages fail"}


def test_what_is_taken_of_the_pools_of_functions_is_reported_by_name() -> None:
    last = told_by(pooled(), numbers(MemorySystem(), 1, 2, 3))[-1]
    assert values(last, "pool_permits") == {("halves",): 5}
    assert values(last, "pool_waiting_calls") == {("halves",): 0}
    assert values(last, "pool_permits_taken").keys() == {("halves",)}  # a thread may not have left yet


def sized(*, applied: bool = True) -> SizingRecord:
    return SizingRecord(run="r", containers=2, elasticity={"in": 4, "by": 1}, reason="much to do", applied=applied)


def test_what_an_autosizer_has_decided_is_shown() -> None:
    assert SizeProgress().text == ""
    assert SizeProgress(sizing=sized()).text == "2 containers, in split by 4: much to do"
    assert SizeProgress(sizing=sized(applied=False)).text == "advises 2 containers, in split by 4: much to do"


class Answers(EndOffsets):
    """End offsets whose answers come when the test gives them."""

    given = True

    def request(self, streams: Iterable[str]) -> None:
        self.given = not [*streams]

    @property
    def answered(self) -> bool:
        return self.given


def test_turns_that_take_longer_than_reports_are_reported_all_the_same() -> None:
    told, at = list[Progress](), [0.0]
    answers = Answers(MemorySystem().admin())
    reporter = ProgressReporter(
        checked_plan(per_ten(), numbers(MemorySystem(), 1), Settings()), answers, told.append, clock=lambda: at[0]
    )
    for turn in range(1, 6):
        reporter.running([])
        answers.given = True  # between two turns
        at[0] += 15.0
        assert len(told) >= turn - 1
    assert len(told) >= 4


class _OutOfReach(MemorySystem):
    """Its ends can be asked for until it is `away`."""

    away = False

    def admin(self) -> MemoryAdmin:
        return _AdminOutOfReach(self)


class _AdminOutOfReach(MemoryAdmin):
    def __init__(self, system: _OutOfReach) -> None:
        super().__init__(system._memory)
        self._system = system

    def ends(self, stream: str) -> list[int]:
        if self._system.away:
            raise SystemProblem(f"{stream} is out of reach")
        return super().ends(stream)


def test_a_system_that_cannot_tell_its_ends_leaves_the_lag_open() -> None:
    pipeline, system = per_ten(), _OutOfReach()
    numbers(system, 1, 2)
    told: list[Progress] = []

    def tell(progress: Progress) -> None:
        told.append(progress)
        system.away = True

    run(pipeline, system=system, until="end", progress=tell)
    assert [progress.lag for progress in told] == [0, None]
    assert values(told[0], "lag_messages") == {("in", "in/0", "in", "0"): 0}
    assert values(told[-1], "lag_messages") == {}
