"""Containers that are killed while the topic that they read grows: each key is counted on, in order, once."""

import random
import signal
import time
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest

from engines.targets import contents
from fluvial.dsl.message import Record
from fluvial.runtime.local.coordination.coordinator_stream import Coordinator
from fluvial.runtime.systems import KafkaSystem
from fluvial.runtime.systems.partitioner import partition_for
from kafka.broker import Broker
from kafka.container_runs import PATIENCE, Yard, ended, kill
from waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.kafka, pytest.mark.long]

PROGRAM = '''"""Numbers the messages of each key, slowly."""

import time
from collections.abc import Iterator

from fluvial.dsl import Context, KeyedProcessor, Message, Pipeline, ValueState


class Numbering(KeyedProcessor[str, str, str]):
    seen = ValueState(int, 0)

    def on_message(self, message: Message[str], context: Context[str]) -> Iterator[str]:
        time.sleep(0.001)
        self.seen.value += 1
        yield f"{self.seen.value} {message.value}"


numbers = Pipeline("NAME-n")
numbers.stream("NAME-words", key=str, value=str).process(Numbering(), id="n").send_to("NAME-out")
'''
KEYS = [f"k{number}" for number in range(40)]
ROUNDS = 20
AGE_MS = 2_000
"""How soon clients hear of new partitions."""


class Growing:
    """A topic that grows, its producer, which hears of that late, and what was sent of each key."""

    def __init__(self, broker: Broker, folder: Path) -> None:
        self.broker, name = broker, f"g{uuid4().hex[:8]}"
        self.yard = Yard(KafkaSystem(broker.address), folder, name)
        self.yard.target.write_text(PROGRAM.replace("NAME", name))
        self.topic = f"{name}-words"
        self.yard.system.admin().create(self.topic, 2)
        self.known = 2
        self.sent = 0

    def send(self) -> None:
        """Send some messages of each key, as by a producer that knows so many partitions as it has heard of."""
        records: dict[int, list[Record]] = {}
        for _ in range(ROUNDS):
            for key in KEYS:
                partition = partition_for(key.encode(), self.known)
                records.setdefault(partition, []).append((key.encode(), b"%d" % self.sent, 1_000, ()))
            self.sent += 1
        writing = self.yard.system.producer().begin()
        for partition, some in records.items():
            writing.append(self.topic, partition, some)
        writing.commit()

    @property
    def written(self) -> dict[bytes | None, list[bytes | None]]:
        found: dict[bytes | None, list[bytes | None]] = {}
        for key, value, _, _ in contents(self.yard.system, f"{self.yard.name}-out"):
            found.setdefault(key, []).append(value)
        return found


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
@pytest.mark.parametrize("seed", range(3))
def test_containers_that_are_killed_as_a_topic_grows_keep_order_and_state(
    broker: Broker, tmp_path: Path, guarantee: str, seed: int
) -> None:
    made, chance = Growing(broker, tmp_path), random.Random(f"{guarantee} {seed}")
    conf = tmp_path / "client.properties"
    conf.write_text(f"metadata.max.age.ms={AGE_MS}\n")
    words = ("--guarantee", guarantee, "--kafka-conf", str(conf))
    made.send()
    with made.yard.running("numbers", "--containers", "2", *words) as run:
        made.yard.container("numbers", 0, run)
        for partitions in (4, 8):
            broker.grow_topic(made.topic, partitions)
            made.send()  # to the partitions of before
            time.sleep(chance.uniform(0.0, 1.0))
            made.known = partitions
            made.send()
            time.sleep(chance.uniform(0.0, 4.0))
            found = Coordinator(made.yard.system, made.yard.pipeline("numbers").name).read()[0].presences
            gone = found[chance.choice(sorted(found))]
            kill(gone)
            made.send()
            made.yard.container("numbers", gone.container, run, gone.incarnation)
        wait_until(partial(_is_whole, made), "all is counted", PATIENCE)
        run.send_signal(signal.SIGTERM)
        ended(run, 0)
    wanted = [b"%d %d" % (number + 1, number) for number in range(made.sent)]
    for key in KEYS:
        written = made.written[key.encode()]
        assert [*dict.fromkeys(written)] == wanted
        assert guarantee == "at_least_once" or written == wanted


def _is_whole(made: Growing) -> bool:
    written = made.written
    return all(len({*written.get(key.encode(), ())}) == made.sent for key in KEYS)
