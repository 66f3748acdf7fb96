"""RestartPolicy: rarer and rarer, and not for ever."""

from hypothesis import given
from hypothesis import strategies as st

from fluvial.runtime.containers.restart_policy import (
    FIRST_PAUSE,
    LONGEST_PAUSE,
    STEADY_SECONDS,
    WINDOW_SECONDS,
    RestartPolicy,
)

MOST = 5


@given(st.lists(st.floats(0, WINDOW_SECONDS / 2), max_size=30))
def test_it_gives_up_after_so_many_deaths_in_a_window_and_not_before(lives: list[float]) -> None:
    restarts, now, times = RestartPolicy(MOST), 0.0, []
    for worked in lives:
        now += worked
        times.append(now)
        lately = [time for time in times if time >= now - WINDOW_SECONDS]
        pause = restarts.pause(worked)
        assert (pause is None) == (len(lately) > MOST)
        assert pause is None or FIRST_PAUSE <= pause <= LONGEST_PAUSE


def test_pauses_double_until_a_container_has_worked_for_long() -> None:
    restarts = RestartPolicy(100)
    quick = [restarts.pause(0.0) for _ in range(8)]
    assert quick == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]
    assert [restarts.pause(worked) for worked in (STEADY_SECONDS, 0.0, 0.0)] == [0.2, 0.2, 0.4]
