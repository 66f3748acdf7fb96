"""Remote tables as a user declares them: what is kept of the arguments, and what is refused before a run."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from explained import assert_explains, error_of
from fluvial.dsl import Adaptive, Batch, Cache, Limit, Pipeline, PipelineError, Retry

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)


async def fetch(user: str) -> str | None:
    return user


async def fetch_all(users: list[str]) -> dict[str, str]:
    return {user: user for user in users}


async def store(user: str, row: str | None) -> None:
    del user, row


def remote(**words: Any) -> Any:
    given: dict[str, Any] = {"read": fetch, **words}
    return Pipeline("p").remote_table("users", **given)


def test_lengths_are_kept_in_ms() -> None:
    assert (Batch(delay=SECOND).delay_ms, Cache(ttl=SECOND).ttl_ms, Cache().ttl_ms) == (1000, 1000, None)
    assert remote(timeout=2 * SECOND).timeout_ms == 2000
    assert (remote(hedge=SECOND, writes_per_second=9).hedge_ms, remote().hedge_ms) == (1000, None)


@pytest.mark.parametrize(("size", "most"), [(None, 100), (40, 2), (100, 1)])
def test_as_many_calls_run_at_once_as_there_are_batches_of_the_messages(size: int | None, most: int) -> None:
    words = {} if size is None else {"read": fetch_all, "batch": Batch(size=size)}
    assert remote(max_in_flight=100, concurrency=Adaptive(), **words).most_calls == most


def test_an_answer_may_take_its_attempts_and_the_wait_for_a_batch() -> None:
    once = remote(timeout=SECOND, retry=Retry(attempts=1))
    batched = remote(read=fetch_all, timeout=SECOND, retry=Retry(attempts=1), batch=Batch(delay=SECOND))
    assert once.longest_ms >= 1000
    assert batched.longest_ms - once.longest_ms == 1000


@pytest.mark.parametrize(
    ("make", "wrong", "expected", "remedy"),
    [
        (lambda: remote(batch=3), "batch=3", "a Batch", "Batch(size=100)"),
        (lambda: remote(cache=3), "cache=3", "a Cache", "Cache(size=10_000)"),
        (lambda: remote(retry=3), "retry=3", "a Retry", "Retry(attempts=3)"),
        (lambda: remote(breaker=3), "breaker=3", "a Breaker", "Breaker("),
        (lambda: remote(concurrency=3), "concurrency=3", "an Adaptive", "Adaptive()"),
        (lambda: remote(concurrency=Adaptive(least=101)), "Adaptive(least=101) and max_in_flight=100", "", ""),
        (
            lambda: remote(hedge=MINUTE),
            "hedge=datetime.timedelta(seconds=60) and timeout=",
            "shorter",
            "shorter hedge=",
        ),
        (
            lambda: remote(hedge=SECOND, reads_per_second=9),
            "hedge= and reads_per_second=, which would not count second calls",
            "one of them",
            "leave out hedge=",
        ),
        (lambda: remote(hedge=SECOND, limit=Limit("s", calls=9)), "hedge= and limit=", "one of them", ""),
        (
            lambda: remote(read=fetch_all, batch=Batch(size=40), concurrency=Adaptive(least=3)),
            "Adaptive(least=3) and max_in_flight=100, which is the most, in batches of 40",
            "a least that is not above the most",
            "a larger max_in_flight=",
        ),
        (lambda: remote(reads_per_second=0), "reads_per_second", "a number of keys above 0", ""),
        (lambda: remote(max_in_flight=0), "max_in_flight", "", ""),
        (lambda: Batch(size=0), "Batch: size", "", ""),
        (lambda: Cache(ttl=timedelta(0)), "Cache: ttl", "", ""),
        (lambda: Cache(missing=timedelta(0)), "Cache: missing", "", ""),
    ],
)
def test_arguments_that_make_no_table_are_refused(
    make: Callable[[], Any], wrong: str, expected: str, remedy: str
) -> None:
    assert_explains(error_of(make, PipelineError), wrong, None, expected, remedy)


@pytest.mark.parametrize("words", [{"write": fetch}, {"read": store}])
def test_a_function_that_takes_other_arguments_is_refused(words: dict[str, Any]) -> None:
    error_of(lambda: remote(**words), PipelineError)


def test_a_journal_is_refused_with_what_to_do_instead() -> None:
    raised = error_of(lambda: remote(journal=True), PipelineError)
    assert_explains(raised, "remote_table has no journal=", None, "remote_table(name, read=...)", "call_key()")


def test_a_table_that_cannot_be_written_takes_no_messages() -> None:
    pipeline = Pipeline("p")
    users = pipeline.remote_table("users", read=fetch)
    place: Any = lambda: pipeline.stream("rows", key=str, value=str).send_to(users)  # noqa: E731
    raised = error_of(place, PipelineError)
    assert_explains(raised, "which has no write=", None, "a table that can be written", "pass write=")
