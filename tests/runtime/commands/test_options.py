"""Options of several parts are taken apart, and wrong ones are told as they were written."""

from datetime import timedelta

import pytest

from fluvial.dsl import UsageError
from fluvial.runtime.commands.options import count, duration, pairs


def test_pairs_are_split_at_the_first_sign() -> None:
    assert pairs("--input", ["a=b=c", "d=-"], "STREAM=FILE", str) == {"a": "b=c", "d": "-"}


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (["clicks"], "--partitions clicks\n  at the command line\n  expected: STREAM=N"),
        (["=4"], "--partitions =4\n  at the command line\n  expected: STREAM=N"),
        (["a="], "--partitions a=\n  at the command line\n  expected: STREAM=N"),
        (["a=x"], "--partitions a=x\n  at the command line\n  expected: STREAM=N: a whole number, 1 or more"),
        (["a=0"], "--partitions a=0\n  at the command line\n  expected: STREAM=N: a whole number, 1 or more"),
        (["a=1", "a=2"], "--partitions a=2\n  at the command line\n  expected: each name once; a was given before"),
    ],
)
def test_pairs_that_are_wrong(given: list[str], text: str) -> None:
    with pytest.raises(UsageError) as caught:
        pairs("--partitions", given, "STREAM=N", count)
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("text", "ms"), [("500ms", 500), ("2s", 2000), ("1.5min", 90_000), ("1 h", 3_600_000), ("1d", 86_400_000)]
)
def test_durations(text: str, ms: int) -> None:
    assert duration("--commit-interval", text) == timedelta(milliseconds=ms)


@pytest.mark.parametrize("text", ["500", "5m", "-1s", "", "1s2s"])
def test_durations_need_a_unit(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        duration("--commit-interval", text)
    assert str(caught.value) == (
        f"--commit-interval {text}\n  at the command line\n  expected: a number with a unit: ms, s, min, h or d\n"
        "  to do: write --commit-interval 500ms"
    )
