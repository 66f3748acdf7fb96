"""Kafka as a system: topics of a cluster, on confluent-kafka."""

from .admin import KafkaAdmin
from .cluster import Cluster
from .consumer import KafkaConsumer
from .producer import KafkaProducer
from .sender import KafkaSender
from .system import KafkaSystem

__all__ = ["Cluster", "KafkaAdmin", "KafkaConsumer", "KafkaProducer", "KafkaSender", "KafkaSystem"]
