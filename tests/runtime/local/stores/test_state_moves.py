"""State on a log is where its operator is, whatever a change of the pipeline has made of the stages."""

from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from engines.targets import contents, write
from engines.watched import WatchedStore
from explained import error_of
from fluvial.dsl import KeyedStream, Pipeline
from fluvial.planner import Settings
from fluvial.runtime import run
from fluvial.runtime.launch import checked_plan
from fluvial.runtime.local.checkpoints.checkpoint import decode
from fluvial.runtime.local.stores import state_moves
from fluvial.runtime.local.stores.alignment import CommittedLog
from fluvial.runtime.local.stores.store_keys import META, prefix_of
from fluvial.runtime.local.stores.task_stores import store_for
from fluvial.runtime.state import RocksStore, StoreLocked
from fluvial.runtime.systems import LogSystem, MemorySystem, System
from generators.counters import Counter


def both(left: str, right: str) -> str:
    return left + right


def source(pipeline: Pipeline, name: str) -> KeyedStream[str, str]:
    return pipeline.stream(name, key=str, value=str)


def apart() -> Pipeline:
    pipeline = Pipeline("p")
    for name in ("a", "b"):
        source(pipeline, name).process(Counter(), id=f"n-{name}").send_to(f"{name}-out", value=int)
    return pipeline


def together() -> Pipeline:
    """The same in one stage."""
    pipeline = Pipeline("p")
    a, b = (source(pipeline, name) for name in ("a", "b"))
    for name, stream in (("a", a), ("b", b)):
        stream.process(Counter(), id=f"n-{name}").send_to(f"{name}-out", value=int)
    a.join(b, both, within=timedelta(seconds=1), id="joined").send_to("joined", value=str)
    return pipeline


def swapped() -> Pipeline:
    """Each operator is in the stage of the other one."""
    pipeline = Pipeline("p")
    for name, other in (("a", "b"), ("b", "a")):
        source(pipeline, name).process(Counter(), id=f"n-{other}").send_to(f"{other}-out", value=int)
    return pipeline


def without_state() -> Pipeline:
    pipeline = Pipeline("p")
    for name in ("a", "b"):
        source(pipeline, name).send_to(f"{name}-copy", value=str)
    return pipeline


def behind(border: str | None = None, *, first: str = "a") -> Pipeline:
    """One operator, behind a border or not."""
    pipeline = Pipeline("p")
    stream = source(pipeline, first)
    keyed = stream if border is None else stream.partition_by(lambda _: "k", id=border, key_type=str, value=str)
    keyed.process(Counter(), id="n-a").send_to("a-out", value=int)
    return pipeline


def outputs(system: System, *names: str) -> list[list[int]]:
    """What was written to outputs so far."""
    known = system.admin().streams()
    return [[int(record[1] or b"") for record in contents(system, name)] if name in known else [] for name in names]


def run_more(system: System, pipeline: Pipeline, *, settings: Settings | None = None) -> list[list[int]]:
    """Run on one more message in each input; what the counters say."""
    write(system, {name: [[(b"k", b"x", 0, ())]] for name in ("a", "b")})
    before = [len(found) for found in outputs(system, "a-out", "b-out")]
    run(pipeline, system=system, until="end", settings=settings)
    return [found[start:] for found, start in zip(outputs(system, "a-out", "b-out"), before, strict=True)]


@pytest.fixture(params=["log", "memory"])
def system(request: pytest.FixtureRequest, tmp_path: Path) -> System:
    return LogSystem(tmp_path, fsync=False) if request.param == "log" else MemorySystem()


def test_stages_become_one_and_two_again(system: System) -> None:
    for number, pipeline in enumerate([apart, together, apart, together, together, apart], 1):
        assert run_more(system, pipeline()) == [[number], [number]]


def test_operators_change_places(system: System) -> None:
    for number, pipeline in enumerate([apart, swapped, swapped, apart], 1):
        assert run_more(system, pipeline()) == [[number], [number]]


def test_operators_that_are_gone_come_back_elsewhere(system: System) -> None:
    run_more(system, apart())
    run_more(system, without_state())
    assert run_more(system, together()) == [[2], [2]]
    run_more(system, without_state())
    assert run_more(system, apart()) == [[3], [3]]


def test_the_first_operator_with_state_of_a_stage_begins_empty(system: System) -> None:
    run_more(system, without_state())
    assert run_more(system, apart()) == [[1], [1]]


@pytest.mark.parametrize(
    "changes",
    [
        [behind, lambda: behind("by")],
        [lambda: behind("by"), lambda: behind("other")],
        [behind, lambda: behind(first="b")],
    ],
    ids=["a border in front", "another border", "another source"],
)
def test_what_is_in_front_of_an_operator_changes(system: System, changes: list[Callable[[], Pipeline]]) -> None:
    first, second = changes
    run_more(system, first())
    run_more(system, first())
    counts = run_more(system, second())[0]
    assert counts[0] == 3
    last = counts[-1]
    # Of a source that was not read before, all is new.
    assert run_more(system, first())[0][0] == last + 1


def test_a_move_takes_little_memory_however_much_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of one entry each: what is written at once is bounded."""
    monkeypatch.setattr(state_moves, "PIECE_BYTES", 1)
    stores: list[WatchedStore] = []

    def open_store(task: str) -> WatchedStore:
        stores.append(WatchedStore(store_for(changed, task, log, Settings())))
        return stores[-1]

    log = LogSystem(tmp_path, fsync=False)
    write(log, {"a": [[(b"%d" % number, b"x", 0, ()) for number in range(20)]]})
    run_more(log, apart())
    changed = checked_plan(swapped(), log, Settings())
    with closing(log.producer()) as producer:
        state_moves.move_states(CommittedLog(changed, log, producer, "reset"), open_store)
    written = [changes for store in stores for changes in store.written]
    sizes = [sum(key is not None and prefix != META for prefix, key, _ in changes) for changes in written]
    assert [size for size in sizes if size] == [1] * (22 + 2)  # the keys of each counter, and one entry more
    assert run_more(log, swapped()) == [[2], [2]]


def test_a_store_that_a_move_needs_and_that_is_open_elsewhere_is_reported(tmp_path: Path) -> None:
    log = LogSystem(tmp_path, fsync=False)
    run_more(log, apart())
    with closing(RocksStore(tmp_path / "state" / "p" / "b-0")):
        error = error_of(lambda: run_more(log, together()), StoreLocked)
    assert "a folder that no other process has open" in str(error)
    assert run_more(log, together()) == [[2, 3], [2, 3]]


def test_what_was_moved_is_removed_where_it_was(tmp_path: Path) -> None:
    log = LogSystem(tmp_path, fsync=False)
    run_more(log, apart())
    run_more(log, together())
    with closing(RocksStore(tmp_path / "state" / "p" / "b-0")) as store:
        assert list(store.scan(prefix_of("n-b"))) == []
    assert [sorted(states_of(log, task)) for task in ("a/0", "b/0")] == [["joined", "n-a", "n-b"], []]


def states_of(system: System, task: str) -> list[str]:
    return list(decode(system.admin().checkpoints("p")[task], task).states)
