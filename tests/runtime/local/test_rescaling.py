"""A change of elasticity that is cut off leaves the tasks of before, or has made those of now."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from engines.several import Death
from engines.targets import append, contents
from fluvial.dsl import Pipeline, PlanError, count, skip, tumbling
from fluvial.dsl.errors import SystemProblem
from fluvial.planner import Settings
from fluvial.runtime import run
from fluvial.runtime.kernel.time.bounds import LATEST
from fluvial.runtime.launch import checked_plan
from fluvial.runtime.local import engine, rescaling
from fluvial.runtime.local.checkpoints.checkpoint import checkpoints_in
from fluvial.runtime.local.coordination.membership import ContainerId
from fluvial.runtime.process.machine import THIS_MACHINE
from fluvial.runtime.systems import LogSystem
from fluvial.runtime.systems.log.producer import LogProducer

USERS = [f"user{number}" for number in range(12)]


def counting() -> Pipeline:
    pipeline = Pipeline("p")
    keyed = pipeline.stream("in", value=str).partition_by(str, id="by", key_type=str)
    counted = keyed.window(tumbling(timedelta(seconds=1)), count(), id="n")
    counted.map(lambda pane: f"{pane.key} {pane.window.start} {pane.value}").send_to("out", value=str)
    return pipeline


def advance(log: LogSystem, number: int, elasticity: int, until: Any = "caught-up") -> None:
    append(log, "in", number % 2, [(None, user.encode(), 1000 * number + 500, ()) for user in USERS])
    run(counting(), system=log, until=until, settings=Settings(elasticity=elasticity))


def written(log: LogSystem) -> list[str]:
    return sorted((value or b"").decode() for _, value, _, _ in contents(log, "out"))


async def itself(number: int) -> list[int]:
    return [number]


def dying(method: Callable[..., Any], at: int, *, after: bool) -> Callable[..., Any]:
    calls = iter(range(1000))

    def mortal(*arguments: Any, **named: Any) -> Any:
        dies = next(calls) == at
        if dies and not after:
            raise Death
        result = method(*arguments, **named)
        if dies:
            raise Death
        return result

    return mortal


CALLS = {"_copy": 4, "_copy_state": 4, "_remove_stores": 1, "_write": 4, "align": 4}
"""How often each is called at least. A split of two tasks that are whole calls those that take one task twice."""
OF_WHOLE = {"_copy": 2, "_write": 2, "align": 2}
USUAL = [
    ("align", 1, "after"),
    ("_write", 1, "after"),
    ("_copy_state", 0, "after"),
    ("_remove_stores", 0, "before"),
    ("_remove_stores", 0, "after"),
]
"""A point of each kind: amid tasks, amid the state of one, between that of two, and around the commit. Others are at
length; `tests/properties/test_rescales.py` has deaths of the runs around it, at random."""
POINTS = [
    pytest.param(elasticity, *point, marks=[] if point in USUAL else [pytest.mark.long])
    for elasticity in [(1, 4), (4, 1), (2, 4)]
    for name, calls in (CALLS | OF_WHOLE if elasticity[0] == 1 else CALLS).items()
    for at in [0, 1, 3]
    for point in [(name, at, "before"), (name, at, "after")]
    if at < calls
]


@pytest.mark.parametrize(("elasticity", "name", "at", "where"), POINTS, ids=str)
def test_a_crash_at_any_point_loses_and_doubles_nothing(
    tmp_path: Path, elasticity: tuple[int, int], name: str, at: int, where: str
) -> None:
    log = LogSystem(tmp_path, fsync=False)
    log.admin().create("in", 2)
    advance(log, 0, elasticity[0])
    append(log, "in", 1, [(None, user.encode(), 700, ()) for user in USERS])
    mortal = dying(getattr(rescaling, name), at, after=where == "after")
    with patch.object(rescaling, name, mortal), pytest.raises(Death):
        run(counting(), system=log, until="caught-up", settings=Settings(elasticity=elasticity[1]))
    advance(log, 1, elasticity[1])
    advance(log, 2, elasticity[0], "end")
    assert written(log) == sorted(f"{user} {start} {1 + (start == 0)}" for user in USERS for start in (0, 1000, 2000))


def test_a_crash_between_the_store_and_the_log_is_made_good_before_a_split(tmp_path: Path) -> None:
    log = LogSystem(tmp_path, fsync=False)
    log.admin().create("in", 2)
    advance(log, 0, 1)
    append(log, "in", 0, [(None, user.encode(), 700, ()) for user in USERS])
    with patch.object(LogProducer, "publish", dying(LogProducer.publish, 2, after=False)), pytest.raises(Death):
        run(counting(), system=log, until="caught-up")
    advance(log, 1, 4, "end")
    assert written(log) == sorted(f"{user} {start} {1 + (start == 0)}" for user in USERS for start in (0, 1000))


def test_state_that_does_not_tell_its_key_is_not_split(tmp_path: Path) -> None:
    log = LogSystem(tmp_path, fsync=False)
    log.admin().create("in", 2)
    advance(log, 0, 1)
    with (
        patch.object(rescaling, "key_of_record", lambda *_: None),
        pytest.raises(PlanError, match="does not tell the key"),
    ):
        run(counting(), system=log, until="end", settings=Settings(elasticity=2))
    assert {*checkpoints_in(log, "p")} == {"in/0", "in/1", "p-by/0", "p-by/1"}
    advance(log, 1, 2, "end")


def test_tasks_that_do_not_meet_are_not_merged(tmp_path: Path) -> None:
    log = LogSystem(tmp_path, fsync=False)
    log.admin().create("in", 2)
    advance(log, 0, 2)
    tasks = {*checkpoints_in(log, "p")}
    with (
        patch.object(rescaling, "apart", lambda *_: True),
        pytest.raises(SystemProblem, match="have not come equally far"),
    ):
        run(counting(), system=log, until="end", settings=Settings(elasticity=1))
    assert {*checkpoints_in(log, "p")} == tasks


def test_an_input_is_not_idle_where_messages_follow_behind_what_tasks_have_to_read(tmp_path: Path) -> None:
    """Tasks that are to be merged are brought equally far, which is not to the ends of their inputs. What lies behind
    would be late in the next run, if time went on without it."""
    log, now = LogSystem(tmp_path, fsync=False), 2_000_000
    pipeline, settings = Pipeline("p"), Settings()
    one, other = (pipeline.stream(name, key=str, value=str, idle_after=timedelta(seconds=1)) for name in ("a", "b"))
    counted = one.merge(other).window(tumbling(timedelta(seconds=1)), count(), id="n")
    counted.map(lambda pane: f"{pane.window.start} {pane.value}").send_to("out", value=str)
    for name in ("a", "b"):
        log.admin().create(name, 1)
    for times, ends in (((500,), (1, 1)), ((9_500,), (2, 1)), ((), (2, 2))):
        for name in ("a", "b"):
            append(log, name, 0, [(b"k", b"v", at, ()) for at in times])
        up_to = {(name, 0): end for name, end in zip(("a", "b"), ends, strict=True)}
        machine, id = replace(THIS_MACHINE, wall=partial(int, now)), ContainerId(ends=up_to)
        engine.run(checked_plan(pipeline, log, settings), log, settings, "caught-up", None, None, id, machine)
        now += 60_000
    run(pipeline, system=log, until="end")
    assert written(log) == ["0 2", "9000 2"]


@pytest.mark.parametrize("calls", [False, True], ids=["at-once", "calls"])
def test_a_message_that_cannot_be_decoded_keeps_no_tasks_apart(tmp_path: Path, calls: bool) -> None:
    log = LogSystem(tmp_path, fsync=False)
    log.admin().create("in", 1)
    pipeline = Pipeline("p", on_error=skip())
    numbers = pipeline.stream("in", key=str, value=int)
    if calls:
        numbers = numbers.async_flat_map(itself, id="call")
    numbers.window(tumbling(timedelta(seconds=1)), count(), id="n").map(lambda pane: pane.value).send_to("out")
    append(log, "in", 0, [(user.encode(), b"1", 500, ()) for user in USERS])
    # A time that no clock shows is none.
    append(log, "in", 0, [(b"user0", b"no number", 600, ()), (b"user1", b"1", LATEST + 1, ())])
    for elasticity in (4, 2, 1):
        run(pipeline, system=log, until="caught-up", settings=Settings(elasticity=elasticity))
    (one,) = checkpoints_in(log, "p").values()
    assert one.position.reached == {"n": 600}
