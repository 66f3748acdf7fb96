"""A program with a Kafka consumer of its own, which calls a service for many orders at once, of a customer in turn.

    python examples/keyed_consumer.py --servers localhost:9092 --topic orders --group shipping

No pipeline: the program reads, `KeyedExecutor` makes the calls, and what is committed never passes an order whose call
has not ended. Start it again, or twice, and partitions go from one process to the other without a loss. Ends with
SIGTERM or Ctrl-C.
"""

import argparse
import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable
from datetime import timedelta

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.aio import AIOConsumer

from fluvial.dsl import Retry
from fluvial.runtime import KeyedExecutor, Submission

Place = tuple[str, int]
"""A topic, and the number of a partition of it."""

COMMIT_SECONDS = 1.0

MEANWHILE = (KafkaError.REBALANCE_IN_PROGRESS, KafkaError.ILLEGAL_GENERATION, KafkaError.UNKNOWN_MEMBER_ID)
"""What a broker says of a commit while the group shares partitions anew, or has done so."""


async def ship(order: bytes) -> str:
    """Stands for a call of a service. It may be made again after a crash, as any call."""
    await asyncio.sleep(0.005)
    return order.decode()


def shipped(order: Submission[bytes], answer: str) -> None:
    """Told of each answer, those of a customer in order."""
    print(order.partition, order.offset, answer, flush=True)


async def consume(
    servers: str, topic: str, group: str, ask: Callable[[bytes], Awaitable[str]], stop: asyncio.Event
) -> None:
    """Read a topic until `stop` is set."""
    conf = {
        "bootstrap.servers": servers,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,  # the executor tells what may be committed
        "partition.assignment.strategy": "cooperative-sticky",
    }
    retry = Retry(attempts=5, delay=timedelta(milliseconds=200))
    # The consumer closes last: its partitions are revoked then, and what has landed is committed.
    async with (
        AIOConsumer(conf) as consumer,
        KeyedExecutor(ask, max_in_flight=50, retry=retry, on_result=shipped) as executor,
    ):
        watching = {"on_assign": assigned, "on_revoke": revoking(executor), "on_lost": losing(executor)}
        await consumer.subscribe([topic], **watching)
        committed = asyncio.get_running_loop().time()
        while not stop.is_set():
            for record in await consumer.consume(500, 0.1):
                if record.error() is not None:
                    raise RuntimeError(str(record.error()))
                place = record.topic(), record.partition()
                await executor.submit(record.value(), key=record.key(), partition=place, offset=record.offset())
            if (now := asyncio.get_running_loop().time()) >= committed + COMMIT_SECONDS:
                await commit(consumer, executor.positions)
                committed = now


async def assigned(consumer: AIOConsumer, partitions: list[TopicPartition]) -> None:
    """Read these partitions too, each from where the group has committed."""
    await consumer.incremental_assign(partitions)


def revoking(executor: KeyedExecutor[bytes, str]) -> Callable[..., Awaitable[None]]:
    """What to do where partitions go to another consumer: let their calls end, and commit before it begins."""

    async def revoked(consumer: AIOConsumer, partitions: list[TopicPartition]) -> None:
        places = [(one.topic, one.partition) for one in partitions]
        grace = timedelta(seconds=5)  # far below max.poll.interval.ms
        positions = await asyncio.gather(*(executor.revoke(place, grace=grace) for place in places))
        known = zip(places, positions, strict=True)
        await commit(consumer, {place: position for place, position in known if position is not None})
        await consumer.incremental_unassign(partitions)

    return revoked


def losing(executor: KeyedExecutor[bytes, str]) -> Callable[..., Awaitable[None]]:
    """What to do where partitions are with another consumer already: drop what is in flight, and commit nothing."""

    async def lost(consumer: AIOConsumer, partitions: list[TopicPartition]) -> None:
        for one in partitions:
            await executor.revoke((one.topic, one.partition), grace=timedelta(0))
        await consumer.incremental_unassign(partitions)

    return lost


async def commit(consumer: AIOConsumer, positions: dict[Place, int]) -> None:
    """Commit these offsets for the group. While the group shares partitions anew it may take none: then they are
    committed by the next call, or, where they have gone, the orders in between are shipped again."""
    offsets = [TopicPartition(topic, partition, offset) for (topic, partition), offset in positions.items()]
    if not offsets:
        return
    try:
        await consumer.commit(offsets=offsets, asynchronous=False)
    except KafkaException as error:
        if error.args[0].code() not in MEANWHILE:
            raise
        print(f"not committed: {error.args[0].str()}", file=sys.stderr)


async def main() -> None:
    """Read until a signal comes."""
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--servers", "--topic", "--group"):
        words.add_argument(name, required=True)
    given, stop = words.parse_args(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await consume(given.servers, given.topic, given.group, ship, stop)


if __name__ == "__main__":
    asyncio.run(main())
