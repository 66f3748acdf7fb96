"""Orders and their payments, made from a seed: the input of the workload that joins them."""

from collections.abc import Iterator
from operator import attrgetter
from random import Random
from typing import NamedTuple

from msgspec import Struct

from benchmarks.constants import WITHIN
from benchmarks.sources import BASE, JITTER, SPAN, Source

USERS = 100_000
UNPAID = 10
"""One order in so many is never paid."""

PATIENCE = 2 * WITHIN
"""Payments come so many ms after their order at most: about half of them too late to join it."""

_SEED = 20_261_122
_METHODS = ("card", "cash", "transfer")


class Order(Struct, frozen=True, gc=False):
    """An order, about 90 bytes of JSON. `at` is ms since epoch, `amount` cents."""

    order: str
    user: str
    at: int
    amount: int
    item: str


class Payment(Struct, frozen=True, gc=False):
    """The payment of an order, about 70 bytes of JSON. `at` is ms since epoch, `paid` cents."""

    order: str
    at: int
    paid: int
    method: str


class Purchase(NamedTuple):
    """An order and its payment, if there is one; `comes` is when it is sent: a little before its own time."""

    order: Order
    payment: Payment | None
    comes: int


def purchases(count: int, seed: int = _SEED) -> Iterator[Purchase]:
    """So many, by the time in which their orders come."""
    random = Random(seed)
    for seq in range(count):
        name = f"o{seq * 7_919 % 100_000_007:08d}"
        user, amount, paid = f"u{random.randrange(USERS):06d}", random.randrange(10_000), random.randrange(10_000)
        at = BASE + seq * SPAN // count + random.randrange(JITTER)
        settled = at + random.randrange(PATIENCE)
        payment = Payment(name, settled, paid, _METHODS[seq % len(_METHODS)])
        yield Purchase(
            Order(name, user, at, amount, f"sku-{seq % 50_000:05d}"),
            payment if (seq + 1) % UNPAID else None,
            settled - random.randrange(JITTER),
        )


def orders(count: int) -> Iterator[Order]:
    """So many orders by time, up to the jitter."""
    return (purchase.order for purchase in purchases(count))


def payments(count: int) -> Iterator[Payment]:
    """The payments of so many orders, by time, up to the jitter."""
    come = sorted(purchases(count), key=attrgetter("comes"))
    return (purchase.payment for purchase in come if purchase.payment is not None)


ORDERS = Source("orders", orders, attrgetter("order"))
PAYMENTS = Source("payments", payments, attrgetter("order"), lambda count: count - count // UNPAID)
