"""Which orders were paid within half an hour, and which were not.

    fluvial run examples/settled_orders.py --input-format json \\
        --input orders=orders.jsonl --input payments=payments.jsonl --output settled=-

An order is a line such as {"id": "o1", "cents": 1200, "at": 1700000000000}, a payment one such as
{"order": "o1", "cents": 1200, "at": 1700000060000}. On Spark: add `--engine spark`.
"""

from dataclasses import dataclass
from datetime import timedelta

from fluvial.dsl import Pipeline


@dataclass(frozen=True, slots=True)
class Order:
    """Something that is to be paid; `at` is in ms since epoch."""

    id: str
    cents: int
    at: int


@dataclass(frozen=True, slots=True)
class Payment:
    """Money for an order, perhaps for part of it."""

    order: str
    cents: int
    at: int


@dataclass(frozen=True, slots=True)
class Settled:
    """An order and one payment for it; 0 cents were paid where none came in time."""

    order: str
    due: int
    paid: int


def settled(order: Order, payment: Payment | None) -> Settled:
    """What became of an order."""
    return Settled(order.id, order.cents, payment.cents if payment else 0)


pipeline = Pipeline("settled-orders")
late = timedelta(minutes=1)  # how far behind others an order or a payment may be reported
orders = pipeline.stream("orders", value=Order, timestamp=lambda order: order.at, out_of_order=late)
payments = pipeline.stream("payments", value=Payment, timestamp=lambda payment: payment.at, out_of_order=late)
(
    # An order and its payments meet in one task.
    orders.partition_by(lambda order: order.id, id="orders-by-id", key_type=str)
    .join(
        payments.partition_by(lambda payment: payment.order, id="payments-by-order", key_type=str),
        settled,
        id="settled",
        within=timedelta(minutes=30),
        how="left",
    )
    .send_to("settled")
)
