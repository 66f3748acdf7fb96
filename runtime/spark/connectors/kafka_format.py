"""Offsets as Spark's connector to Kafka writes them: by topic and partition, as JSON."""

from collections.abc import Sequence

import msgspec

from ..query.connection import Offsets

_decode = msgspec.json.Decoder(dict[str, dict[int, int] | int]).decode
_NOTHING_YET = "-"
"""What Spark notes of a source that has told no offset."""


def offsets_of(told: Sequence[str]) -> Offsets:
    """What the connectors of a query have written, a line each; what sources of other kinds have is left out.

    >>> offsets_of(['{"clicks": {"1": 7, "0": 5}}', '{"users": {"0": 3}}', '{"ends": 1}'])
    {'clicks': [5, 7], 'users': [3]}
    """
    lines = [_decode(line) for line in told if line != _NOTHING_YET]
    return {
        topic: [found[number] for number in sorted(found)]
        for line in lines
        for topic, found in line.items()
        if isinstance(found, dict)
    }


def text_of(offsets: Offsets) -> str:
    """What the connector reads.

    >>> text_of({"clicks": [5, 7]})
    '{"clicks":{"0":5,"1":7}}'
    """
    return msgspec.json.encode({topic: dict(enumerate(found)) for topic, found in offsets.items()}).decode()
