"""How a cluster is reached, as text for Spark's workers."""

from dataclasses import fields

import msgspec

from ...systems.kafka.settings import KafkaSettings


def packed(settings: KafkaSettings) -> str:
    """The settings as text, secrets included."""
    told = {field.name: getattr(settings, field.name) for field in fields(settings)}
    return msgspec.json.encode(told).decode()


def unpacked(text: str) -> KafkaSettings:
    """The settings that were packed."""
    return KafkaSettings(**msgspec.json.decode(text))
