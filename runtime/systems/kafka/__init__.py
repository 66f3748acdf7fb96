"""Kafka as a system: topics of a cluster, on confluent-kafka."""

from .admin import KafkaAdmin
from .cluster import Cluster
from .consumer import KafkaConsumer
from .record_producer import KafkaRecordProducer
from .system import KafkaSystem
from .transactional_producer import KafkaTransactionalProducer

__all__ = ["Cluster", "KafkaAdmin", "KafkaConsumer", "KafkaRecordProducer", "KafkaSystem", "KafkaTransactionalProducer"]
