"""Settings: each has a type and a rule, and a wrong one says what is expected."""

from datetime import timedelta
from typing import Any

import pytest

from explained import assert_explains, error_of
from fluvial.dsl import UsageError
from fluvial.planner import Settings

NUMBERS = "1, 2, 4, 8, 16, 32 or 64, or such a number by id of a stage"


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("guarantee", "twice", "'at_least_once' or 'exactly_once'"),
        ("commit_interval", 5, "a timedelta, not negative or None"),
        ("commit_interval", timedelta(-1), "a timedelta, not negative, or None"),
        ("cached_entries", 0, "a whole number, 1 or more"),
        ("cached_entries", True, "a whole number, 1 or more"),
        ("rocksdb_buffer_bytes", 1000, "65536 or more"),
        ("spark_buckets", 5000, "from 1 to 4096"),
        ("standbys", -1, "a whole number, 0 or more"),
        ("standbys", True, "a whole number, 0 or more"),
        ("standbys", 1.5, "a whole number, 0 or more"),
        ("heartbeat_timeout", 3, "a timedelta of 1 s or more"),
        ("heartbeat_timeout", timedelta(milliseconds=999), "a timedelta of 1 s or more"),
        ("elasticity", 3, NUMBERS),
        ("elasticity", 128, NUMBERS),
        ("elasticity", {"clicks": 3}, NUMBERS),
        ("elasticity", {"clicks": True}, NUMBERS),
        ("elasticity", {1: 2}, "a whole number, 1 or more or such a number by name"),
        ("elasticity", "4", "a whole number, 1 or more or such a number by name"),
        ("group_by", "stream", "'partition' or 'stream-partition', or one of them by id of a stage"),
        ("group_by", {"clicks": "stream"}, "'partition' or 'stream-partition', or one of them by id of a stage"),
        ("group_by", 4, "'partition' or 'stream-partition', or one of them by id of a stage"),
    ],
)
def test_a_wrong_setting_is_refused(name: str, value: Any, expected: str) -> None:
    error = error_of(lambda: Settings(**{name: value}), UsageError)
    assert_explains(error, f"Settings: {name}={value!r}", None, expected, "correct it, or leave it out")


def test_the_grouping_is_that_of_all_stages_or_of_some() -> None:
    assert Settings(group_by="stream-partition").grouping_of("clicks") == "stream-partition"
    some = Settings(group_by={"clicks": "stream-partition"})
    assert (some.grouping_of("clicks"), some.grouping_of("visits-by-user")) == ("stream-partition", "partition")


def test_the_elasticity_is_that_of_all_stages_or_of_some() -> None:
    assert Settings(elasticity=4).elasticity_of("clicks") == 4
    some = Settings(elasticity={"clicks": 2})
    assert (some.elasticity_of("clicks"), some.elasticity_of("visits-by-user")) == (2, 1)
