"""Offsets as Spark's connector to Kafka writes them: by topic and partition, as JSON."""

import msgspec

from .connection import Offsets

_decode = msgspec.json.Decoder(dict[str, dict[int, int]]).decode


def offsets_of(text: str) -> Offsets:
    """What the connector has written.

    >>> offsets_of('{"clicks": {"1": 7, "0": 5}}')
    {'clicks': [5, 7]}
    """
    return {topic: [found[number] for number in sorted(found)] for topic, found in _decode(text).items()}


def text_of(offsets: Offsets) -> str:
    """What the connector reads.

    >>> text_of({"clicks": [5, 7]})
    '{"clicks":{"0":5,"1":7}}'
    """
    return msgspec.json.encode({topic: dict(enumerate(found)) for topic, found in offsets.items()}).decode()
