"""The clients of a stream by which containers of a run tell each other something: it has one partition."""

from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Self

from ...systems.contract import Consumer, ProducingSystem, RecordProducer


@dataclass(frozen=True, slots=True)
class StreamClients:
    """One that reads the stream on from an offset, and one that writes to it, outside of transactions."""

    consumer: Consumer
    producer: RecordProducer

    @classmethod
    def open(cls, system: ProducingSystem, stream: str, offset: int) -> Self:
        """Begin to read the stream at an offset. Raises SystemProblem where brokers are out of reach."""
        consumer = system.consumer()
        consumer.assign({(stream, 0): offset})
        return cls(consumer, system.record_producer(once=False, streams=[stream]))

    def close(self) -> None:
        """Close both, the second also where the first fails to."""
        with closing(self.consumer), closing(self.producer):
            pass


class StreamPeer:
    """What tells containers of a run something by a stream: the clients that it has open now, if any."""

    def __init__(self) -> None:
        self._clients: StreamClients | None = None

    def _close_clients(self) -> None:
        """Close the clients, so that others are opened. What closing raises is passed over: they fail already."""
        clients, self._clients = self._clients, None
        if clients is not None:
            with suppress(Exception):
                clients.close()
