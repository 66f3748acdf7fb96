"""The pauses of retries: their own, and those that a service asks for."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluvial.dsl import Retry

NOW = 1_800_000_000_000
SOON = datetime.fromtimestamp(NOW / 1000 + 20, UTC)
ERROR = OSError("busy")


def asked(answer: Any, **options: Any) -> int:
    """The pause where a service asks for one, in ms; without it the pause is 100 ms."""
    return Retry(after=lambda _: answer, **options).wait_ms(1, ERROR, now=NOW, random=0.0)


@pytest.mark.parametrize(
    ("answer", "pause"),
    [
        (20, 20_000),
        (0.25, 250),
        (timedelta(seconds=20), 20_000),
        (SOON, 20_000),
        (SOON.astimezone(timezone(timedelta(hours=2))), 20_000),
        (SOON.replace(tzinfo=None), 20_000),
        ("20", 20_000),
        (" 0.5 ", 500),
        (f"{SOON:%a, %d %b %Y %H:%M:%S} GMT", 20_000),
        (0, 0),
        (-5, 0),
        (SOON - timedelta(hours=1), 0),
    ],
    ids=str,
)
def test_a_service_is_left_alone_for_as_long_as_it_asks(answer: Any, pause: int) -> None:
    assert asked(answer) == pause


FAR = ["Mon, 1 Jan 2020 00:00:00 +99999999999999", "Mon, 1 Jan 999999999999999999 00:00:00 GMT"]


@pytest.mark.parametrize("answer", [None, "", "soon", "nan", float("nan"), *FAR])
def test_where_it_does_not_say_the_pause_is_the_one_of_the_rules(answer: Any) -> None:
    assert asked(answer) == 100


@pytest.mark.parametrize("answer", [3600, "3600", float("inf"), "inf", SOON + timedelta(days=1)])
def test_nobody_is_left_alone_for_longer_than_the_bound(answer: Any) -> None:
    assert (asked(answer), asked(answer, max_after=timedelta(minutes=5))) == (60_000, 300_000)


@pytest.mark.parametrize("answer", [b"20", True, [20]])
def test_what_is_no_wait_is_refused(answer: Any) -> None:
    with pytest.raises(TypeError, match=r"after= of Retry: lambda returned .*, not seconds"):
        asked(answer)


def test_the_function_is_given_the_error() -> None:
    seen: list[BaseException] = []
    Retry(after=seen.append).wait_ms(1, ERROR, now=NOW, random=0.0)
    assert seen == [ERROR]


@given(st.floats(0, 1), st.floats(0, 1, exclude_max=True), st.integers(1, 9), st.none() | st.floats(0, 1000))
def test_no_pause_is_longer_than_the_longest(jitter: float, random: float, repeat: int, seconds: float | None) -> None:
    retry = Retry(attempts=10, jitter=jitter, after=lambda _: seconds)
    bound = 60_000 if seconds is not None else retry.pause_ms(repeat)
    pause = retry.wait_ms(repeat, ERROR, now=NOW, random=random)
    assert seconds is not None or pause >= retry.pause_ms(repeat)
    assert pause <= int(bound * (1 + jitter))
    assert pause * 9 <= retry.longest_ms(0)


def test_the_longest_pauses_are_those_that_a_service_may_ask_for() -> None:
    plain = Retry(attempts=3)
    patient = Retry(attempts=3, after=lambda _: None, max_after=timedelta(seconds=30))
    assert patient.longest_ms(1000) - plain.longest_ms(1000) == 2 * 30_000 - 300
    assert Retry(attempts=3, jitter=1.0).longest_ms(1000) - plain.longest_ms(1000) == 300


@pytest.mark.parametrize(("factor", "delay"), [(2.0, 100), (1.0, 100), (1.5, 0), (1e300, 1), (float("inf"), 0)])
def test_there_may_be_millions_of_attempts(factor: float, delay: int) -> None:
    retry = Retry(attempts=1_000_000_000, factor=factor, delay=timedelta(milliseconds=delay))
    longest = min(delay, 10_000) if factor == 1.0 or delay == 0 else 10_000
    assert retry.pause_ms(999_999_999) == longest
    assert retry.longest_ms(1000) <= 1_000_000_000 * (2000 + longest)


@given(st.integers(1, 40), st.floats(1, 3), st.integers(0, 3000), st.integers(0, 10_000))
def test_the_longest_is_the_sum_of_all_pauses(attempts: int, factor: float, delay: int, most: int) -> None:
    retry = Retry(
        attempts=attempts,
        factor=factor,
        delay=timedelta(milliseconds=delay),
        max_delay=timedelta(milliseconds=most),
    )
    pauses = sum(retry.pause_ms(repeat) for repeat in range(1, attempts))
    assert retry.longest_ms(1000) == attempts * 2000 + pauses
