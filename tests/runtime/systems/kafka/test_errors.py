"""What errors of Kafka say to do."""

from fluvial.runtime.systems.kafka.errors import fenced
from fluvial.runtime.systems.kafka.settings import KafkaSettings


def test_a_transaction_that_was_open_for_too_long_may_have_waited_for_calls() -> None:
    told = str(fenced(KafkaSettings("localhost:9092", {}, {}, 60.0, 60.0), "p-1-0").lapsed)
    assert "has ended a transaction of 'p-1-0' that was open for longer than its transaction.timeout.ms" in told
    assert "to more than calls may rest for a breaker or wait for a limit" in told
