"""Requests about the topics of a cluster: their partitions and settings."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from ....dsl.errors import SystemProblem
from ...process.machine import THIS_MACHINE, Machine
from ..contract import StreamPartition
from ..errors import unknown_partition, unknown_stream
from .clients import LOG, admin_api
from .errors import GONE, RETRIED
from .offsets import TopicOffsets
from .requests import NEVER, RequestClient, answer
from .settings import KafkaSettings
from .topics import most_ahead

_CLOCKS_DIFFER = 60_000
"""Milliseconds by which the clock of a broker may be behind the clock of this machine."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic: its unique id, the number of its partitions, and whether all of them have a leader (`led`)."""

    id: str
    partitions: int
    led: bool


class Cluster:
    """Requests about topics. The first request connects. Threads may share it. Consumers and producers of the cluster
    take the time from its `machine`."""

    def __init__(self, settings: KafkaSettings, machine: Machine = THIS_MACHINE) -> None:
        self.settings = settings
        self.machine = machine
        self._requests = RequestClient(settings, machine)
        self.request = self._requests.request

    @property
    def offsets(self) -> TopicOffsets:
        """Requests about offsets. Not kept: it refers to this object, whose clients are to go with it."""
        return TopicOffsets(self._requests, self.settings, self.check)

    def streams(self) -> dict[str, int]:
        """The partition count of each topic, without Kafka's own topics, whose names begin with `__`."""
        metadata = self.request("list its topics", lambda client, seconds: client.list_topics(timeout=seconds))
        return {name: len(topic.partitions) for name, topic in metadata.topics.items() if not name.startswith("__")}

    def describe(self, stream: str) -> Topic | None:
        """A topic; None where it does not exist."""
        return self.describe_all([stream]).get(stream)

    def describe_all(self, streams: Collection[str]) -> dict[str, Topic]:
        """Those of these topics that exist."""
        if not streams:
            return {}
        what = f"tell of the topic {', '.join(map(repr, streams))}"
        return self.request(what, lambda client, seconds: described(client, streams, seconds))

    def topic(self, stream: str) -> Topic:
        """A topic. Raises SystemProblem where it does not exist."""
        topic = self.describe(stream)
        if topic is None:
            raise unknown_stream(stream, self.streams(), self.settings.url)
        return topic

    def count(self, stream: str) -> int:
        """The partition count of a topic. Raises SystemProblem where the topic does not exist."""
        return self.topic(stream).partitions

    def partitions_of(self, stream: str) -> list[StreamPartition]:
        """The partitions of a topic. Raises SystemProblem where the topic does not exist."""
        return [(stream, partition) for partition in range(self.count(stream))]

    def settings_of(self, stream: str) -> dict[str, str | None]:
        """The settings of a topic, by Kafka's names."""

        def send(client: AdminClient, seconds: float) -> dict[str, str | None]:
            resource = admin_api.ConfigResource(admin_api.ResourceType.TOPIC, stream)
            (asked,) = client.describe_configs([resource], request_timeout=NEVER).values()
            return {name: entry.value for name, entry in answer(client, asked, seconds).items()}

        return self.request(f"tell the settings of the topic {stream!r}", send)

    def known_settings(self, streams: Collection[str]) -> dict[str, dict[str, str | None]]:
        """The settings of these topics, by one request. A topic whose settings the cluster would not tell is left out:
        the user may lack the permission."""
        if not streams:
            return {}
        return self.request(
            "tell the settings of topics", lambda client, seconds: topic_settings(client, streams, seconds)
        )

    def check(self, partitions: Iterable[StreamPartition]) -> None:
        """Raise SystemProblem for a topic or partition that does not exist."""
        counts: dict[str, int] = {}
        for stream, partition in partitions:
            count = counts[stream] = counts[stream] if stream in counts else self.count(stream)
            if not 0 <= partition < count:
                raise unknown_partition(stream, partition, count, self.settings.url)

    def reach(self) -> None:
        """Return once a broker has answered. Raises SystemProblem where none does in time."""
        if not self._requests.answered:
            self.id()

    def id(self) -> str:
        """The id that the cluster gave itself, by a request. Raises SystemProblem where no broker answers in time."""

        def send(client: AdminClient, seconds: float) -> str:
            return str(answer(client, client.describe_cluster(request_timeout=NEVER), seconds).cluster_id)

        return self.request("tell its id", send)


class KnownTopics:
    """A cache of the partition count of topics, and of how far ahead their timestamps may be. It asks for these of each
    topic once: in `learn`, or else when they are needed."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._counts: dict[str, int] = {}
        self._ahead: dict[str, int | None] = {}

    def learn(self, streams: Collection[str]) -> None:
        """Ask for these topics now. One that does not exist stays unknown."""
        self._counts |= {name: topic.partitions for name, topic in self._cluster.describe_all(streams).items()}
        known = self._cluster.known_settings(streams)
        self._ahead |= {stream: most_ahead(known[stream]) if stream in known else None for stream in streams}

    def latest(self, stream: str) -> int | None:
        """The latest timestamp that a topic accepts now, in ms since epoch; None where it accepts any."""
        if stream not in self._ahead:
            self._ahead[stream] = self._most_ahead(stream)
        ahead = self._ahead[stream]
        return None if ahead is None else self._cluster.machine.wall() + ahead - min(ahead // 2, _CLOCKS_DIFFER)

    def _most_ahead(self, stream: str) -> int | None:
        try:
            return most_ahead(self._cluster.settings_of(stream))
        except SystemProblem as problem:  # the user may lack the permission
            LOG.info("which times the topic %s takes is not known: %s", stream, problem)
            return None

    def check(self, stream: str, partition: int) -> None:
        """Raise SystemProblem for a topic or partition that does not exist."""
        count = self._counts.get(stream)
        if count is None:
            count = self._counts[stream] = self._cluster.count(stream)
        if not 0 <= partition < count:
            raise unknown_partition(stream, partition, count, self._cluster.settings.url)


def described(client: AdminClient, streams: Collection[str], seconds: float) -> dict[str, Topic]:
    """Those of these topics that exist."""
    futures = client.describe_topics(TopicCollection([*streams]), request_timeout=NEVER)
    topics: dict[str, Topic] = {}
    for stream, future in futures.items():
        try:
            topic = answer(client, future, seconds)
        except KafkaException as caught:
            if caught.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise
        else:
            led = all(partition.leader is not None for partition in topic.partitions)
            topics[stream] = Topic(str(topic.topic_id), len(topic.partitions), led)
    return topics


def topic_settings(client: AdminClient, streams: Collection[str], seconds: float) -> dict[str, dict[str, str | None]]:
    """The settings of those of these topics that exist, and whose settings the user may read."""
    resources = [admin_api.ConfigResource(admin_api.ResourceType.TOPIC, stream) for stream in streams]
    settings: dict[str, dict[str, str | None]] = {}
    for resource, asked in client.describe_configs(resources, request_timeout=NEVER).items():
        try:
            settings[resource.name] = {name: entry.value for name, entry in answer(client, asked, seconds).items()}
        except KafkaException as caught:
            if caught.args[0].code() in RETRIED - GONE:
                raise
            LOG.info("the settings of the topic %s are not known: %s", resource.name, caught.args[0].str())
    return settings
