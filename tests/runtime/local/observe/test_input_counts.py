"""What a container counts of its inputs, and the hot keys that it finds."""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.local_tasks import LocalRun, local_run
from engines.targets import append
from fluvial.dsl import INT64, Pipeline, Serde
from fluvial.planner import Settings
from fluvial.runtime import Progress, run
from fluvial.runtime.kernel.key_buckets import bucket_of
from fluvial.runtime.local.container_inputs import ContainerInputs
from fluvial.runtime.local.observe.input_counts import FEWEST_SAMPLED, MOST_KEY_BYTES, SAMPLED_EVERY, key_text
from fluvial.runtime.report import HotKey
from fluvial.runtime.systems import MemorySystem
from fluvial.runtime.systems.contract import RecordBatch

IN_TURNS = [b"ada", b"bob", b"ada", b"joe"]
"""Of two key buckets the first has ada and bob."""
ENOUGH = 4 * FEWEST_SAMPLED * SAMPLED_EVERY
"""So many messages have just enough of the keys that come each fourth time."""


def copying() -> Pipeline:
    pipeline = Pipeline("p")
    pipeline.stream("in", value=str, key=str).send_to("out")
    return pipeline


def holding(keys: Sequence[bytes | None]) -> MemorySystem:
    system = MemorySystem()
    system.admin().create("in", 1)
    append(system, "in", 0, [(key, b"v", 0, ()) for key in keys])
    return system


def hot_keys_of(keys: Sequence[bytes | None], elasticity: int = 2) -> tuple[HotKey, ...]:
    """The hot keys of a container that has read messages with these keys, and has not processed them."""
    with ExitStack() as stack:
        tasks = local_run(copying(), holding([]), stack, elasticity=elasticity).tasks
        inputs = ContainerInputs(tasks)
        inputs.add(RecordBatch("in", 0, range(len(keys)), [(key, b"v", 0, ()) for key in keys]))
        return inputs.counts.hot_keys()


def test_the_hottest_keys_of_each_key_bucket_have_their_share_of_it() -> None:
    assert [bucket_of(key, 2) for key in IN_TURNS] == [0, 0, 0, 1]
    assert hot_keys_of(IN_TURNS * (ENOUGH // 4)) == (
        HotKey("in/0-1-2", "in", '"joe"', 1.0),
        HotKey("in/0-0-2", "in", '"ada"', 0.667),
        HotKey("in/0-0-2", "in", '"bob"', 0.333),
    )


def test_progress_has_them_and_no_label_of_a_metric_has_a_key() -> None:
    told: list[Progress] = []
    system, settings = holding(IN_TURNS * (ENOUGH // 4)), Settings(elasticity=2)
    report = run(copying(), system=system, until="end", settings=settings, progress=told.append)
    assert told[-1].hot_keys == report.hot_keys == hot_keys_of(IN_TURNS * (ENOUGH // 4))
    assert not any("joe" in label for fact in told[-1].facts for label in fact.labels)


def test_few_messages_tell_of_no_hot_key() -> None:
    assert {key.task for key in hot_keys_of(IN_TURNS * (ENOUGH // 4 - SAMPLED_EVERY))} == {"in/0-0-2"}


def test_without_elasticity_keys_are_not_looked_at() -> None:
    assert hot_keys_of([b"joe"] * ENOUGH, elasticity=1) == ()


def test_keys_that_are_evenly_spread_are_not_hot() -> None:
    assert hot_keys_of([b"k%d" % number for number in range(ENOUGH)]) == ()


@pytest.mark.parametrize("key", [None, b"k" * (MOST_KEY_BYTES + 1)])
def test_messages_without_key_and_with_a_very_long_one_are_not_sampled(key: bytes | None) -> None:
    assert hot_keys_of([key] * ENOUGH) == ()


def refuses(data: bytes) -> Any:
    raise RuntimeError(f"{data!r} is none of mine")


@pytest.mark.parametrize(
    ("type_", "key", "text"),
    [
        (INT64, (17).to_bytes(8), "17"),
        (int, b"eight ch", '"eight ch"'),
        (bytes, b"ada", '"ada"'),
        (tuple[str, int], b"\x92\xa1a\x01", '["a",1]'),
        (None, b"\xff", '{"base64":"/w=="}'),
        (Serde("mine", str, str.encode, refuses), b"ada", '"ada"'),
        (str, "\x1b[2J \x9b2J".encode(), '"\\u001b[2J \\u009b2J"'),
        (str, b"k" * 100, f'"{"k" * 62}…'),
    ],
)
def test_a_key_is_shown_as_one_line_of_json(type_: Any, key: bytes, text: str) -> None:
    assert key_text(type_, key) == text


def crossing() -> Pipeline:
    pipeline = Pipeline("p")
    pipeline.stream("in", value=str, key=str).partition_by(str, id="by", key_type=str).send_to("out")
    return pipeline


def read_all(keys: Sequence[bytes | None], elasticity: int, stack: ExitStack) -> LocalRun:
    made = local_run(crossing(), holding(keys), stack, elasticity=elasticity)
    for _ in range(20):
        made.container.turn()
        made.container.commit_ready()
    return made


KEYS = st.lists(st.none() | st.integers(0, 9).map(lambda number: b"%d" % number), max_size=30)


@given(KEYS, st.sampled_from([2, 4, 8]))
def test_each_task_has_kept_or_discarded_what_it_has_read(keys: list[bytes | None], elasticity: int) -> None:
    with ExitStack() as stack:
        made = read_all(keys, elasticity, stack)
        inputs = [one for task in made.tasks for one in task.metrics().inputs]
        read = {
            sample.labels: sample.value
            for sample in made.container._reading.counts.samples()
            if sample.metric == "container_messages_read"
        }
    sources, between = inputs[:elasticity], inputs[elasticity:]
    assert len(between) == elasticity
    assert {(one.processed + (one.discarded or 0), one.read) for one in sources} == {(len(keys), len(keys))}
    for tasks in (sources, between):
        assert sum(one.processed for one in tasks) == len(keys)
        assert sum(one.discarded or 0 for one in tasks) == (elasticity - 1) * len(keys)
    # What is between stages has control messages, too.
    assert {one.read for one in between} == {read.get(("p-by", "0"), 0)}
    assert read.get(("in", "0"), 0) == len(keys)
