"""The system `kafka`: streams are topics of a cluster, and the client is confluent-kafka.

Comes in: `KafkaSettings`, and records to write. Goes out: batches of records, offsets, and errors that say what to do.
Read `system` first, then `consumer`, `record_producer`, and `requests` for all administration."""

from .admin import KafkaAdmin
from .batch_markers import BatchMarker, BatchMarkers
from .cluster import Cluster
from .consumer import KafkaConsumer
from .record_producer import KafkaRecordProducer
from .system import KafkaSystem
from .transactional_producer import KafkaTransactionalProducer

__all__ = [
    "BatchMarker",
    "BatchMarkers",
    "Cluster",
    "KafkaAdmin",
    "KafkaConsumer",
    "KafkaRecordProducer",
    "KafkaSystem",
    "KafkaTransactionalProducer",
]
