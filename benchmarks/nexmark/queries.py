"""The queries, each as a pipeline that reads the auction house's streams and writes the stream `result`."""

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any

from msgspec import Struct

from benchmarks.nexmark.events import SIDE_ROWS, Auction, Bid, Person
from fluvial.dsl import (
    Context,
    KeyedProcessor,
    ListState,
    Message,
    MessageStream,
    Pane,
    Pipeline,
    Timer,
    ValueState,
    aggregate,
    count,
    hopping,
    reduce,
    session,
    tumbling,
    unbounded,
)

RESULT = "result"
SPAN = timedelta(seconds=10)
HOP = timedelta(seconds=2)


class Price(Struct, frozen=True):
    """What an auction of a category has brought, in cents."""

    category: int
    price: int


class Priced(Struct, frozen=True):
    """The average price of a category, in cents."""

    category: int
    average: float


class Converted(Struct, frozen=True):
    """A bid in euro cents."""

    auction: int
    bidder: int
    price: float
    at: int


class Local(Struct, frozen=True):
    """A seller nearby, and what is for sale."""

    name: str
    city: str
    state: str
    auction: int


class Hot(Struct, frozen=True):
    """How many bids an auction had in the ten seconds up to `end`."""

    end: int
    auction: int
    bids: int


class Newcomer(Struct, frozen=True):
    """Who has come and begun an auction within the same ten seconds from `start`."""

    id: int
    name: str
    start: int


class Bids(Struct, frozen=True):
    """How many bids somebody made, from the first to `end`."""

    bidder: int
    bids: int
    end: int


class Valued(Struct, frozen=True):
    """A bid with what the side table says of it."""

    auction: int
    price: int
    value: str


def _time(event: Any) -> int:
    at: int = event.at
    return at


def _persons(pipeline: Pipeline) -> MessageStream[Any]:
    return pipeline.stream("persons", value=Person, timestamp=_time)


def _auctions(pipeline: Pipeline) -> MessageStream[Any]:
    return pipeline.stream("auctions", value=Auction, timestamp=_time)


def _bids(pipeline: Pipeline) -> MessageStream[Bid]:
    return pipeline.stream("bids", value=Bid, timestamp=_time)


def q0(pipeline: Pipeline) -> None:
    """Pass on all bids."""
    _bids(pipeline).send_to(RESULT)


def in_euro(bid: Bid) -> Converted:
    """The bid at the rate of the original."""
    return Converted(bid.auction, bid.bidder, bid.price * 0.908, bid.at)


def q1(pipeline: Pipeline) -> None:
    """Bids in another currency."""
    _bids(pipeline).map(in_euro).send_to(RESULT)


def is_chosen(bid: Bid) -> bool:
    """Whether the bid is for one of a few auctions."""
    return bid.auction % 7 == 0


def q2(pipeline: Pipeline) -> None:
    """Bids for some auctions."""
    _bids(pipeline).filter(is_chosen).send_to(RESULT)


def is_of_category_ten(auction: Auction) -> bool:
    """Whether the auction is of the category that q3 asks for."""
    return auction.category == 10


def is_near(person: Person) -> bool:
    """Whether somebody lives in one of the three states that q3 asks for."""
    return person.state in ("OR", "ID", "CA")


class Sellers(KeyedProcessor[int, Person | Auction, Local]):
    """Joins a person with all that they sell, whichever comes first."""

    person = ValueState(Person)
    waiting = ListState(int)

    def on_message(self, message: Message[Person | Auction], context: Context[int]) -> Iterable[Local]:
        """Emit a seller with each auction, as soon as both have come."""
        del context
        found = message.value
        if isinstance(found, Person):
            self.person.value = found
            waiting = list(self.waiting)
            self.waiting.clear()
            return [Local(found.name, found.city, found.state, auction) for auction in waiting]
        seller = self.person.value
        if seller is None:
            self.waiting.append(found.id)
            return []
        return [Local(seller.name, seller.city, seller.state, found.id)]


def q3(pipeline: Pipeline) -> None:
    """Who sells something of a category nearby."""
    people = _persons(pipeline).filter(is_near).partition_by(lambda person: person.id, id="by-person", key_type=int)
    auctions = _auctions(pipeline).filter(is_of_category_ten)
    sold = auctions.partition_by(lambda auction: auction.seller, id="by-seller", key_type=int)
    people.merge(sold).process(Sellers(), id="sellers").send_to(RESULT)


class Closing(KeyedProcessor[int, Auction | Bid, Price]):
    """Tells the highest bid of an auction once it is over."""

    auction = ValueState(Auction)
    bids = ListState(Bid)
    """Those that came before the auction did."""
    highest = ValueState(int, 0)

    def on_message(self, message: Message[Auction | Bid], context: Context[int]) -> None:
        """Keep the highest bid, and set a timer for the end of the auction."""
        found = message.value
        if isinstance(found, Bid):
            self._bid(found)
            return
        self.auction.value = found
        for bid in self.bids:
            self._bid(bid)
        self.bids.clear()
        # All bids up to its end have come when time is beyond it.
        context.timers.set("over", found.expires + 1)

    def _bid(self, bid: Bid) -> None:
        auction = self.auction.value
        if auction is None:
            self.bids.append(bid)
        elif auction.at <= bid.at <= auction.expires:
            self.highest.value = max(self.highest.value, bid.price)

    def on_timer(self, timer: Timer, context: Context[int]) -> Iterable[Price]:
        """Emit the highest bid, if there was one."""
        del timer, context  # there is one timer, of the auction at hand
        auction = self.auction.value
        if auction is not None and self.highest.value:
            yield Price(auction.category, self.highest.value)


def _sum(kept: tuple[int, int], price: Price) -> tuple[int, int]:
    return kept[0] + 1, kept[1] + price.price


def _nothing() -> tuple[int, int]:
    return 0, 0


def averaged(pane: Pane[int, tuple[int, int]]) -> Priced:
    """The average of a category at the end."""
    number, total = pane.value
    return Priced(pane.key, total / number)


def q4(pipeline: Pipeline) -> None:
    """The average price of each category."""
    bids = _bids(pipeline).partition_by(lambda bid: bid.auction, id="bids-of", key_type=int)
    auctions = _auctions(pipeline).partition_by(lambda auction: auction.id, id="by-auction", key_type=int)
    everything: Any = auctions.merge(bids)
    prices = everything.process(Closing(), id="closing")
    by_category = prices.partition_by(lambda price: price.category, id="by-category", key_type=int)
    averages = by_category.window(unbounded(), aggregate(_nothing, _sum), id="average")
    averages.map(averaged).send_to(RESULT)


def as_hot(pane: Pane[int, int]) -> Hot:
    """How many bids an auction had in a window."""
    return Hot(pane.window.end, pane.key, pane.value)


def _no_hot() -> list[Hot]:
    return []


def hottest(kept: list[Hot], hot: Hot) -> list[Hot]:
    """Those with the most bids so far."""
    if kept and hot.bids < kept[0].bids:
        return kept
    return [*kept, hot] if kept and hot.bids == kept[0].bids else [hot]


def of_pane(pane: Pane[int, list[Any]]) -> list[Any]:
    """What a pane has gathered."""
    return pane.value


def q5(pipeline: Pipeline) -> None:
    """The auctions with the most bids in the last ten seconds, every two seconds."""
    bids = _bids(pipeline).partition_by(lambda bid: bid.auction, id="by-auction", key_type=int)
    counted = bids.window(hopping(SPAN, every=HOP), count(), id="counted").map(as_hot)
    # A pane lies at the end of its window, and each two seconds have the end of one.
    together = counted.partition_by(lambda _: 0, id="together", key_type=int)
    together.window(tumbling(HOP), aggregate(_no_hot, hottest), id="hottest").flat_map(of_pane).send_to(RESULT)


def _no_bids() -> list[Bid]:
    return []


def highest(kept: list[Bid], bid: Bid) -> list[Bid]:
    """The highest bids so far."""
    if kept and bid.price < kept[0].price:
        return kept
    return [*kept, bid] if kept and bid.price == kept[0].price else [bid]


def q7(pipeline: Pipeline) -> None:
    """The highest bids of each ten seconds."""
    together = _bids(pipeline).partition_by(lambda _: 0, id="together", key_type=int)
    together.window(tumbling(SPAN), aggregate(_no_bids, highest), id="highest").flat_map(of_pane).send_to(RESULT)


Seen = tuple[str | None, bool]
"""A name, if somebody has come, and whether they have begun an auction."""


def _nobody() -> Seen:
    return None, False


def noticed(seen: Seen, event: Person | Auction) -> Seen:
    """Take note of somebody who comes, or begins an auction."""
    return (event.name, seen[1]) if isinstance(event, Person) else (seen[0], True)


def newcomer(pane: Pane[int, Seen]) -> list[Newcomer]:
    """Who has done both."""
    name, sells = pane.value
    return [Newcomer(pane.key, name, pane.window.start)] if name is not None and sells else []


def q8(pipeline: Pipeline) -> None:
    """Who has come and begun an auction in the same ten seconds."""
    people = _persons(pipeline).partition_by(lambda person: person.id, id="by-person", key_type=int)
    sold = _auctions(pipeline).partition_by(lambda auction: auction.seller, id="by-seller", key_type=int)
    seen = people.merge(sold).window(tumbling(SPAN), aggregate(_nobody, noticed), id="seen")
    seen.flat_map(newcomer).send_to(RESULT)


def as_bids(pane: Pane[int, int]) -> Bids:
    """How many bids somebody made in a window."""
    return Bids(pane.key, pane.value, pane.window.end)


def q11(pipeline: Pipeline) -> None:
    """How many bids somebody makes while active: until nothing comes for ten seconds."""
    bidders = _bids(pipeline).partition_by(lambda bid: bid.bidder, id="by-bidder", key_type=int)
    bidders.window(session(SPAN), count(), id="sessions").map(as_bids).send_to(RESULT)


def q12(pipeline: Pipeline) -> None:
    """How many bids somebody makes in ten seconds by the clock."""
    bidders = _bids(pipeline).partition_by(lambda bid: bid.bidder, id="by-bidder", key_type=int)
    bidders.window(tumbling(SPAN), count(), id="windows", time="processing").map(as_bids).send_to(RESULT)


def valued(bid: Bid, value: str) -> Valued:
    """A bid with its row of the side table."""
    return Valued(bid.auction, bid.price, value)


def q13(pipeline: Pipeline) -> None:
    """Bids with what a table says of their auction."""
    side = pipeline.table("side", key=int, value=str)
    bids = _bids(pipeline).partition_by(lambda bid: bid.auction % SIDE_ROWS, id="by-row", key_type=int)
    bids.join(side, valued, id="valued").send_to(RESULT)


def later(one: Bid, other: Bid) -> Bid:
    """The later bid; of two at one time the higher."""
    return max(one, other, key=lambda bid: (bid.at, bid.price))


def q18(pipeline: Pipeline) -> None:
    """The last bid of each bidder for each auction."""
    bids = _bids(pipeline).partition_by(lambda bid: (bid.bidder, bid.auction), id="by-both", key_type=tuple[int, int])
    bids.window(unbounded(), reduce(later), id="last").map(lambda pane: pane.value).send_to(RESULT, value=Bid)


QUERIES: Mapping[str, Callable[[Pipeline], None]] = {
    query.__name__: query for query in (q0, q1, q2, q3, q4, q5, q7, q8, q11, q12, q13, q18)
}


def pipeline(query: str) -> Pipeline:
    """A query as a pipeline."""
    made = Pipeline(f"nexmark-{query}")
    QUERIES[query](made)
    return made
