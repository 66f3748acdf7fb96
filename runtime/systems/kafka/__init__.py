"""Kafka as a system: topics of a cluster, on confluent-kafka."""

from .admin import KafkaAdmin
from .consumer import KafkaConsumer
from .producer import KafkaProducer
from .sender import KafkaSender
from .system import KafkaSystem

__all__ = ["KafkaAdmin", "KafkaConsumer", "KafkaProducer", "KafkaSender", "KafkaSystem"]
