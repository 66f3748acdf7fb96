"""How long brokers have been away, told from the errors of a client."""

from confluent_kafka import KafkaError
from hypothesis import given
from hypothesis import strategies as st

from fluvial.runtime.systems.kafka.clients import ConnectionMonitor

DOWN, LOST = KafkaError(KafkaError._ALL_BROKERS_DOWN), KafkaError(KafkaError._TRANSPORT, "connection refused")


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@given(st.lists(st.floats(0, 14), min_size=1))
def test_brokers_are_away_as_long_as_errors_keep_coming(pauses: list[float]) -> None:
    clock = Clock()
    monitor = ConnectionMonitor(clock)
    monitor(DOWN)
    for pause in pauses:
        clock.now += pause
        monitor(LOST)
        assert monitor.seconds_down == clock.now - 1000
    assert monitor.last == "connection refused"


def test_one_lost_connection_is_no_outage() -> None:
    clock = Clock()
    monitor = ConnectionMonitor(clock)
    monitor(LOST)
    clock.now += 1
    assert monitor.seconds_down == 0


def test_an_answer_ends_an_outage() -> None:
    clock = Clock()
    monitor = ConnectionMonitor(clock)
    monitor(DOWN)
    monitor.answered()
    clock.now += 1
    assert monitor.seconds_down == 0


def test_silence_ends_an_outage_and_a_later_one_begins_anew() -> None:
    clock = Clock()
    monitor = ConnectionMonitor(clock)
    monitor(DOWN)
    clock.now += 16
    assert monitor.seconds_down == 0
    monitor(DOWN)
    clock.now += 2
    assert monitor.seconds_down == 2
