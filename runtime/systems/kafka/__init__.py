"""Kafka as a system: topics of a cluster, on confluent-kafka."""

from .admin import KafkaAdmin
from .cluster import Cluster
from .consumer import KafkaConsumer
from .record_producer import KafkaSender
from .staged_writer import KafkaProducer
from .system import KafkaSystem

__all__ = ["Cluster", "KafkaAdmin", "KafkaConsumer", "KafkaProducer", "KafkaSender", "KafkaSystem"]
