"""Which records of a changelog are a task's own."""

import pytest

from fluvial.dsl.errors import SystemProblem
from fluvial.planner.state_schema import StateSchema
from fluvial.runtime.kernel.key_buckets import bucket_of
from fluvial.runtime.local.task_setup import TaskSetup
from fluvial.runtime.state import MemoryStore

SCHEMAS = {"w": StateSchema(kind="window"), "p": StateSchema(kind="process")}
CHANGELOGS = {"w": "p-w-changelog", "p": "p-p-changelog"}
BUCKETS = [
    TaskSetup(f"in/0-{n}-4", "in", 0, MemoryStore(), CHANGELOGS, bucket=n, elasticity=4, schemas=SCHEMAS)
    for n in range(4)
]


@pytest.mark.parametrize("key", [b"a", b"b", b"user"])
def test_a_record_is_of_the_bucket_of_its_key(key: bytes) -> None:
    owners = [setup.bucket for setup in BUCKETS if setup.owns("w", b"k" + key)]
    assert owners == [bucket_of(key, 4)]


def test_one_that_is_of_all_keys_is_of_all_buckets() -> None:
    assert all(setup.owns("p", b"e\0run") for setup in BUCKETS)


def test_one_that_does_not_tell_its_key_is_an_error() -> None:
    with pytest.raises(SystemProblem, match="a record in the changelog 'p-w-changelog' does not tell the key"):
        BUCKETS[0].owns("w", b"t")
