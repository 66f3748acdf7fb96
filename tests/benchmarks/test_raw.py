"""The loops by hand where a small input on a broker does not lead: what the join forgets on its way."""

from collections.abc import Iterator
from random import Random
from typing import NamedTuple, cast

import msgspec
import pytest

from benchmarks.job import Job
from benchmarks.oracle import expected, judge
from benchmarks.references import raw
from benchmarks.references.client import Client
from benchmarks.sources import PARTITIONS
from benchmarks.workloads import WORKLOADS

JOIN = WORKLOADS["W6"]
JOB = Job("W6", "job", "", ("orders", "payments"), "out", "", "")
MESSAGES, BATCH = 8_000, 100


class Read(NamedTuple):
    """A message as the client gives it."""

    place: tuple[str, int]
    encoded: bytes

    def topic(self) -> str:
        return self.place[0]

    def partition(self) -> int:
        return self.place[1]

    def value(self) -> bytes:
        return self.encoded


class InMemory:
    """A client whose partitions are read in whatever order: one may be far ahead of the others."""

    def __init__(self, seed: int) -> None:
        self.written: list[tuple[str, str, bytes]] = []
        self._random = Random(seed)
        self._parts: dict[tuple[str, int], list[Read]] = {}
        for topic, messages in zip(JOB.inputs, JOIN.inputs(MESSAGES), strict=True):
            for message in messages:
                place = topic, int(message.order[1:]) % PARTITIONS
                self._parts.setdefault(place, []).append(Read(place, msgspec.json.encode(message)))

    def batches(self) -> Iterator[list[Read]]:
        while self._parts:
            place = self._random.choice(list(self._parts))
            part = self._parts.pop(place)
            yield part[:BATCH]
            if part[BATCH:]:
                self._parts[place] = part[BATCH:]

    def produce(self, topic: str, value: bytes, key: str) -> None:
        self.written.append((topic, key, value))


@pytest.mark.parametrize("seed", range(5))
def test_the_join_forgets_nothing_that_is_still_to_be_joined(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raw, "SWEEP", 2 * BATCH)
    client = InMemory(seed)

    raw.w6(JOB, cast(Client, client))

    verdict = judge("W6", expected("W6", *JOIN.inputs(MESSAGES)), (value for *_, value in client.written))
    assert verdict.correct, verdict
    assert {topic for topic, *_ in client.written} == {JOB.output}
