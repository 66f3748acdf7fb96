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
lives = st.floats(0, 2 * STEADY_SECONDS)


@given(st.lists(st.tuples(lives, st.floats(0, WINDOW_SECONDS / 2)), max_size=30))
def test_it_gives_up_after_so_many_deaths_in_a_window_and_not_before(deaths: list[tuple[float, float]]) -> None:
    restarts, now, times = RestartPolicy(MOST), 0.0, []
    for lived, rest in deaths:
        now += lived + rest
        times.append(now)
        lately = [time for time in times if time >= now - WINDOW_SECONDS]
        pause = restarts.pause(lived, now)
        assert (pause is None) == (len(lately) > MOST)
        assert pause is None or FIRST_PAUSE <= pause <= LONGEST_PAUSE


def test_pauses_double_until_a_container_has_lived_for_long() -> None:
    restarts = RestartPolicy(100)
    quick = [restarts.pause(0.0, 1.0) for _ in range(8)]
    assert quick == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]
    assert [restarts.pause(lived, 2.0) for lived in (STEADY_SECONDS, 0.0, 0.0)] == [0.2, 0.2, 0.4]
