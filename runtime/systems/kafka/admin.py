"""Creates, describes and removes topics."""

from collections.abc import Collection

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from ....planner import stream_names as names
from ...size_limit import SizeLimit
from ..contract import StreamDescription, StreamUse, StreamWarning
from ..errors import check_stream, other_count
from .clients import read_committed_client
from .cluster import Cluster, Topic, described
from .consumer import KafkaConsumer
from .record_limits import limit_of
from .requests import NEVER, answer
from .stream_offsets import KafkaOffsets
from .topics import check_settings, settings_for, warnings_of

METADATA_MS = 300_000
"""`metadata.max.age.ms` of Kafka's Java clients, where nothing else is set."""
_BROKERS_CHOICE = "-1"
_TO_REMOVE = 5.0
"""Seconds that brokers wait for a topic to be gone before they answer; then they go on."""
_ALL_FENCED = "brokers are currently fenced"
"""In the answer of a controller that has heard of no broker for a while, as after a restart or a pause of all. It has
the error code of a replication factor that the cluster can never have."""
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
"""The id of every topic of a broker without topic ids: 16 zero bytes in base64."""


class KafkaAdmin:
    """The admin of a cluster. Its first request connects. `offsets` has those that a run needs beside `starts` and
    `ends`."""

    def __init__(self, cluster: Cluster) -> None:
        self._settings = cluster.settings
        self._cluster = cluster
        self.offsets = KafkaOffsets(cluster)

    def streams(self) -> dict[str, int]:
        """Every topic's partition count; without those whose names begin with `__`, which are Kafka's own."""
        return self._cluster.streams()

    def partitions(self, stream: str) -> int | None:
        """The partition count of a topic, None where there is no such topic."""
        topic = self._cluster.describe(stream)
        return None if topic is None else topic.partitions

    def create(self, stream: str, partitions: int, use: StreamUse = "messages") -> None:
        """Make a topic with the settings of its use. Nothing happens if it exists with this count.

        Raises SystemProblem for another count, for settings by which it would lose what is needed, and where the
        cluster refuses; UsageError for a name with other characters than `A-Z a-z 0-9 . _ -`, and a count below 1.
        """
        check_stream(stream, partitions)
        topic = self._cluster.describe(stream)
        if topic is None:
            self._create(stream, partitions, use)
            topic = self._cluster.request(
                f"tell of the new topic {stream!r}", lambda client, seconds: _led(client, stream, seconds)
            )
        if topic.partitions != partitions:
            raise other_count(stream, topic.partitions, partitions, self._settings.url)
        self.check(stream, use)

    def check(self, stream: str, use: StreamUse) -> None:
        """Raise SystemProblem for a topic with settings by which it would lose what its use needs."""
        if use != "messages":
            check_settings(stream, use, self._cluster.settings_of(stream), self._settings.url)

    def warnings(self, stream: str) -> list[StreamWarning]:
        """Warnings about settings of a topic that change messages of an output in ways that readers may not expect."""
        return warnings_of(stream, self._cluster.settings_of(stream))

    def starts(self, stream: str) -> list[int]:
        """The first offset that can be read, by partition."""
        return list(self._cluster.offsets.starts(self._cluster.partitions_of(stream)).values())

    def ends(self, stream: str) -> list[int]:
        """The offset after the last record that readers see, by partition. Records of open transactions are hidden."""
        return list(self._cluster.offsets.ends(self._cluster.partitions_of(stream)).values())

    def checkpoints(self, group: str) -> dict[str, bytes]:
        """The last checkpoint of each task of a group, by task name, from the topic of its checkpoints."""
        stream = names.checkpoints(group)
        if self.partitions(stream) is None:
            return {}
        (start,), (end,) = self.starts(stream), self.ends(stream)
        checkpoints: dict[str, bytes] = {}
        consumer = KafkaConsumer(self._cluster, max_records=10_000, make=read_committed_client)
        try:
            consumer.assign({(stream, 0): start})
            while start < end:
                for batch in consumer.poll(1.0):
                    start = batch.next_offset
                    for key, value, _, _ in batch.before(end).records:
                        # A key of another program may be no UTF-8; its checkpoint is refused where it is decoded.
                        task = (key or b"").decode(errors="replace")
                        checkpoints.pop(task, None)
                        if value is not None:
                            checkpoints[task] = value
        finally:
            consumer.close()
        return checkpoints

    def record_limits(self, streams: Collection[str]) -> dict[str, SizeLimit]:
        """The limits of the records of these topics, as the topics and the client are set now."""
        known, conf = self._cluster.known_settings(streams), self._settings.conf
        return {stream: limit_of(stream, settings, conf) for stream, settings in known.items()}

    def describe(self, streams: Collection[str]) -> dict[str, StreamDescription]:
        """Describe these topics; those that do not exist are left out. Old brokers report no ids."""
        topics = self._cluster.describe_all(streams)
        return {
            name: StreamDescription("" if topic.id == _NO_ID else topic.id, topic.partitions)
            for name, topic in topics.items()
        }

    @property
    def metadata_ms(self) -> int:
        """`metadata.max.age.ms` of the settings of the client. Without it that of Kafka's Java clients, whose producers
        others may use."""
        return int(str(self._settings.conf.get("metadata.max.age.ms", METADATA_MS)))

    def identity(self, stream: str) -> str:
        """The ids of the cluster and of the topic: no other topic ever has them."""
        topic = self._cluster.topic(stream).id
        return f"{self._cluster.id()}/{topic}"

    def remove(self, stream: str) -> None:
        """Remove a topic and all that it holds; nothing happens where there is none."""

        def send(client: AdminClient, seconds: float) -> None:
            asked = client.delete_topics([stream], operation_timeout=_TO_REMOVE, request_timeout=NEVER)[stream]
            try:
                answer(client, asked, seconds)
            except KafkaException as caught:
                if caught.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise

        def gone(client: AdminClient, seconds: float) -> None:
            if described(client, [stream], seconds):
                raise KafkaException(KafkaError(KafkaError.REQUEST_TIMED_OUT))

        self._cluster.request(f"remove the topic {stream!r}", send)
        self._cluster.request(f"forget the topic {stream!r}", gone)

    def _create(self, stream: str, partitions: int, use: StreamUse) -> None:
        config = settings_for(use, self._settings.topics)
        factor = int(config.pop("replication.factor", _BROKERS_CHOICE))
        topic = NewTopic(stream, partitions, replication_factor=factor, config=config)

        def send(client: AdminClient, seconds: float) -> None:
            try:
                answer(client, client.create_topics([topic], request_timeout=NEVER)[stream], seconds)
            except KafkaException as caught:
                error = caught.args[0]
                if error.code() == KafkaError.INVALID_REPLICATION_FACTOR and _ALL_FENCED in error.str():
                    raise KafkaException(KafkaError(KafkaError.BROKER_NOT_AVAILABLE, error.str())) from None
                if error.code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise

        self._cluster.request(f"make the topic {stream!r}", send)


def _led(client: AdminClient, stream: str, seconds: float) -> Topic:
    """A new topic, once the brokers know it and all its partitions have leaders."""
    topic = described(client, [stream], seconds).get(stream)
    if topic is None or not topic.led:
        raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
    return topic
