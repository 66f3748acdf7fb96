"""A Kafka cluster as a system: makes the admin, consumers and producers of a cluster."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from functools import partial
from typing import Any

from ....dsl.errors import UsageError
from ....dsl.validation import explain, require
from ....dsl.verb_calls import explained_call
from .admin import KafkaAdmin
from .clients import ConnectionMonitor, admin_client, consumer_client, read_committed_client
from .cluster import Cluster
from .consumer import KafkaConsumer
from .record_producer import KafkaRecordProducer
from .settings import KafkaSettings, Setting, check_conf, servers_of
from .transactional_producer import KafkaTransactionalProducer


@partial(explained_call, error=UsageError)
class KafkaSystem:
    """Topics of a Kafka cluster, 3.6 or later. Connects with the first request; can be shared by threads, and pickled.

    `servers` are the brokers to ask first, `HOST:PORT`, more after commas. `conf` holds settings of the client by
    their names in librdkafka: TLS, SASL, sizes, timeouts. No secret among them is ever shown. `topics` holds settings
    of topics that are made here, by Kafka's names, and `replication.factor`, which is else the brokers' choice.

    Where no broker answers within `reach_within` at the start, or for `give_up_after` later, `SystemProblem` is
    raised; until then what fails is tried again. Raises `UsageError` for settings that the client refuses, and for
    those that would break what Fluvial promises.

    >>> KafkaSystem("one:9092,two:9092", topics={"replication.factor": 3})
    KafkaSystem('kafka://one:9092,two:9092')
    """

    def __init__(
        self,
        servers: str | Sequence[str],
        *,
        conf: Mapping[str, Setting] | None = None,
        topics: Mapping[str, str | int] | None = None,
        reach_within: timedelta = timedelta(seconds=10),
        give_up_after: timedelta = timedelta(seconds=60),
    ) -> None:
        several = isinstance(servers, Sequence) and all(isinstance(server, str) for server in servers)
        wrong, remedy = f"KafkaSystem: servers={servers!r}", 'write KafkaSystem("localhost:9092")'
        require(several, UsageError, wrong, "HOST:PORT, or several in a list", remedy)
        for name, given in (("conf", conf), ("topics", topics)):
            good = given is None or isinstance(given, Mapping)
            require(good, UsageError, f"KafkaSystem: {name}={given!r}", "settings by name", f"write {name}={{...}}")
        servers = servers if isinstance(servers, str) else ",".join(servers)
        for name, time in (("reach_within", reach_within), ("give_up_after", give_up_after)):
            if not isinstance(time, timedelta) or time < timedelta(milliseconds=100):
                raise UsageError(
                    explain(f"{name}={time!r}", "a timedelta of at least 100 ms", f"write {name}=timedelta(seconds=10)")
                )
        conf = dict(conf or {})
        check_conf(conf)
        self.settings = KafkaSettings(
            servers_of(f"kafka://{servers}"),
            conf,
            {name: str(value) for name, value in (topics or {}).items()},
            reach_within.total_seconds(),
            give_up_after.total_seconds(),
        )
        # One for all clients of this system: each of its own would connect and fetch metadata again.
        self._cluster = Cluster(self.settings)
        if conf:
            admin_client(self.settings, ConnectionMonitor())  # raises UsageError for a setting that the client refuses

    @classmethod
    def named(
        cls, url: str, *, conf: Mapping[str, Setting] | None = None, topics: Mapping[str, str | int] | None = None
    ) -> "KafkaSystem":
        """The system of a URL, `kafka://HOST:PORT`, more hosts after commas."""
        return cls(servers_of(url), conf=conf, topics=topics)

    def __reduce__(self) -> tuple[Any, ...]:
        return _of, (self.settings,)

    def __repr__(self) -> str:
        return f"KafkaSystem({self.url!r})"

    @property
    def url(self) -> str:
        """`kafka://HOST:PORT`, more hosts after commas."""
        return self.settings.url

    def admin(self) -> KafkaAdmin:
        """Creates topics, and returns their partition counts and offsets."""
        return KafkaAdmin(self._cluster)

    def consumer(self, *, max_records: int = 10_000, committed: bool = False) -> KafkaConsumer:
        """Reads topics. A batch has at most `max_records` messages, and at most 1,000. With `committed` it reads
        committed records only, even where `isolation.level` is `read_uncommitted`."""
        make = read_committed_client if committed else consumer_client
        return KafkaConsumer(self._cluster, max_records=max_records, make=make)

    def producer(self) -> KafkaTransactionalProducer:
        """Writes in transactions, for tools. Staged records are held in memory."""
        return KafkaTransactionalProducer(self._cluster)

    def record_producer(
        self,
        transactional_id: str | None = None,
        *,
        longest: timedelta = timedelta(0),
        once: bool = True,
        streams: Collection[str] = (),
    ) -> KafkaRecordProducer:
        """Writes records as they come, for runs. `longest` bounds the time of a transaction. Without `once` the
        producer is ready half a second sooner, but after an error records may arrive twice, or in another order.
        `streams` are those that it will write to: topics with a low limit need smaller batches."""
        return KafkaRecordProducer(self._cluster, transactional_id, longest=longest, once=once, streams=streams)

    def claim(self, pipeline: str, container: str = "0") -> AbstractContextManager[None]:
        """Hold nothing: a cluster has no locks. The coordinator stream of the pipeline says which container runs which
        task, and of two containers with one transactional id the newer one fences the other."""
        del pipeline, container
        return nullcontext()


def _of(settings: KafkaSettings) -> KafkaSystem:
    system = KafkaSystem.__new__(KafkaSystem)
    system.settings, system._cluster = settings, Cluster(settings)
    return system
