"""What the queries must come to, in plain Python over all events at once; it shares no code with the queries."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from benchmarks.nexmark.events import SIDE_ROWS, Auction, Bid, Event, Person, side_rows

SPAN, HOP = 10_000, 2_000

Row = tuple[Any, ...]
"""A result, as the values of its fields."""


def _of(kind: type[Any], events: Iterable[Event]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


def _bid(bid: Bid) -> Row:
    return bid.auction, bid.bidder, bid.price, bid.at


def q0(events: Sequence[Event]) -> Iterable[Row]:
    return map(_bid, _of(Bid, events))


def q1(events: Sequence[Event]) -> Iterable[Row]:
    return [(bid.auction, bid.bidder, bid.price * 0.908, bid.at) for bid in _of(Bid, events)]


def q2(events: Sequence[Event]) -> Iterable[Row]:
    return [_bid(bid) for bid in _of(Bid, events) if bid.auction % 7 == 0]


def q3(events: Sequence[Event]) -> Iterable[Row]:
    near = {person.id: person for person in _of(Person, events) if person.state in ("OR", "ID", "CA")}
    sold = [auction for auction in _of(Auction, events) if auction.category == 10 and auction.seller in near]
    return [(near[it.seller].name, near[it.seller].city, near[it.seller].state, it.id) for it in sold]


def q4(events: Sequence[Event]) -> Iterable[Row]:
    prices = defaultdict(list)
    for auction in _of(Auction, events):
        bids = [bid.price for bid in _of(Bid, events) if bid.auction == auction.id]
        times = [bid.at for bid in _of(Bid, events) if bid.auction == auction.id]
        valid = [price for price, at in zip(bids, times, strict=True) if auction.at <= at <= auction.expires]
        if valid:
            prices[auction.category].append(max(valid))
    return [(category, sum(found) / len(found)) for category, found in prices.items()]


def q5(events: Sequence[Event]) -> Iterable[Row]:
    counts: defaultdict[int, Counter[int]] = defaultdict(Counter)
    for bid in _of(Bid, events):
        first = bid.at - bid.at % HOP + HOP
        for end in range(first, first + SPAN, HOP):
            counts[end][bid.auction] += 1
    for end, found in counts.items():
        most = max(found.values())
        yield from ((end, auction, bids) for auction, bids in found.items() if bids == most)


def q7(events: Sequence[Event]) -> Iterable[Row]:
    spans: defaultdict[int, list[Bid]] = defaultdict(list)
    for bid in _of(Bid, events):
        spans[bid.at // SPAN].append(bid)
    for bids in spans.values():
        most = max(bid.price for bid in bids)
        yield from (_bid(bid) for bid in bids if bid.price == most)


def q8(events: Sequence[Event]) -> Iterable[Row]:
    sold = {(auction.seller, auction.at // SPAN) for auction in _of(Auction, events)}
    people = [person for person in _of(Person, events) if (person.id, person.at // SPAN) in sold]
    return [(person.id, person.name, person.at // SPAN * SPAN) for person in people]


def q11(events: Sequence[Event]) -> Iterable[Row]:
    times: defaultdict[int, list[int]] = defaultdict(list)
    for bid in _of(Bid, events):
        times[bid.bidder].append(bid.at)
    for bidder, found in times.items():
        number, last = 0, found[0]
        for at in found:
            if at - last > SPAN:
                yield bidder, number, last + SPAN + 1
                number = 0
            number, last = number + 1, at
        yield bidder, number, last + SPAN + 1


def q12(events: Sequence[Event]) -> Iterable[Row]:
    """Bids by bidder: what the clock cuts them into differs from run to run."""
    return Counter(bid.bidder for bid in _of(Bid, events)).items()


def q13(events: Sequence[Event]) -> Iterable[Row]:
    rows = side_rows()
    found = [(bid, rows.get(bid.auction % SIDE_ROWS)) for bid in _of(Bid, events)]
    return [(bid.auction, bid.price, row) for bid, row in found if row is not None]


def q18(events: Sequence[Event]) -> Iterable[Row]:
    last: dict[tuple[int, int], Bid] = {}
    for bid in sorted(_of(Bid, events), key=lambda bid: (bid.at, bid.price)):
        last[bid.bidder, bid.auction] = bid
    return map(_bid, last.values())


ORACLES: Mapping[str, Callable[[Sequence[Event]], Iterable[Row]]] = {
    oracle.__name__: oracle for oracle in (q0, q1, q2, q3, q4, q5, q7, q8, q11, q12, q13, q18)
}


def expected(query: str, events: Sequence[Event]) -> Counter[Row]:
    """The results of a query, each as often as it must come."""
    return Counter(ORACLES[query](events))


def comparable(query: str, results: Iterable[Mapping[str, Any]]) -> Counter[Row]:
    """Results of a run, decoded from JSON, in the same form."""
    rows = [tuple(value for name, value in result.items() if name != "type") for result in results]
    if query != "q12":
        return Counter(rows)
    found: Counter[int] = Counter()
    for bidder, bids, _ in rows:
        found[bidder] += bids
    return Counter(found.items())
