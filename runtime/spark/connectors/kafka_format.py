"""Values of Kafka's as text: offsets as Spark's connector reads and writes them, and a cluster's settings for workers.

The text is JSON. The connector has offsets by topic and partition.
"""

from collections.abc import Sequence
from dataclasses import fields

import msgspec

from ...systems.kafka.settings import KafkaSettings
from ..query.connection import Offsets

_decode = msgspec.json.Decoder().decode
_NO_OFFSET = "-"
"""Spark writes this line for a source that has given no offset."""


def parse_offsets(lines: Sequence[str]) -> Offsets:
    """The offsets in the lines of Spark's offset log, one line a source. Lines of sources other than Kafka's connector
    are left out.

    >>> parse_offsets(['{"clicks": {"1": 7, "0": 5}}', '{"users": {"0": 3}}', '{"ends": 1}'])
    {'clicks': [5, 7], 'users': [3]}
    """
    offsets: Offsets = {}
    for line in lines:
        # Of another source it may be any JSON. One of the user's comes later, and may read the same topic.
        source = {} if line == _NO_OFFSET else _decode(line)
        for topic, partitions in source.items() if isinstance(source, dict) else ():
            if isinstance(partitions, dict) and all(map(str.isdecimal, partitions)):
                offsets.setdefault(topic, [partitions[number] for number in sorted(partitions, key=int)])
    return offsets


def offsets_text(offsets: Offsets) -> str:
    """Offsets as the connector takes them in its options.

    >>> offsets_text({"clicks": [5, 7]})
    '{"clicks":{"0":5,"1":7}}'
    """
    return msgspec.json.encode({topic: dict(enumerate(ends)) for topic, ends in offsets.items()}).decode()


def settings_text(settings: KafkaSettings) -> str:
    """The settings of a cluster, secrets included."""
    return msgspec.json.encode({field.name: getattr(settings, field.name) for field in fields(settings)}).decode()


def parse_settings(text: str) -> KafkaSettings:
    """The settings of a text that `settings_text` has made."""
    return KafkaSettings(**msgspec.json.decode(text))
