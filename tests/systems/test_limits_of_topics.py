"""What a cluster tells of the limits of its topics, where it tells of some only, and what is done with it."""

from collections.abc import Mapping
from concurrent.futures import Future
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from fluvial.dsl import SystemProblem
from fluvial.runtime.process.machine import THIS_MACHINE
from fluvial.runtime.systems import KafkaSystem
from fluvial.runtime.systems.kafka.admin import KafkaAdmin
from fluvial.runtime.systems.kafka.cluster import Cluster, KnownTopics, topic_settings
from fluvial.runtime.systems.kafka.record_producer import KafkaRecordProducer
from fluvial.runtime.systems.kafka.settings import KafkaSettings
from fluvial.runtime.systems.kafka.topics import warnings_of

SETTINGS = KafkaSettings("127.0.0.1:1", {}, {}, 1.0, 1.0)
LOW = {"max.message.bytes": "20000", "message.timestamp.after.max.ms": "1000"}


class Told:
    """A client that answers for each topic with its settings, or with an error."""

    def __init__(self, answers: Mapping[str, dict[str, str] | int]) -> None:
        self._answers = answers

    def describe_configs(self, resources: list[Any], **_: float) -> dict[Any, Future[Any]]:
        return {resource: self._answer(self._answers[resource.name]) for resource in resources}

    def _answer(self, answer: dict[str, str] | int) -> Future[Any]:
        future: Future[Any] = Future()
        if isinstance(answer, int):
            future.set_exception(KafkaException(KafkaError(answer)))
        else:
            future.set_result({name: SimpleNamespace(value=value) for name, value in answer.items()})
        return future


def of(**answers: dict[str, str] | int) -> dict[str, dict[str, str | None]]:
    return topic_settings(cast("AdminClient", Told(answers)), list(answers), 1.0)


def test_topics_are_reported_together() -> None:
    assert of(one=LOW, other={"max.message.bytes": "7"}) == {"one": LOW, "other": {"max.message.bytes": "7"}}


@pytest.mark.parametrize("code", [KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.UNKNOWN_TOPIC_OR_PART])
def test_one_that_may_not_be_read_or_is_not_there_is_left_out(code: int) -> None:
    assert of(secret=code, open=LOW) == {"open": LOW}


def test_an_error_that_passes_is_not_taken_for_an_answer() -> None:
    with pytest.raises(KafkaException):
        of(one=KafkaError.REQUEST_TIMED_OUT)


def cluster(settings: Mapping[str, Mapping[str, str]]) -> Cluster:
    """A cluster with topics of these settings."""

    def known(streams: Any) -> Any:
        return {stream: settings[stream] for stream in streams if stream in settings}

    made = SimpleNamespace(
        settings=SETTINGS, machine=THIS_MACHINE, reach=lambda: None, known_settings=known, describe_all=lambda _: {}
    )
    return cast("Cluster", made)


def test_the_admin_tells_the_limits_of_those_that_are_known() -> None:
    limits = KafkaAdmin(cluster({"low": LOW})).record_limits(["low", "secret"])
    assert {name: limit.largest for name, limit in limits.items()} == {"low": 19_488}


def test_a_sender_knows_the_times_that_its_topics_take() -> None:
    topics = KnownTopics(cluster({"low": LOW}))
    topics.learn(["low", "secret"])
    assert topics.latest("secret") is None
    assert topics.latest("low") is not None


def test_a_limit_that_somebody_chose_is_reported_and_a_usual_one_is_not() -> None:
    (warning,) = warnings_of("out", {"max.message.bytes": "999999"})
    assert "out takes records of up to 999999 bytes" in warning.text
    assert not warning.remedy
    assert warnings_of("out", {"max.message.bytes": "1048588"}) == []


class Refusing:
    """A client to which a broker refuses what it sends."""

    def __init__(self, report: Any, batch: int) -> None:
        self.report, self.batch = report, batch

    def flush(self, _: float) -> int:
        message = SimpleNamespace(value=lambda: bytes(5_000), key=lambda: None, topic=lambda: "low")
        self.report(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE), message)
        return 0


def test_a_sender_puts_no_more_into_a_batch_than_its_topics_take_and_tells_what_they_refuse() -> None:
    made: list[Refusing] = []

    def refusing(_: Any, __: Any, report: Any, *___: Any, batch: int, **____: Any) -> Any:
        made.append(Refusing(report, batch))
        return made[0]

    sender = KafkaRecordProducer(cluster({"low": LOW}), streams=["low", "secret"], make=refusing)
    assert made[0].batch == 19_488
    with pytest.raises(SystemProblem, match=r"(?s)would not take a record of 5,000 bytes for 'low'.*to do: raise max"):
        sender.flush()


def test_a_system_out_of_reach_makes_no_sender() -> None:
    system = KafkaSystem("127.0.0.1:1", reach_within=timedelta(milliseconds=100))
    with pytest.raises(SystemProblem, match="is out of reach"):
        system.record_producer(streams=["low"])


def test_settings_are_asked_for_where_there_are_topics() -> None:
    unreachable = Cluster(KafkaSettings("127.0.0.1:1", {}, {}, 0.1, 0.1))
    assert unreachable.known_settings([]) == {}
    with pytest.raises(SystemProblem, match="is out of reach"):
        unreachable.known_settings(["low"])
