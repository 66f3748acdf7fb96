"""Translates librdkafka's settings into those of Kafka's Java client, which Spark's connector uses."""

from collections.abc import Callable, Mapping
from pathlib import Path

from ....dsl.errors import UnsupportedError
from ....dsl.validation import explain

ClientSettings = Mapping[str, object]

_SAME = (
    "isolation.level",
    "client.id",
    "client.rack",
    "sasl.kerberos.service.name",
    "fetch.min.bytes",
    "fetch.max.bytes",
    "max.partition.fetch.bytes",
    "metadata.max.age.ms",
    "reconnect.backoff.ms",
    "reconnect.backoff.max.ms",
    "retry.backoff.ms",
    "check.crcs",
    "connections.max.idle.ms",
    "ssl.key.password",
)
_IN_CAPITALS = {
    "security.protocol": "security.protocol",
    "sasl.mechanism": "sasl.mechanism",
    "sasl.mechanisms": "sasl.mechanism",
}
"""Settings whose values the Java client takes only in capitals."""

_RENAMED = {
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "socket.connection.setup.timeout.ms": "socket.connection.setup.timeout.ms",
    "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.certificate.pem": "ssl.keystore.certificate.chain",
    "ssl.key.pem": "ssl.keystore.key",
    "ssl.keystore.location": "ssl.keystore.location",
    "ssl.keystore.password": "ssl.keystore.password",
}
_FILES = {
    "ssl.ca.location": "ssl.truststore.certificates",
    "ssl.certificate.location": "ssl.keystore.certificate.chain",
    "ssl.key.location": "ssl.keystore.key",
}
"""Settings that name a file in librdkafka. The Java client gets the file's text, so workers need no such file."""

_STORES = {
    "ssl.truststore.certificates": ("ssl.truststore.type", "PEM"),
    "ssl.keystore.certificate.chain": ("ssl.keystore.type", "PEM"),
    "ssl.keystore.location": ("ssl.keystore.type", "PKCS12"),
}
_LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_LOGIN = ("sasl.username", "sasl.password")
_VERIFYING = "ssl.endpoint.identification.algorithm"
_OF_ACCESS = ("security.", "sasl.", "ssl.", "oauth", "enable.sasl", "enable.ssl", "plugin.")
"""Prefixes of settings that control access. All other settings only tune librdkafka."""


def java_settings(settings: ClientSettings) -> dict[str, str]:
    """The settings of Kafka's Java client that stand for these of librdkafka. Settings that only tune librdkafka are
    left out.

    Raises UnsupportedError for a setting that controls access and that the Java client does not have.

    >>> java_settings({"security.protocol": "SASL_SSL", "fetch.wait.max.ms": 50, "queued.min.messages": 1000})
    {'security.protocol': 'SASL_SSL', 'fetch.max.wait.ms': '50'}
    """
    translated: dict[str, str] = {}
    for name, value in settings.items():
        if name in _LOGIN:
            continue
        setting = _translate(name, value)
        if setting is not None:
            translated[setting[0]] = setting[1]
    translated.update(kind for name, kind in _STORES.items() if name in translated)
    translated.update(_login(settings))
    return translated


def _translate(name: str, value: object) -> tuple[str, str] | None:
    for names, text in _BY_TABLE:
        if name in names:
            return names[name], text(name, value)
    if name.startswith(_OF_ACCESS):
        raise _unknown(name)
    return None


def _plain(_: str, value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _capitals(_: str, value: object) -> str:
    return str(value).upper()


def _contents(name: str, value: object) -> str:
    try:
        return Path(str(value)).read_text()
    except (OSError, UnicodeDecodeError) as error:
        wrong = f"{name} cannot be read, which Spark's connector to Kafka needs: {error}"
        raise UnsupportedError(explain(wrong, "a file in PEM format", f"correct {name}")) from error


def _verifying(_: str, value: object) -> str:
    return "" if value == "none" else str(value)


_BY_TABLE: tuple[tuple[Mapping[str, str], Callable[[str, object], str]], ...] = (
    ({name: name for name in _SAME}, _plain),
    (_IN_CAPITALS, _capitals),
    (_RENAMED, _plain),
    (_FILES, _contents),
    ({_VERIFYING: _VERIFYING}, _verifying),
)


def _login(settings: ClientSettings) -> dict[str, str]:
    if not any(name in settings for name in _LOGIN):
        return {}
    mechanism = str(settings.get("sasl.mechanism", settings.get("sasl.mechanisms", ""))).upper()
    if mechanism not in _LOGIN_MODULES:
        raise _unknown(f"sasl.mechanism={mechanism}")
    user, password = (_quoted(str(settings.get(name, ""))) for name in _LOGIN)
    return {"sasl.jaas.config": f"{_LOGIN_MODULES[mechanism]} required username={user} password={password};"}


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _unknown(setting: str) -> UnsupportedError:
    wrong = f"the Kafka setting {setting} has no counterpart in the Java client that Spark reads with"
    expected = "TLS with files in PEM format, and SASL by PLAIN or SCRAM with a user and a password"
    return UnsupportedError(explain(wrong, expected, "use the local engine, or another way to connect"))
