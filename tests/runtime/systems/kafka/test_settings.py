"""What may be told of a cluster, and that secrets stay secret."""

import pickle
from datetime import timedelta
from typing import Any

import pytest

from fluvial.dsl.errors import SystemProblem, UsageError
from fluvial.runtime.systems import KafkaSystem, open_system
from fluvial.runtime.systems.contract import ProducingSystem
from fluvial.runtime.systems.kafka.errors import out_of_reach
from fluvial.runtime.systems.kafka.settings import REFUSED

SECRET = "open sesame"
NOBODY = "127.0.0.1:1"
SOON = timedelta(milliseconds=300)


def test_a_cluster_is_sent_to() -> None:
    assert isinstance(KafkaSystem("one:9092"), ProducingSystem)


@pytest.mark.parametrize("url", ["one:9092", "one", "one:1,two:2", "[::1]:9092", "10.0.0.1:9092"])
def test_the_url_names_the_brokers(url: str) -> None:
    assert open_system(f"kafka://{url}").url == f"kafka://{url}"
    assert KafkaSystem(url.split(",")).url == f"kafka://{url}"


@pytest.mark.parametrize("rest", ["", "/", "one:9092/topic", "one:port", "one,,two", "one:9092?acks=1", "o ne"])
def test_other_urls_are_refused(rest: str) -> None:
    with pytest.raises(UsageError, match=r"names no Kafka cluster\n.*\n  expected: kafka://HOST:PORT"):
        open_system(f"kafka://{rest}")


def test_a_password_in_the_url_is_refused_and_not_repeated() -> None:
    with pytest.raises(UsageError, match=r"has a user or a password in it(?s:.*)sasl\.password") as refused:
        open_system(f"kafka://ann:{SECRET}@one:9092")
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("name", REFUSED)
def test_a_setting_that_would_break_a_promise_is_refused_with_the_reason(name: str) -> None:
    with pytest.raises(UsageError) as refused:
        KafkaSystem("one:9092", conf={name: "false"})
    assert name in str(refused.value)
    assert REFUSED[name] in str(refused.value)


@pytest.mark.parametrize(
    ("conf", "told"),
    [
        ({"lingerms": 5}, 'No such configuration property: "lingerms"'),
        ({"linger.ms": "soon"}, 'Invalid value for configuration property "queue.buffering.max.ms"'),
        ({"linger.ms": None}, "the setting 'linger.ms' is a NoneType"),
        ({"linger.ms": print}, "the setting 'linger.ms' is a builtin_function_or_method"),
        ({"oauth_cb": "token"}, "the setting 'oauth_cb' is a str"),
    ],
)
def test_a_setting_that_the_client_does_not_take_is_refused_by_name(conf: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError) as refused:
        KafkaSystem("one:9092", conf=conf)
    assert told in str(refused.value)


@pytest.mark.parametrize("wrong", [timedelta(0), 10, None])
def test_a_time_is_a_timedelta(wrong: Any) -> None:
    with pytest.raises(UsageError, match=r"(?s)give_up_after=.*expected: a timedelta"):
        KafkaSystem("one:9092", give_up_after=wrong)


def test_a_system_is_pickled_with_its_settings() -> None:
    system = KafkaSystem("one:9092", conf={"linger.ms": 1}, topics={"replication.factor": 3})
    assert pickle.loads(pickle.dumps(system)).settings == system.settings


SECRETS = {
    "sasl.password": SECRET,
    "ssl.key.password": SECRET,
    "sasl.oauthbearer.config": SECRET,
    "sasl.oauthbearer.client.secret": SECRET,
    "ssl.keystore.password": SECRET,
}


def test_secrets_are_not_shown() -> None:
    system = KafkaSystem(NOBODY, conf=SECRETS)
    shown = [repr(system), str(system), system.url, repr(system.settings), str(system.settings)]
    assert [text for text in shown if SECRET in text] == []


@pytest.mark.parametrize("name", ["ssl.key.pem", "ssl.certificate.pem", "sasl.jaas.config", "security.protocol"])
def test_the_error_of_a_refused_setting_shows_no_secret(name: str) -> None:
    with pytest.raises(UsageError, match="are refused") as refused:
        KafkaSystem(NOBODY, conf={"security.protocol": "ssl", "sasl.password": SECRET, name: SECRET})
    assert SECRET not in str(refused.value)


@pytest.mark.slow
def test_a_cluster_out_of_reach_is_named_with_the_last_error() -> None:
    system = KafkaSystem(NOBODY, reach_within=SOON)
    told = r"(?s)kafka://127.0.0.1:1 is out of reach: .* for 0.3 s.*127.0.0.1:1.*refused.*to do: start the brokers"
    for action in (
        lambda: system.admin().streams(),
        lambda: system.admin().partitions("clicks"),
        lambda: system.admin().create("clicks", 1),
        lambda: system.admin().checkpoints("visits"),
        lambda: system.consumer().assign({("clicks", 0): 0}),
        lambda: system.producer().begin().append("clicks", 0, []),
        lambda: system.record_producer(),
        lambda: system.record_producer("visits-0"),
    ):
        with pytest.raises(SystemProblem, match=told):
            action()


def test_a_host_that_nobody_knows_is_out_of_reach() -> None:
    with pytest.raises(SystemProblem, match=r"(?s)out of reach.*nowhere\.invalid"):
        KafkaSystem("nowhere.invalid:9092", reach_within=SOON).admin().streams()


def test_no_pipeline_is_claimed() -> None:
    system = KafkaSystem("one:9092")
    with system.claim("visits"), system.claim("visits"):
        pass


@pytest.mark.slow
def test_the_client_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemProblem):
        KafkaSystem(NOBODY, conf={"linger.ms": 1}, reach_within=SOON).consumer().assign({("clicks", 0): 0})
    assert capfd.readouterr() == ("", "")


def test_a_client_without_a_file_descriptor_is_told_to_have_more() -> None:
    why = "localhost:9092/bootstrap: Failed to create socket: Too many open files"
    problem = out_of_reach(KafkaSystem("localhost:9092")._cluster.settings, 3.0, why)
    assert "to do: raise the limit of open files (ulimit -n)" in str(problem)


def test_partitions_are_heard_of_as_soon_as_clients_are_told_to_look() -> None:
    ages = [KafkaSystem("one:9092", conf=conf).admin().metadata_ms for conf in ({}, {"metadata.max.age.ms": 2_000})]
    assert ages == [300_000, 2_000]
