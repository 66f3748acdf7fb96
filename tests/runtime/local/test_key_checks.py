"""Keys of sources that have grown are where the partitioner puts them, or the task is not run."""

from datetime import timedelta

import pytest

from explained import assert_explains, error_of
from fluvial.dsl import Pipeline, PlanError, count, tumbling
from fluvial.dsl.message import Record
from fluvial.planner import plan
from fluvial.planner.growths import grown, partitions_read
from fluvial.planner.plan import Plan
from fluvial.runtime.local.key_checks import KeyCheck, key_checks
from fluvial.runtime.local.task_setup import TaskSetup
from fluvial.runtime.state import MemoryStore
from fluvial.runtime.systems.contract import RecordBatch
from fluvial.runtime.systems.partitioner import partition_for


def planned(partitions: int, *, stateful: bool = True) -> Plan:
    pipeline = Pipeline("p")
    sent = pipeline.stream("in", key=str, value=str)
    if stateful:
        sent.window(tumbling(timedelta(days=1)), count(), id="n").send_to("out")
    else:
        sent.send_to("out")
    return grown(plan(pipeline, partitions={"in": 2}), {"in": partitions})


def key(**places: int) -> bytes:
    """A key that is in these partitions, by the number of partitions."""
    wanted = {int(name.removeprefix("of")): place for name, place in places.items()}
    keys = (b"%d" % number for number in range(1_000))
    return next(one for one in keys if all(partition_for(one, of) == place for of, place in wanted.items()))


def batch(partition: int, *keys: bytes | None) -> RecordBatch:
    records: list[Record] = [(one, b"", 0, ()) for one in keys]
    return RecordBatch("in", partition, range(7, 7 + len(keys)), records)


def test_keys_may_lie_where_any_count_of_before_puts_them() -> None:
    made = planned(8)
    KeyCheck(made, "in", 0).check(batch(0, key(of2=0, of4=2, of8=2), key(of2=0, of4=0, of8=4), key(of8=0), None))
    KeyCheck(made, "in", 2).check(batch(2, key(of4=2, of8=6), key(of8=2)))
    KeyCheck(made, "in", 6).check(batch(6, key(of8=6)))


@pytest.mark.parametrize(
    ("partition", "wrong"), [(0, key(of2=1)), (2, key(of2=0, of4=0, of6=0)), (6, key(of4=2, of8=2))]
)
def test_a_key_that_no_count_puts_there_is_reported_with_what_to_do(partition: int, wrong: bytes) -> None:
    check = KeyCheck(planned(8), "in", partition)
    error = error_of(lambda: check.check(batch(partition, key(of8=partition), wrong)), PlanError)
    text = f"the stream 'in' has grown from 2 to 8 partitions, and is not partitioned by murmur2: the key {wrong!r} at "
    assert_explains(error, text + f"offset 8 of partition {partition}", planned, "murmur2_random", ".partition_by(", 2)


def test_only_tasks_with_state_that_read_several_partitions_look_at_keys() -> None:
    def checked(made: Plan) -> set[tuple[str, int]]:
        return {*key_checks(made, TaskSetup("in/0", "in", 0, MemoryStore(), {}, partitions_read(made, "in", 0)))}

    assert checked(planned(4)) == {("in", 0), ("in", 2)}
    assert checked(planned(4, stateful=False)) == checked(planned(2)) == set()
