"""The auction house: people, their auctions, and bids, made from a seed."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

import msgspec
from msgspec import Struct

BASE = 1_700_000_000_000
"""When it begins, in ms since epoch: a multiple of ten seconds."""

STEP = 20
"""Ms from one event to the next, about."""

PARTITIONS = 2
CATEGORIES = range(10, 15)
STATES = ("OR", "ID", "CA", "WA", "AZ")
SIDE_ROWS = 20
"""Rows of the table that q13 looks up."""

_NAMES = ("Ada", "Bob", "Cleo", "Dan", "Eve", "Fay")
_CITIES = ("Portland", "Boise", "Fresno", "Seattle", "Phoenix")
_OF_FIFTY = ("person", *3 * ("auction",), *46 * ("bid",))
"""Of fifty events one is a person, three are auctions, the others bids: as in the original."""


class Person(Struct, frozen=True, tag="person"):
    """Somebody who has come to the auction house at `at`, in ms since epoch."""

    id: int
    name: str
    city: str
    state: str
    at: int


class Auction(Struct, frozen=True, tag="auction"):
    """Something that is for sale from `at` to `expires`, in ms since epoch."""

    id: int
    seller: int
    category: int
    at: int
    expires: int


class Bid(Struct, frozen=True, tag="bid"):
    """An offer of `price` cents at `at`, in ms since epoch."""

    auction: int
    bidder: int
    price: int
    at: int


Event = Person | Auction | Bid
STREAMS: Mapping[type[Event], str] = {Person: "persons", Auction: "auctions", Bid: "bids"}
"""The stream of each kind of event."""

Records = dict[str, list[list[tuple[bytes | None, bytes | None, int, tuple[tuple[str, bytes], ...]]]]]
"""Records by stream and partition."""


@dataclass
class House:
    """What has happened so far: who is there and what is for sale."""

    random: Random
    now: int = BASE
    persons: int = 0
    auctions: list[Auction] = field(default_factory=list)

    def person(self) -> Person:
        """Somebody new registers."""
        number, self.persons = self.persons, self.persons + 1
        place = self.random.randrange(len(STATES))
        return Person(number, self.random.choice(_NAMES), _CITIES[place], STATES[place], self.now)

    def auction(self) -> Auction:
        """Somebody who is registered offers something for sale."""
        lasts = self.random.randrange(1_000, 20_000)
        seller = self._somebody()
        made = Auction(len(self.auctions), seller, self.random.choice(CATEGORIES), self.now, self.now + lasts)
        self.auctions.append(made)
        return made

    def bid(self) -> Bid:
        """Somebody who is registered bids in one of the latest auctions."""
        # Most bids are for the latest auctions, and one of them is hot.
        latest = self.auctions[-10:]
        auction = latest[0] if self.random.random() < 0.5 else self.random.choice(latest)
        return Bid(auction.id, self._somebody(), self.random.randrange(100, 100_000), self.now)

    def _somebody(self) -> int:
        # A seller may be somebody who is only about to come.
        return self.random.randrange(max(0, self.persons - 50), self.persons + 1)


def events(count: int, seed: int = 1) -> list[Event]:
    """Events in the order of their times."""
    house = House(Random(seed))
    found: list[Event] = []
    for number in range(count):
        house.now += house.random.randrange(2 * STEP)
        kind = _OF_FIFTY[number % len(_OF_FIFTY)]
        found.append(getattr(house, kind)())
    return found


def side_rows() -> dict[int, str]:
    """The table of q13."""
    return {key: f"side {key}" for key in range(0, SIDE_ROWS, 2)}


def records(found: Iterable[Event]) -> Records:
    """The input of all queries, dealt to the partitions of their streams in turn; and the table of q13."""
    made: Records = {name: [[] for _ in range(PARTITIONS)] for name in STREAMS.values()}
    encode = msgspec.json.Encoder().encode
    for number, event in enumerate(found):
        made[STREAMS[type(event)]][number % PARTITIONS].append((None, encode(event), event.at, ()))
    rows: list[Any] = [(key.to_bytes(8, "big"), row.encode(), BASE, ()) for key, row in side_rows().items()]
    made["side"] = [rows]
    return made
