"""What is measured: the input, and the pipelines that read it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from pathlib import Path
from random import Random

import msgspec
from msgspec import Struct

from fluvial.dsl import Pane, Pipeline, count, tumbling
from fluvial.runtime.systems import LogSystem
from fluvial.runtime.systems.partitioner import partition_for

PARTITIONS = 4
PER_SECOND = 3_000
"""Messages in a second of event time."""

MINUTE = 60_000
_BEGIN = 1_700_000_000_000
_BATCH = 10_000


class Payment(Struct, frozen=True, gc=False):
    """What comes in: about 100 bytes of JSON. Times are in ms since epoch."""

    id: int
    user: str
    shop: str
    cents: int
    at: int
    tags: list[str]


class Charge(Struct, frozen=True, gc=False):
    """What `filter_map` makes."""

    id: int
    user: str
    cents: int
    fee: int


class Total(Struct, frozen=True, gc=False):
    """What `count` makes."""

    user: str
    start: int
    payments: int


def is_wanted(payment: Payment) -> bool:
    """True of every other payment."""
    return payment.cents % 2 == 0


def to_charge(payment: Payment) -> Charge:
    """A payment with its fee."""
    return Charge(payment.id, payment.user, payment.cents, payment.cents // 50)


def to_total(pane: Pane[str, int]) -> Total:
    """What a window says."""
    return Total(pane.key, pane.window.start, pane.value)


def time_of(payment: Payment) -> int:
    """When it was made."""
    return payment.at


filter_map = Pipeline("bench-filter-map")
filter_map.stream("payments", value=Payment).filter(is_wanted).map(to_charge).send_to("out")

counting = Pipeline("bench-count")
(
    # The input is partitioned by its key, so no border is needed.
    counting.stream("payments", value=Payment, key=str, timestamp=time_of)
    .window(tumbling(timedelta(milliseconds=MINUTE)), count(), id="per-minute")
    .map(to_total)
    .send_to("out")
)


@dataclass(frozen=True, slots=True)
class Workload:
    """A pipeline and how many keys its input has."""

    name: str
    keys: int
    pipeline: Pipeline


WORKLOADS: Mapping[str, Workload] = {
    workload.name: workload
    for workload in (
        Workload("filter_map", 1_000, filter_map),
        Workload("count_1k", 1_000, counting),
        Workload("count_100k", 100_000, counting),
    )
}


def make_input(workload: Workload, messages: int, directory: Path, tell: Callable[[str], None]) -> None:
    """Write the input into a log; keys are equally likely, the same for the same numbers."""
    tell(f"making {messages:,} messages for {workload.name}")
    system = LogSystem(directory, fsync=False)
    system.admin().create("payments", PARTITIONS)
    system.admin().create("out", PARTITIONS)
    producer = system.producer()
    payments = _payments(messages, workload.keys)
    encode = msgspec.json.Encoder().encode
    while batch := list(islice(payments, _BATCH)):
        writing = producer.begin()
        parts: list[list[tuple[bytes, bytes, int, tuple[()]]]] = [[] for _ in range(PARTITIONS)]
        for payment in batch:
            key = payment.user.encode()
            parts[partition_for(key, PARTITIONS)].append((key, encode(payment), payment.at, ()))
        for partition, records in enumerate(parts):
            writing.append("payments", partition, records)
        writing.commit()
    producer.close()


def _payments(messages: int, keys: int) -> Iterator[Payment]:
    random = Random(11)
    for number in range(messages):
        user = f"user-{int(random.random() * keys):06d}"
        at = _BEGIN + number * 1000 // PER_SECOND
        cents = int(random.random() * 10_000)
        yield Payment(number, user, f"shop-{number % 97}", cents, at, ["card", "web"])
