"""The settings that Spark's connector gets in place of librdkafka's."""

from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the engine needs pyspark")

from explained import assert_explains
from fluvial.dsl import UnsupportedError
from fluvial.runtime.spark.connectors.java_client import java_settings


def test_a_user_with_a_password_logs_in_by_jaas() -> None:
    given = {
        "security.protocol": "sasl_ssl",
        "sasl.mechanisms": "scram-sha-512",
        "sasl.username": "ann",
        "sasl.password": 'a "b" \\ c',
    }
    assert java_settings(given) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="ann" password="a \\"b\\" \\\\ c";',
    }


def test_certificates_are_read_here_for_all_workers(tmp_path: Path) -> None:
    for name in ("ca", "certificate", "key"):
        (tmp_path / name).write_text(name)
    given = {f"ssl.{name}.location": str(tmp_path / name) for name in ("ca", "certificate", "key")}
    assert java_settings({**given, "ssl.key.password": "open", "ssl.endpoint.identification.algorithm": "none"}) == {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": "ca",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": "certificate",
        "ssl.keystore.key": "key",
        "ssl.key.password": "open",
        "ssl.endpoint.identification.algorithm": "",
    }


def test_a_certificate_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"ssl\.ca\.location cannot be read"):
        java_settings({"ssl.ca.location": str(tmp_path / "none")})


def test_settings_that_only_tune_are_left_to_the_writing_side() -> None:
    assert java_settings({"linger.ms": 50, "queued.min.messages": 7, "fetch.wait.max.ms": 10, "check.crcs": True}) == {
        "fetch.max.wait.ms": "10",
        "check.crcs": "true",
    }


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"oauth_cb": print}, "oauth_cb"),
        ({"enable.ssl.certificate.verification": False}, "enable.ssl.certificate.verification"),
        ({"sasl.username": "ann", "sasl.password": "hush", "sasl.mechanism": "GSSAPI"}, "sasl.mechanism=GSSAPI"),
        ({"sasl.oauthbearer.client.secret": "hush"}, "sasl.oauthbearer.client.secret"),
    ],
)
def test_what_decides_who_may_connect_is_never_left_out(given: dict[str, object], named: str) -> None:
    with pytest.raises(UnsupportedError) as raised:
        java_settings(given)
    wrong = f"the Kafka setting {named} has no counterpart in the Java client"
    assert_explains(raised.value, wrong, None, "PLAIN or SCRAM", "use the local engine")
    assert "hush" not in str(raised.value)
