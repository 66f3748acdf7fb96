"""Requests to a cluster: tried again while brokers come back, and given up here, never in the client."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import replace

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from fluvial.dsl.errors import SystemProblem
from fluvial.runtime.process.machine import THIS_MACHINE, Machine
from fluvial.runtime.systems import KafkaSystem
from fluvial.runtime.systems.kafka.clients import admin_client, read_uncommitted_client
from fluvial.runtime.systems.kafka.errors import TRANSIENT
from fluvial.runtime.systems.kafka.requests import RequestClient, answer
from fluvial.runtime.systems.kafka.settings import KafkaSettings
from kafka.broker import Broker
from waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.usefixtures("broker")]

HURRIED = """
import sys
from datetime import timedelta
from fluvial.dsl.errors import SystemProblem
from fluvial.runtime.systems import KafkaSystem
from fluvial.runtime.systems.kafka import requests as client_requests

address, name = sys.argv[1:]
KafkaSystem(address).admin().create(name, 1)
system = KafkaSystem(address, give_up_after=timedelta(milliseconds=100))
admin, late = system.admin(), 0
requests = (
    lambda: admin.offsets.report(name, {(name, 0): 1}),
    lambda: admin.create(name, 1, "messages"),
    lambda: admin.create(f"{name}-{number}", 1, "changelog"),
    lambda: admin.identity(name),
    lambda: admin.remove(f"{name}-{number}"),
    lambda: system.producer().trim({(name, 0): 0}),
)
admin.identity(name)
for number in range(20):
    client_requests._ONE_REQUEST = 0.0004 * (1 + number % 10)
    for request in requests:
        try:
            request()
        except SystemProblem:
            late += 1
assert late, late
print("well", flush=True)
"""
"""Makes every kind of request of administration with so little time that many answers come too late; ends with some of
them under way."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "start", [*range(2), *(pytest.param(number, marks=pytest.mark.long) for number in range(2, 40))]
)
def test_requests_that_take_too_long_do_no_harm(broker: Broker, name: str, start: int) -> None:
    # Processes of their own: what librdkafka does with a request that it gives up would end this one.
    command = [sys.executable, "-X", "faulthandler", "-c", HURRIED, broker.address, f"{name}-{start}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, "well\n"), done.stderr


PENDING = """
import sys, threading
from fluvial.runtime.systems import KafkaSystem

address, name, before = sys.argv[1:]
admin = KafkaSystem(address).admin()
admin.create(name, 1)
if before:
    admin.offsets.report(name, {(name, 0): 1})
    for thread in threading.enumerate():
        if thread.name == "fluvial-offsets":
            thread.join()
print("ready", flush=True)
sys.stdin.readline()
if not before:
    admin.offsets.report(name, {(name, 0): 1})
"""
"""Makes a request and ends: before it is answered, or where it is made `before`, after."""


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that the tests may pause."""
    with Broker(tmp_path_factory.mktemp("broker")) as broker:
        yield broker


@pytest.mark.slow
@pytest.mark.parametrize("before", ["", "before"])
def test_the_end_of_a_process_waits_for_no_answer(own_broker: Broker, name: str, before: str) -> None:
    command = [sys.executable, "-X", "faulthandler", "-c", PENDING, own_broker.address, name, before]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == "ready\n"
        own_broker.pause()
        try:
            run.communicate("go on\n", timeout=20)
            assert run.returncode == 0
        finally:
            own_broker.resume()


def noted(reader: Consumer, name: str) -> int:
    """The offset of a topic's only partition, as tools for lag see it."""
    while True:
        try:
            (committed,) = reader.committed([TopicPartition(name, 0)])
        except KafkaException as error:  # the coordinator of the group is still to be found
            if error.args[0].code() not in TRANSIENT:
                raise
        else:
            return committed.offset


@pytest.mark.slow
def test_of_offsets_that_wait_for_an_answer_the_newest_are_noted(
    own_broker: Broker, name: str, committing: Callable[[], int]
) -> None:
    """Without a request for each: the thread that waits for the answer is the only one."""
    admin = KafkaSystem(own_broker.address).admin()
    admin.create(name, 1)
    reader = Consumer({"bootstrap.servers": own_broker.address, "group.id": name})
    admin.offsets.report(name, {(name, 0): 1})
    wait_until(lambda: noted(reader, name) == 1, "the first offset is noted")
    own_broker.pause()
    for offset in range(2, 1_000):
        admin.offsets.report(name, {(name, 0): offset})
    assert committing() == 1
    own_broker.resume()
    wait_until(lambda: noted(reader, name) == 999, "the last offset is noted")
    reader.close()


OFFSETS_AT_THE_END = """
import sys
from fluvial.runtime.systems import KafkaSystem

address, name = sys.argv[1:]
admin = KafkaSystem(address).admin()
admin.offsets.report(name, {(name, 0): 1})
admin.offsets.report(name, {(name, 0): 2})
"""


def test_a_process_notes_its_last_offsets_before_it_ends(broker: Broker, kafka: KafkaSystem, name: str) -> None:
    kafka.admin().create(name, 1)
    reader = Consumer({"bootstrap.servers": broker.address, "group.id": name})
    wait_until(lambda: noted(reader, name) < 0, "the group has a coordinator")
    subprocess.run([sys.executable, "-c", OFFSETS_AT_THE_END, broker.address, name], check=True, timeout=60)
    assert noted(reader, name) == 2
    reader.close()


OF_A_RESTART = [KafkaError._UNKNOWN_PARTITION, KafkaError._DESTROY_BROKER, KafkaError.UNKNOWN_TOPIC_OR_PART]
"""What the client says when a broker has just come back."""


def failing(*codes: int) -> Callable[[object, float], str]:
    """A request that fails with these errors before it is answered."""
    left = list(codes)

    def request(client: object, seconds: float) -> str:
        del client, seconds
        if left:
            raise KafkaException(KafkaError(left.pop(0)))
        return "answered"

    return request


@pytest.fixture
def patient(broker: Broker) -> RequestClient:
    return RequestClient(KafkaSettings(broker.address, {}, {}, 60.0, 60.0))


def test_errors_that_a_restart_brings_are_outlived(patient: RequestClient) -> None:
    assert patient.request("do it", failing(*OF_A_RESTART)) == "answered"


def machine(clock: "Clock") -> Machine:
    """A machine where time passes as the clock says."""
    return replace(THIS_MACHINE, clock=clock, sleep=clock.sleep)


class Clock:
    """Time that passes while somebody sleeps, and for a second in each request."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def until(self, *phases: tuple[float, int]) -> Callable[[object, float], str]:
        """A request that fails with an error until a time, then with the next one."""

        def request(client: object, seconds: float) -> str:
            del client, seconds
            self.now += 1.0
            for end, code in phases:
                if self.now < end:
                    raise KafkaException(KafkaError(code))
            return "answered"

        return request


AWAY = KafkaError._TRANSPORT


@pytest.mark.parametrize("code", OF_A_RESTART)
def test_brokers_that_are_back_have_the_time_once_more_to_know_their_topics(broker: Broker, code: int) -> None:
    clock = Clock()
    requests = RequestClient(KafkaSettings(broker.address, {}, {}, 60.0, 60.0), machine(clock))
    assert requests.request("do it", clock.until((50.0, AWAY), (105.0, code))) == "answered"


@pytest.mark.parametrize("phases", [1, 2, 3, 10, 30])
def test_a_request_ends_however_often_brokers_come_and_go(broker: Broker, phases: int) -> None:
    clock = Clock()
    requests = RequestClient(KafkaSettings(broker.address, {}, {}, 60.0, 60.0), machine(clock))
    coming_and_going = [(1000.0 / phases * (n + 1), OF_A_RESTART[0] if n % 2 else AWAY) for n in range(phases)]
    with pytest.raises(SystemProblem):
        requests.request("do it", clock.until(*coming_and_going))
    assert clock.now <= 121.0


def silent_until(clients: int, seen: list[object]) -> Callable[[AdminClient, float], str]:
    """A request that is answered by the client after so many others only, which are noted."""

    def request(client: AdminClient, seconds: float) -> str:
        if client not in seen:
            seen.append(client)
        return "answered" if len(seen) > clients else answer(client, Future(), min(seconds, 0.01))

    return request


def test_a_connection_that_owes_an_answer_is_not_waited_for(patient: RequestClient) -> None:
    # A broker answers the requests of a connection in their order, and may owe the first of them for long.
    seen: list[object] = []
    assert patient.request("do it", silent_until(2, seen)) == "answered"
    assert len(seen) == 3
    assert patient.request("do it", lambda client, _: client) is seen[-1], "and later requests go by the new one"


def test_there_are_two_attempts_however_short_the_time(broker: Broker) -> None:
    clock = Clock()
    requests = RequestClient(KafkaSettings(broker.address, {}, {}, 8.0, 8.0), machine(clock))
    given: list[float] = []

    def request(client: AdminClient, seconds: float) -> str:
        given.append(seconds)
        clock.sleep(seconds)
        return answer(client, Future(), 0.01)

    with pytest.raises(SystemProblem, match="out of reach"):
        requests.request("do it", request)
    assert given[0] == 4.0


def test_without_a_connection_the_client_is_kept(patient: RequestClient) -> None:
    # It connects again by itself: else, each attempt of a long outage would leave a client behind.
    seen: list[object] = []
    patient._monitor(KafkaError(KafkaError._ALL_BROKERS_DOWN))
    with pytest.raises(SystemProblem):
        patient.request_by(admin_client, "do it", silent_until(2, seen), patience=0.5)
    assert len(seen) == 1


def test_partitions_that_a_topic_was_given_are_soon_known(broker: Broker, kafka: KafkaSystem, name: str) -> None:
    # Where brokers have just come back, a client may have been told of fewer than there are; this is the same to it.
    kafka.admin().create(name, 1)
    assert kafka.admin().starts(name) == [0]
    broker.grow_topic(name, 3)
    wait_until(lambda: kafka.admin().starts(name) == [0, 0, 0], "the partitions are known", 10)


@pytest.mark.parametrize("code", OF_A_RESTART)
def test_errors_of_a_restart_that_stay_are_reported_at_the_deadline(broker: Broker, code: int) -> None:
    hasty = RequestClient(KafkaSettings(broker.address, {}, {}, 0.3, 0.3))
    with pytest.raises(SystemProblem) as told:
        hasty.request("do it", failing(*[code] * 1_000))
    assert "make the topic again" not in str(told.value)


def test_a_topic_is_gone_where_the_cluster_says_so(broker: Broker, kafka: KafkaSystem, name: str) -> None:
    kafka.admin().create(name, 1)
    sender = kafka.record_producer()
    assert sender.ends([(name, 0)]) == {(name, 0): 0}
    broker.remove_topics(name)
    with pytest.raises(SystemProblem, match=f"there is no stream '{name}'"):
        sender.ends([(name, 0)])
    sender.close()


def test_a_topic_that_the_client_has_forgotten_is_not_gone(kafka: KafkaSystem, name: str) -> None:
    admin = kafka.admin()
    admin.create(name, 1)
    forgetful = failing(KafkaError._UNKNOWN_PARTITION)

    class Forgetful:
        """A client that does not know a partition at first."""

        def __init__(self, client: Consumer) -> None:
            self._client = client

        def offsets_for_times(self, *arguments: object, **named: object) -> object:
            forgetful(self, 0.0)
            return self._client.offsets_for_times(*arguments, **named)  # type: ignore[arg-type]

        def list_topics(self, **named: object) -> object:
            return self._client.list_topics(**named)  # type: ignore[arg-type]

        def poll(self, timeout: float) -> object:
            return self._client.poll(timeout)

    requests = kafka._cluster._requests
    client = requests._client(read_uncommitted_client)
    requests._clients = {make: Forgetful(one) if one is client else one for make, one in requests._clients.items()}
    assert admin.starts(name) == [0]
