"""Whether a run moves."""

import pytest

from fluvial.runtime.metrics.definitions import BY_NAME
from fluvial.runtime.metrics.health import LIMITS, MOVES, WAITS, Health
from fluvial.runtime.report import Progress, Sample


def told(phase: str, **values: float) -> Progress:
    facts = tuple(Sample(name, value) for name, value in values.items())
    return Progress(phase=phase, seconds=0.0, read=0, written=0, facts=facts)


def after(*told: Progress) -> Health:
    """The health of a run that began at second 0 and told something each second after."""
    health = Health()
    health.begin(0)
    for second, progress in enumerate(told, 1):
        health.update(progress, second)
    return health


def test_what_is_looked_at_is_measured() -> None:
    assert {*BY_NAME} >= MOVES | WAITS | LIMITS
    assert {name for name in MOVES if BY_NAME[name].kind != "counter"} == {"batch_tasks_done"}
    assert all(BY_NAME[name].kind == "gauge" for name in WAITS)


def test_a_run_that_moves_does_not_stall() -> None:
    health = after(*(told("running", messages_processed=number, lag_messages=9) for number in range(5)))
    assert health.stalled(5) == 0


def test_a_long_batch_moves_as_long_as_its_tasks_end() -> None:
    batch = [told("running", messages_processed=7, batch_tasks=9, batch_tasks_done=number) for number in range(5)]
    assert after(*batch).stalled(5) == 0
    assert after(*batch, *[batch[-1]] * 3).stalled(8) == 3


@pytest.mark.parametrize("name", sorted(WAITS))
def test_a_run_that_does_not_move_while_there_is_work_stalls(name: str) -> None:
    health = after(*[told("running", **{"messages_processed": 7, name: 1}) for _ in range(5)])
    assert health.stalled(6) == 5


def test_to_wait_for_a_limit_is_no_stall() -> None:
    assert after(*[told("running", calls_in_flight=2, limit_holds=1)] * 4).stalled(4) == 0
    assert after(*[told("running", calls_in_flight=2, limit_holds=0)] * 4).stalled(4) == 3


def test_messages_that_land_while_a_commit_waits_for_others_are_no_stall() -> None:
    landing = [told("running", messages_processed=7, messages_in_flight=left) for left in (9, 8, 5, 1)]
    assert after(*landing).stalled(4) == 0
    assert after(*landing, landing[-1]).stalled(5) == 1


def test_a_run_that_has_nothing_to_do_does_not_stall() -> None:
    assert after(*(told("running", messages_processed=7, lag_messages=0) for _ in range(5))).stalled(5) == 0


def test_a_run_that_says_nothing_stalls() -> None:
    assert after().stalled(3) == 3
    assert after(told("running", messages_processed=7)).stalled(4) == 3


def test_a_restore_that_moves_does_not_stall_and_is_not_ready() -> None:
    restoring = [told("restoring", restored_records=number, restore_remaining_records=9) for number in range(5)]
    health = after(*restoring)
    assert (health.stalled(5), health.ready) == (0, False)
    health.update(told("running"), 6)
    assert health.ready


def test_a_run_that_has_ended_is_waited_for_by_nobody() -> None:
    health = after(told("running", messages_processed=7, lag_messages=1))
    health.end()
    assert (health.stalled(100), health.ready) == (0, False)
