"""What must come out, found in another way than any contender's: all events at once, sorted and grouped."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby, pairwise
from typing import Any

import msgspec
from msgspec import Struct

from benchmarks.constants import DEAR, GAP, MINUTE, WITHIN
from benchmarks.events import NOBODY, Event
from benchmarks.orders import Order, Payment

Row = tuple[Any, ...]
Table = dict[Row, Row]


class Verdict(Struct, frozen=True):
    """How an output compares with what it must be; `outputs` counts messages, repeats and updates included."""

    outputs: int
    missing: int
    wrong: int
    extra: int

    @property
    def correct(self) -> bool:
        """Whether everything came, and as it must be."""
        return not (self.missing or self.wrong or self.extra)


def expected(workload: str, *inputs: Iterable[Any]) -> Table:
    """What the last output of each key must be, for the messages of each topic that the workload reads."""
    return _TABLES[workload](*inputs)


def judge(workload: str, wanted: Table, values: Iterable[bytes]) -> Verdict:
    """Compare what came, in whatever order. Of updates of one key the one with the highest numbers counts."""
    keys, numbers = _FIELDS[workload]
    found: Table = {}
    outputs = 0
    for value in map(msgspec.json.decode, values):
        outputs += 1
        if _is_of_marker(value) or value.get("diff", 1) < 0:  # a change stream takes back what it had said
            continue
        key, row = tuple(value[name] for name in keys), tuple(value[name] for name in numbers)
        if key not in found or row > found[key]:
            found[key] = row
    wrong = sum(key in wanted and wanted[key] != row for key, row in found.items())
    return Verdict(outputs, len(wanted.keys() - found.keys()), wrong, len(found.keys() - wanted.keys()))


def _is_of_marker(value: dict[str, Any]) -> bool:
    return NOBODY in (value.get("user"), value.get("page")) or value.get("seq", 0) < 0


def _dear(events: Iterable[Event]) -> Table:
    return {(event.seq,): (event.user, event.cents, event.at // MINUTE) for event in events if event.cents >= DEAR}


def _minutes(events: Iterable[Event]) -> Table:
    groups: dict[Row, list[int]] = defaultdict(list)
    for event in events:
        groups[event.user, event.at // MINUTE * MINUTE].append(event.cents)
    return {key: (len(cents), sum(cents)) for key, cents in groups.items()}


def _pages(events: Iterable[Event]) -> Table:
    return {(page,): (count,) for page, count in Counter(event.page for event in events).items()}


def _sessions(events: Iterable[Event]) -> Table:
    ordered = sorted((event.user, event.at, event.cents) for event in events)
    return {
        (user, session[0][1]): (len(session), sum(cents for _, _, cents in session))
        for user, clicks in groupby(ordered, key=lambda click: click[0])
        for session in _split(list(clicks))
    }


def _split(clicks: list[Row]) -> Iterator[list[Row]]:
    """Cut one user's clicks, which are in order, where the gap is too long."""
    cuts = [number for number in range(1, len(clicks)) if clicks[number][1] - clicks[number - 1][1] > GAP]
    for begin, end in zip([0, *cuts], [*cuts, len(clicks)], strict=True):
        yield clicks[begin:end]


def _scores(events: Iterable[Event]) -> Table:
    return {(event.seq,): (len(event.page),) for event in events}


def _settled(orders: Iterable[Order], payments: Iterable[Payment]) -> Table:
    """Lay orders and payments together by order and time: an order's payment is the next row, if it is not too late."""
    placed = [(order.order, order.at, 0, (order.user, order.amount)) for order in orders]
    paid = [(payment.order, payment.at, 1, (payment.paid,)) for payment in payments]
    rows = sorted([*placed, *paid])
    return {
        (name,): (*first, *second)
        for (name, ordered, _, first), (same, settled, is_payment, second) in pairwise(rows)
        if same == name and is_payment and settled - ordered <= WITHIN
    }


_TABLES: Mapping[str, Callable[..., Table]] = {
    "W1": _dear,
    "W2": _minutes,
    "W3": _pages,
    "W4": _sessions,
    "W5": _scores,
    "W6": _settled,
}
_FIELDS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "W1": (("seq",), ("user", "cents", "minute")),
    "W2": (("user", "start"), ("count", "cents")),
    "W3": (("page",), ("count",)),
    "W4": (("user", "start"), ("count", "cents")),
    "W5": (("seq",), ("score",)),
    "W6": (("order",), ("user", "amount", "paid")),
}
