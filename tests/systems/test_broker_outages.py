"""Brokers go away and come back: nothing is lost; and where they stay away, the address is told."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from threading import Thread

import pytest

from fluvial.dsl.errors import SystemProblem
from fluvial.dsl.message import Record
from fluvial.runtime.systems import KafkaSystem
from fluvial.runtime.systems.contract import Consumer, RecordProducer
from kafka.broker import Broker

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.usefixtures("broker")]

COUNT = 20_000

STARTED = 1000 * (int(time.time()) - 60)
"""Milliseconds. Brokers go by the times of records: a killed one forgets who sent those that are older than a day."""


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker of these tests' own."""
    with Broker(tmp_path_factory.mktemp("broker")) as broker:
        yield broker


@pytest.fixture
def mortal(own_broker: Broker) -> Broker:
    """A broker that a test may kill, and that the one before may have killed."""
    own_broker.come_back()
    return own_broker


def numbered(*bounds: int) -> list[Record]:
    return [(b"%d" % number, bytes(100), STARTED + number, ()) for number in range(*bounds)]


def read_some(consumer: Consumer, least: int) -> list[Record]:
    """At least so many records."""
    records: list[Record] = []
    while len(records) < least:
        for batch in consumer.poll(1.0):
            records += batch.records
    return records


@pytest.mark.parametrize("id", [pytest.param(None, marks=pytest.mark.long), "visits-0"])
def test_what_is_sent_and_read_through_a_crash_comes_once_and_in_order(mortal: Broker, id: str | None) -> None:
    name = mortal.make_topic()
    system = KafkaSystem(mortal.address)
    sender, consumer = system.record_producer(id), system.consumer()
    consumer.assign({(name, 0): 0})
    begin: Callable[[], None] = sender.begin if id else lambda: None
    end: Callable[[], None] = sender.commit if id else sender.flush
    begin()
    sender.send(name, 0, numbered(COUNT))
    end()
    seen = read_some(consumer, 1)
    begin()
    sender.send(name, 0, numbered(COUNT, 2 * COUNT))
    mortal.kill()
    sender.send(name, 0, numbered(2 * COUNT, 3 * COUNT))
    starting = Thread(target=mortal.start)
    starting.start()
    end()
    starting.join()
    seen += read_some(consumer, 3 * COUNT - len(seen))
    sender.close()
    consumer.close()
    assert seen == numbered(3 * COUNT)


def test_what_is_asked_while_a_broker_is_away_waits_for_it(mortal: Broker) -> None:
    name = mortal.make_topic()
    admin = KafkaSystem(mortal.address).admin()
    assert admin.ends(name) == [0]
    mortal.kill()
    starting = Thread(target=mortal.start)
    starting.start()
    assert admin.ends(name) == [0]
    starting.join()


def test_brokers_that_stay_away_are_given_up(mortal: Broker) -> None:
    name = mortal.make_topic()
    system = KafkaSystem(mortal.address, give_up_after=timedelta(seconds=3))
    admin, sender, consumer, transactional = (
        system.admin(),
        system.record_producer(),
        system.consumer(),
        system.record_producer(name),
    )
    admin.ends(name)
    consumer.assign({(name, 0): 0})
    transactional.begin()
    for one in (sender, transactional):
        one.send(name, 0, numbered(1))
        one.flush()
    read_some(consumer, 1)
    mortal.kill()

    def send(one: RecordProducer) -> None:
        one.send(name, 0, numbered(1))
        one.flush()

    told = f"(?s)kafka://{mortal.address} is out of reach: no broker has answered for 3 s.*the last error: .+refused"
    for action in (
        lambda: read_some(consumer, 1),
        lambda: send(sender),
        lambda: transactional.commit(),
        lambda: admin.ends(name),
    ):
        with pytest.raises(SystemProblem, match=told):
            action()
    sender.close()
    transactional.close()
    consumer.close()


HURRIED = """
import sys
from fluvial.dsl.errors import SystemProblem
from fluvial.runtime.systems import KafkaSystem
from fluvial.runtime.systems.kafka import offsets

address, name = sys.argv[1:]
requests = KafkaSystem(address)._cluster.offsets
whole, late = requests.log_ends([(name, 0)]), 0
for number in range(2000):
    offsets._SOON = (0.0002 * (1 + number % 10),)
    try:
        assert requests.log_ends([(name, 0)], patience=0.0) == whole
    except SystemProblem:
        late += 1
assert late > 100, late
print("well")
"""
"""Asks for offsets with so little time that many answers come too late."""


def test_a_request_that_takes_too_long_does_no_harm(broker: Broker) -> None:
    # A process of its own: what librdkafka has done there with its memory would end this one.
    name = broker.make_topic()
    command = [sys.executable, "-X", "faulthandler", "-c", HURRIED, broker.address, name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, "well\n"), done.stderr
