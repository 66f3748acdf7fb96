"""Sources are idle after their patience, and their time goes on with the clock from then on, in steps of it."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from fluvial.runtime.kernel.time.idle_sources import newly_idle

LOOKS = st.lists(st.tuples(st.integers(0, 40), st.booleans()), max_size=12)


@given(st.integers(1, 25), LOOKS)
def test_time_goes_on_by_all_the_patience_that_has_passed_since_the_last_message(
    patience: int, looks: Sequence[tuple[int, bool]]
) -> None:
    since: dict[str, int] = {}
    now, quiet_from, given_since = 0, 0, 0
    for number, (step, active) in enumerate(looks):
        now += step
        if number == 0 or active:
            quiet_from, given_since = now, 0
        passed = dict(newly_idle(since, {"in": patience}, {"in"} if active else (), now))
        given_since += passed.get("in", 0)
        assert given_since == (now - quiet_from) // patience * patience


def test_each_has_its_own_patience() -> None:
    since = {"slow": 0, "quick": 0, "late": 15}
    assert dict(newly_idle(since, {"slow": 30, "quick": 10, "late": 10}, (), 20)) == {"quick": 20}
    assert since == {"slow": 0, "quick": 20, "late": 15}
