"""The errors of a cluster: which of them are retried, and texts that say what to do."""

from collections.abc import Mapping

from confluent_kafka import KafkaError

from ....dsl.errors import SystemProblem
from ....dsl.validation import explain
from ...process.resource_limits import remedy_in
from ..contract import StreamPartition
from ..errors import Fenced
from .settings import KafkaSettings

TRANSIENT = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._DESTROY_BROKER,  # the broker is no longer part of the cluster
        KafkaError._TIMED_OUT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
        KafkaError._AUTHENTICATION,
        KafkaError._SSL,
        KafkaError._NOENT,  # "no leaders found"
        KafkaError._WAIT_CACHE,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.NOT_CONTROLLER,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.CONCURRENT_TRANSACTIONS,
        KafkaError.THROTTLING_QUOTA_EXCEEDED,
    }
)
"""Errors that end by themselves, when a broker returns or a partition has a new leader."""

UNREACHED = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
        KafkaError._AUTHENTICATION,
        KafkaError._SSL,
    }
)
"""The transient errors that come from the client, because no broker was reached."""

GONE = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION})
"""Errors for a topic that was removed. A broker that has just restarted reports them for existing topics, too."""

RETRIED = TRANSIENT | GONE
"""Errors after which a request is repeated. Only `Cluster.describe` decides that a topic was removed."""

OUTDATED = GONE | {KafkaError._TIMED_OUT}
"""Errors that outdated metadata may cause: the client is to fetch the metadata again."""

PURGED = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})
"""Errors of records that the client drops because of another error."""

FENCED = frozenset(
    {
        KafkaError._FENCED,
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.INVALID_TXN_STATE,  # a record came once the next producer had ended the transaction
    }
)


def out_of_reach(settings: KafkaSettings, seconds: float, why: str) -> SystemProblem:
    """No broker has answered for `seconds`."""
    wrong = f"{settings.url} is out of reach: no broker has answered for {seconds:g} s; the last error: "
    wrong += settings.hide(why) or "none"
    expected = "a broker that answers, at one of these addresses and at those that it gives for itself"
    # A client without a file descriptor for a connection reports that no broker is reached.
    remedy = remedy_in(why) or "start the brokers, or correct the address or the settings of TLS and SASL"
    return SystemProblem(explain(wrong, expected, remedy, at=settings.url))


def starved(settings: KafkaSettings, partition: StreamPartition, seconds: float, why: str) -> SystemProblem:
    """Brokers answer, but for `seconds` no message has come of a partition that has some, for want of a resource."""
    stream, number = partition
    wrong = f"{settings.url} has messages of {stream!r}, partition {number}, but none has come for {seconds:g} s; "
    wrong += f"the last error: {settings.hide(why)}"
    expected = "a connection to the broker that leads the partition"
    return SystemProblem(explain(wrong, expected, remedy_in(why) or "", at=settings.url))


def refused(settings: KafkaSettings, what: str, error: KafkaError) -> SystemProblem:
    """The cluster or the client has refused a request. `what` completes "would not"."""
    wrong = f"{settings.url} would not {what}: {settings.hide(error.str())} ({error.name()})"
    remedy = _REMEDIES.get(error.code(), "read the log of the broker")
    return SystemProblem(explain(wrong, "a cluster that accepts this request", remedy, at=settings.url))


def fenced(settings: KafkaSettings, transactional_id: str) -> Fenced:
    """Another producer has taken the transactional id, or the brokers have ended a transaction that took too long."""
    wrong = f"another run has taken over {transactional_id!r}: what this one writes is refused, and what it had not "
    wrong += "committed is dropped"
    remedy = "nothing if the other run was started on purpose, else stop one of them"
    return Fenced(
        explain(wrong, "one run of a pipeline at a time", remedy, at=settings.url), _lapsed(settings, transactional_id)
    )


def _lapsed(settings: KafkaSettings, transactional_id: str) -> SystemProblem:
    wrong = f"{settings.url} has ended a transaction of {transactional_id!r} that was open for longer than its "
    wrong += "transaction.timeout.ms; what was not committed is dropped, and is read again after a start"
    expected = "a process whose commits do not wait or stand still for so long, with a transactional id of its own"
    remedy = "start it again; if that comes back, raise transaction.timeout.ms among the settings of the client, to "
    remedy += "more than calls may rest for a breaker or wait for a limit, or write less at a time: on Spark by a "
    remedy += "smaller spark_batch_records"
    return SystemProblem(explain(wrong, expected, remedy, at=settings.url))


_REMEDIES: Mapping[int, str] = {
    **dict.fromkeys(GONE, "check that all partitions of the topic have a leader, and read the logs of the brokers"),
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "let the user of this pipeline read, write, describe and create the topic",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "choose a group.id, among the settings of the client, that is allowed",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "let the user of this pipeline write idempotently and create topics",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "let the user of this pipeline write with transactional ids",
    KafkaError.MSG_SIZE_TOO_LARGE: "raise max.message.bytes of the topic and message.max.bytes of the client; start "
    "again if max.message.bytes was lowered during the run, which reads it once; a batch.size of yours must be less",
    KafkaError.INVALID_TIMESTAMP: "start the pipeline again if message.timestamp.after.max.ms of the topic was lowered "
    "during the run, which reads it once for each topic; else raise message.timestamp.before.max.ms",
    KafkaError.INVALID_REPLICATION_FACTOR: "set replication.factor among the settings of topics",
    KafkaError.INVALID_CONFIG: "correct the settings of topics; Fluvial needs Kafka 3.6 or later",
    KafkaError.POLICY_VIOLATION: "make the topic as the policy of the cluster wants it, before the run",
    KafkaError.INVALID_TRANSACTION_TIMEOUT: "let the calls of the pipeline end sooner (timeout= and retry=), for which "
    "a commit waits; or raise transaction.max.timeout.ms of the brokers; or, where calls never take as long as they "
    "may, set transaction.timeout.ms among the settings of the client",
}
