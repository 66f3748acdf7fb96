"""The settings of a cluster: its addresses, and the settings of clients and topics, checked where users give them."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ....dsl.errors import UsageError
from ....dsl.validation import explain

Setting = str | int | float | bool | Callable[..., Any]
"""A value of a setting; a function only for `oauth_cb`."""

_SERVER = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?")
_SECRET = re.compile(r"password|passphrase|secret|key\.pem|private|oauthbearer\.config|jaas|token")
_URL = "kafka://HOST:PORT, more hosts after commas"

REFUSED: Mapping[str, str] = {
    "bootstrap.servers": "the URL names the brokers",
    "metadata.broker.list": "the URL names the brokers",
    "enable.auto.commit": "a pipeline's own checkpoints say what is processed",
    "enable.auto.offset.store": "a pipeline's own checkpoints say what is processed",
    "auto.offset.reset": "an offset that is gone is an error; Settings(offset_default=...) says where a new run begins",
    "enable.partition.eof": "the end of a partition is always looked for",
    "enable.idempotence": "without it a retry may repeat messages and change their order",
    "acks": "idempotent writes need all",
    "request.required.acks": "idempotent writes need all",
    "transactional.id": "a run chooses it, so that a newer one can take its place",
    "partitioner": "keys lie where murmur2 puts them, as with Kafka's Java clients",
    "delivery.report.only.error": "only errors are looked at",
    "delivery.timeout.ms": "give_up_after says it",
    "message.timeout.ms": "give_up_after says it",
}
"""Settings of the client that users may not choose, with the reason."""


@dataclass(frozen=True, slots=True)
class KafkaSettings:
    """The settings of a cluster. Texts and `repr` show no secret. Times are in seconds."""

    servers: str
    conf: Mapping[str, Setting]
    topics: Mapping[str, str]
    reach_within: float
    give_up_after: float

    @property
    def url(self) -> str:
        """`kafka://HOST:PORT`, more hosts after commas."""
        return f"kafka://{self.servers}"

    @property
    def isolation(self) -> str:
        """`read_committed`, unless the user wants records of open transactions, too."""
        return str(self.conf.get("isolation.level", "read_committed"))

    def __repr__(self) -> str:
        return f"KafkaSettings({self.url!r}, settings of the client: {', '.join(self.conf) or 'none'})"

    def hide(self, text: str) -> str:
        """The text without any secret that is among the settings."""
        for name, value in self.conf.items():
            if _SECRET.search(name) and str(value):
                text = text.replace(str(value), "***")
        return text


def servers_of(url: str) -> str:
    """The brokers that a URL names, as the client wants them.

    >>> servers_of("kafka://one:9092,two:9092")
    'one:9092,two:9092'
    """
    _, _, rest = url.partition("://")
    if "@" in rest:  # the text is not shown: it may hold a password
        remedy = "give sasl.username and sasl.password among the settings of the client"
        raise UsageError(explain("the URL of a Kafka cluster has a user or a password in it", _URL, remedy))
    if not url.startswith("kafka://") or not all(map(_SERVER.fullmatch, rest.split(","))):
        raise UsageError(explain(f"{url!r} names no Kafka cluster", _URL, "write for example kafka://localhost:9092"))
    return rest


def check_conf(conf: Mapping[str, Setting]) -> None:
    """Raise UsageError for a setting that is not for users, or has a value of a wrong type."""
    for name, value in conf.items():
        if reason := REFUSED.get(name):
            raise UsageError(explain(f"the setting {name!r} is not yours to choose", reason, "leave it out"))
        if callable(value) is not (name == "oauth_cb") or not isinstance(value, str | int | float | bool | Callable):
            expected = "a function" if name == "oauth_cb" else "a str, a number or a bool"
            raise UsageError(explain(f"the setting {name!r} is a {type(value).__name__}", expected))
