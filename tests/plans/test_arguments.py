"""Wrong arguments of the planner are refused where they are given: by `plan`, `run`, the driver and `Settings`."""

from datetime import timedelta
from typing import Any

import pytest

from explained import assert_explains, error_of
from fluvial.dsl import Pipeline, UsageError
from fluvial.planner import Settings, plan
from fluvial.runtime import run
from fluvial.runtime.testing import PipelineDriver


def words() -> Any:
    """A pipeline, or so a type checker shall not ask."""
    pipeline = Pipeline("p")
    pipeline.stream("words", value=str).send_to("out")
    return pipeline


def stream() -> Any:
    return Pipeline("p").stream("words", value=str)


settings: Any = Settings

CASES: list[tuple[Any, str, str, str]] = [
    (lambda: plan(stream()), "a plan of MessageStream(stream words)", "a Pipeline", "not one of its streams"),
    (lambda: run(stream(), system="memory:"), "a plan of MessageStream(stream words)", "a Pipeline", ""),
    (lambda: PipelineDriver(stream()), "a plan of MessageStream(stream words)", "a Pipeline", ""),
    (lambda: plan(words(), partitions={"words": 0}), "partitions={'words': 0}", "1 or more", '{"clicks": 4}'),
    (lambda: plan(words(), partitions=words()), "partitions=Pipeline(", "1 or more", '{"clicks": 4}'),
    (lambda: plan(words(), settings=words()), "settings=Pipeline(", "Settings", "Settings("),
    (lambda: run(words(), system="memory:", settings=words()), "settings=Pipeline(", "Settings", "Settings("),
    (lambda: settings(guarantee="at least once"), "guarantee='at least once'", "'at_least_once' or", ""),
    (lambda: settings(offset_default="newest"), "offset_default='newest'", "'earliest' or 'latest'", ""),
    (lambda: settings(max_staged_bytes=0), "max_staged_bytes=0", "1 or more", ""),
    (lambda: settings(cached_entries="x"), "cached_entries='x'", "1 or more", ""),
    (lambda: settings(cached_bytes=0), "cached_bytes=0", "1 or more", ""),
    (lambda: settings(rocksdb_cache_bytes="1 MB"), "rocksdb_cache_bytes='1 MB'", "1 or more", ""),
    (lambda: settings(rocksdb_buffer_bytes=1000), "rocksdb_buffer_bytes=1000", "65536 or more", ""),
    (lambda: settings(output_partitions=0), "output_partitions=0", "or None", ""),
    (lambda: settings(commit_interval=5), "commit_interval=5", "a timedelta", ""),
    (lambda: settings(stall_timeout=timedelta(-1)), "stall_timeout=", "not negative", ""),
]


@pytest.mark.parametrize(("place", "wrong", "expected", "remedy"), CASES, ids=[case[1] for case in CASES])
def test_a_wrong_argument_is_refused(place: Any, wrong: str, expected: str, remedy: str) -> None:
    assert_explains(error_of(place, UsageError), wrong, place, expected, remedy)
