"""What is kept of a pipeline is removed as a whole, or that of one operator, and only while it does not run."""

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from engines.sending import ProducingSystem, stores_of
from engines.targets import contents, write
from engines.watched import WatchedLog
from fluvial.dsl import (
    Pipeline,
    PlanError,
    SystemProblem,
    UnsupportedError,
    UsageError,
)
from fluvial.runtime import reset, run, set_offsets
from fluvial.runtime.local.coordination import exclusion
from fluvial.runtime.systems import LogSystem, MemorySystem, System
from generators.counters import Counter


def counting() -> Pipeline:
    """Counts messages twice: by their key, and behind a border by their value."""
    pipeline = Pipeline("p")
    numbers = pipeline.stream("in", key=str, value=int)
    numbers.process(Counter(), id="by-key").send_to("by-key")
    keyed = numbers.partition_by(str, id="by", key_type=str, value=int)
    keyed.process(Counter(), id="by-value").send_to("by-value")
    return pipeline


@pytest.fixture(autouse=True)
def _no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exclusion, "ANSWER_SECONDS", 0.05)


@pytest.fixture(params=["log", "sent"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], System]:
    """Makes a system that nobody has used."""
    numbers = count()
    return lambda: (
        LogSystem(tmp_path / str(next(numbers)), fsync=False) if request.param == "log" else ProducingSystem()
    )


@pytest.fixture
def system(make: Callable[[], System]) -> System:
    return make()


def run_with(system: System, *numbers: int) -> dict[str, list[bytes | None]]:
    """What each output gets for one more message of each number."""
    write(system, {"in": [[(b"k", b"%d" % number, 0, ()) for number in numbers]]})
    before = {name: len(contents(system, name)) for name in ("by-key", "by-value") if system.admin().partitions(name)}
    with stores_of(system):
        run(counting(), system=system, until="end")
    return {
        name: [record[1] for record in contents(system, name)][before.get(name, 0) :] for name in ("by-key", "by-value")
    }


def test_the_state_of_one_operator_begins_anew_and_all_else_goes_on(system: System) -> None:
    run_with(system, 1, 1)
    steps = reset(counting(), states=["by-value"], system=system)
    assert {step.kind for step in steps} <= {"state", "changelog", "checkpoint"}
    assert run_with(system, 1) == {"by-key": [b"3"], "by-value": [b"1"]}


def test_only_what_holds_state_of_the_operator_is_reported(tmp_path: Path) -> None:
    system = LogSystem(tmp_path / "log", fsync=False)
    run_with(system, 1, 2, 3)
    steps = reset(counting(), states=["by-key", "by-value"], system=system, dry_run=True)
    assert {Path(step.name).name: step.name.split(" in ")[0] for step in steps if step.kind == "state"} == {
        "in-0": "by-key",
        "p-by-0": "by-value",
    }
    told = [str(step) for step in reset(counting(), states=["by-key"], system=system)]
    assert told == ["checkpoint in/0", f"state by-key in {tmp_path / 'log' / 'state' / 'p' / 'in-0'}"]
    assert reset(counting(), states=["by-key"], system=system) == []


def test_all_that_is_kept_begins_anew(system: System) -> None:
    run_with(system, 1, 1)
    reset(counting(), system=system)
    assert system.admin().checkpoints("p") == {}
    assert run_with(system, 1) == {"by-key": [b"1", b"2", b"3"], "by-value": [b"1", b"2", b"3"]}


def test_a_dry_run_removes_nothing(system: System) -> None:
    run_with(system, 1)
    for states in (["by-value"], None):
        assert reset(counting(), states=states, system=system, dry_run=True)
    assert run_with(system, 1) == {"by-key": [b"2"], "by-value": [b"2"]}


def test_a_dry_run_leaves_a_last_commit_unpublished(tmp_path: Path) -> None:
    def crashes(_: str) -> None:
        raise KeyboardInterrupt

    system = LogSystem(tmp_path / "log", fsync=False)
    run_with(system, 1)
    committed = system.admin().checkpoints("p")
    with pytest.raises(KeyboardInterrupt):
        run_with(WatchedLog(tmp_path / "log", crashes), 1)
    for states in (["by-value"], None):
        assert reset(counting(), states=states, system=system, dry_run=True)
        assert system.admin().checkpoints("p") == committed
    assert set_offsets(counting(), {"in": "earliest"}, system=system, dry_run=True).changes
    assert system.admin().checkpoints("p") == committed
    reset(counting(), states=["by-value"], system=system)
    assert system.admin().checkpoints("p")["in/0"] != committed["in/0"]


def test_a_second_reset_does_no_harm(system: System) -> None:
    run_with(system, 1)
    for _ in range(2):
        reset(counting(), states=["by-key"], system=system)
    assert run_with(system, 1) == {"by-key": [b"1"], "by-value": [b"2"]}
    for _ in range(2):
        reset(counting(), system=system)
    assert run_with(system, 1)["by-key"] == [b"1", b"2", b"3"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("states", "complete"),
    [
        (["by-value"], {"by-key": [b"2"], "by-value": [b"1"]}),
        (None, {"by-key": [b"1", b"2"], "by-value": [b"1", b"2"]}),
    ],
)
def test_a_reset_that_was_cut_off_leaves_nothing_to_go_on_with_by_mistake(
    make: Callable[[], System], states: list[str] | None, complete: dict[str, list[bytes]]
) -> None:
    """A run after it refuses, or finds all as it was before, or the whole reset done."""
    untouched = {"by-key": [b"2"], "by-value": [b"2"]}
    seen = []
    for done in count():
        system = make()
        run_with(system, 1)
        steps = reset(counting(), states=states, system=system, dry_run=True)
        if done > len(steps):
            break
        for step in steps[:done]:
            step.remove()
        try:
            seen.append(run_with(system, 1))
        except (SystemProblem, PlanError):
            reset(counting(), states=states, system=system)
            seen.append({})
            # With the message that the run before could not process.
            assert run_with(system, 1)["by-value"][-1] == b"%d" % (int(complete["by-value"][-1]) + 1)
    assert (seen[0], seen[-1]) == (untouched, complete)
    assert all(found in (untouched, complete, {}) for found in seen)


def test_an_operator_without_state_is_refused(system: System) -> None:
    run_with(system, 1)
    with pytest.raises(UsageError, match="no state of 'nosuch' is kept by pipeline 'p'"):
        reset(counting(), states=["nosuch"], system=system)
    with pytest.raises(UsageError, match="ids of operators, one or more"):
        reset(counting(), states=[], system=system)


def test_memory_is_refused() -> None:
    system = MemorySystem()
    run_with(system, 1)
    with pytest.raises(UnsupportedError, match="begin with a new system in memory"):
        reset(counting(), system=system)


def test_a_pipeline_that_runs_on_a_log_is_left_alone(tmp_path: Path) -> None:
    """It is reset from within: while it handles a message it is certainly alive."""
    system, refusals = LogSystem(tmp_path, fsync=False), []

    def try_to_reset(number: int) -> int:
        with pytest.raises(SystemProblem) as raised:
            reset(counting(), system=system)
        refusals.append(str(raised.value))
        return number

    pipeline = Pipeline("p")
    pipeline.stream("in", value=int).map(try_to_reset).send_to("out")
    write(system, {"in": [[(b"k", b"1", 0, ())]]})
    run(pipeline, system=system, until="end")
    assert "is running on" in refusals[0]


def test_a_log_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no log in"):
        reset(counting(), system=LogSystem(tmp_path / "nowhere"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ({"states": ["by-key"], "inputs": ["in"]}, "states= together with inputs="),
        ({"keep_offsets": True}, "keep_offsets=True without inputs="),
        ({"engine": "flink"}, "engine='flink'"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(system: System, options: dict[str, Any], wrong: str) -> None:
    run_with(system, 1)
    with pytest.raises(UsageError, match=wrong):
        reset(counting(), system=system, **options)


def test_inputs_are_read_again_by_the_local_engine_alone(system: System) -> None:
    pytest.importorskip("pyspark")
    run_with(system, 1)
    with pytest.raises(UnsupportedError, match="expected: the local engine"):
        reset(counting(), inputs=["in"], system=system, engine="spark")
