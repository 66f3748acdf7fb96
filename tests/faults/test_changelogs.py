"""What changelogs hold after a container was replaced, or died in a commit: what its successors restore is right."""

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource

from engines.namespaces import Namespace
from engines.several import Death, dying_in
from engines.targets import contents, namespace, write
from fluvial.dsl import Pipeline, TakenOver, count, tumbling
from fluvial.planner import Settings
from fluvial.planner.task_assignment import stages_of, tasks_of
from fluvial.runtime.launch import checked_plan
from fluvial.runtime.local.container import Container
from fluvial.runtime.local.coordination.membership import Membership, MembershipGuard
from fluvial.runtime.local.engine import open_commits
from fluvial.runtime.local.observe.progress import ProgressReporter
from fluvial.runtime.local.open_tasks import make_tasks
from fluvial.runtime.local.run_context import RunContext
from fluvial.runtime.local.task import LocalTask
from fluvial.runtime.systems.end_offsets import EndOffsets
from fluvial.runtime.systems.kafka import KafkaRecordProducer
from kafka.broker import Broker
from waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
CHANGELOG = "p-w-changelog"


async def never(_: float) -> None:
    raise AssertionError("nothing sleeps here")


class Life:
    """A container of a pipeline that counts words in a day, with a store of its own; it reads when it is told to."""

    def __init__(self, system: Namespace, folder: Path, stack: ExitStack) -> None:
        pipeline = Pipeline("p")
        keyed = pipeline.stream("in", value=str, key=str)
        keyed.window(tumbling(timedelta(days=1)), count(), id="w").send_to("out")
        settings = Settings(commit_interval=timedelta(hours=1), state_dir=str(folder))
        plan = checked_plan(pipeline, system, settings)
        admin = system.admin()
        admin.create("out", 1)
        member = Membership(0, 1, 1, "run", frozenset(tasks_of(stages_of(plan))), None, "p-1-0")
        sender = system.record_producer()
        stack.callback(sender.close)
        commits = open_commits(plan, system, admin, settings, MembershipGuard(member), stack, outputs=sender)
        self.tasks: list[LocalTask] = make_tasks(
            RunContext("run", plan, settings, commits, never), system, admin, stack
        )
        consumer = system.consumer()
        stack.callback(consumer.close)
        reporter = ProgressReporter(plan, EndOffsets(admin), None)
        self._container = Container(plan, self.tasks, consumer, commits, settings, None, lambda: False, reporter)
        self._container.start()
        self.commit = self._container.commit_ready

    def read(self, messages: int) -> None:
        """Process so many more messages."""
        (task,) = self.tasks
        wanted = task.queues.processed + messages

        def has_read() -> bool:
            self._container.turn()
            return task.queues.processed >= wanted

        wait_until(has_read, "the container has read")

    @property
    def state(self) -> dict[bytes, bytes]:
        """What is in the store, without what it keeps besides."""
        (task,) = self.tasks
        return dict(task.setup.store.scan(b"w\0"))


def feed(system: Namespace, *words: bytes) -> None:
    write(system, {"in": [[(word, b"", 0, ()) for word in words]]})


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def test_a_container_that_was_replaced_adds_nothing_to_changelogs(
    broker: Broker, tmp_path: Path, stack: ExitStack
) -> None:
    system = namespace(broker)
    feed(system, b"a")
    zombie = Life(system, tmp_path / "zombie", stack)
    zombie.read(1)
    successor = Life(system, tmp_path / "successor", stack)
    feed(system, b"a", b"a")
    successor.read(3)
    successor.commit()
    before = contents(system, CHANGELOG)
    with pytest.raises(TakenOver, match=r"another run has taken over '.*p-1-0'"):
        zombie.commit()
    feed(system, b"b")
    successor.read(1)
    successor.commit()
    assert contents(system, CHANGELOG)[: len(before)] == before
    assert Life(system, tmp_path / "another", stack).state == successor.state


def test_a_value_is_not_lost_with_a_store_because_a_change_of_it_was_not_committed(
    broker: Broker, tmp_path: Path, stack: ExitStack
) -> None:
    """The process dies in a commit; before it is started again, hours later, the changelog is compacted."""
    system = namespace(broker)
    feed(system, b"a")
    with ExitStack() as life:
        first = Life(system, tmp_path / "first", life)
        first.read(1)
        first.commit()
        committed = first.state
        feed(system, b"a")
        first.read(1)
        with dying_in(KafkaRecordProducer, "ends", lambda *_: True), pytest.raises(Death):
            first.commit()
    compact(broker, system, CHANGELOG)
    again = Life(system, tmp_path / "second", stack)
    assert {key: value for key, value in again.state.items() if key in committed} == committed


def compact(broker: Broker, system: Namespace, stream: str) -> None:
    """Have a stream of one partition compacted, all that it holds now."""
    topic = system.prefix + stream
    soon = {"min.compaction.lag.ms": "0", "min.cleanable.dirty.ratio": "0.0", "segment.ms": "1"}
    entries = [ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in soon.items()]
    admin = AdminClient({"bootstrap.servers": broker.address})
    for asked in admin.incremental_alter_configs(
        [ConfigResource("topic", topic, incremental_configs=entries)]
    ).values():
        asked.result()
    producer = Producer({"bootstrap.servers": broker.address})
    written = 0

    def one_is_gone() -> bool:
        # Each begins a segment: all before it may be compacted.
        nonlocal written
        producer.produce(topic, b"filler", b"-", 0)
        producer.flush()
        written += 1
        return sum(key == b"-" for key, *_ in contents(system, stream)) < written

    wait_until(one_is_gone, "a record is gone", 90)
