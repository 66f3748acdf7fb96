"""Orders with what is known of their customers, who come from a compacted stream.

    fluvial produce customers customers.jsonl --format json --key-field id
    fluvial run examples/customers.py --system log:.fluvial --input-format json \\
        --input orders=orders.jsonl --output shipments=-

A customer is a line such as {"id": "c1", "name": "Ada", "town": "London"}, an order one such as
{"id": "o1", "customer": "c1", "at": 1700000000000}. On Spark: add `--engine spark`.
"""

from dataclasses import dataclass

from fluvial.dsl import Pipeline


@dataclass(frozen=True, slots=True)
class Customer:
    """Somebody who orders."""

    id: str
    name: str
    town: str


@dataclass(frozen=True, slots=True)
class Order:
    """What somebody has ordered; `at` is in ms since epoch."""

    id: str
    customer: str
    at: int


@dataclass(frozen=True, slots=True)
class Shipment:
    """Where an order goes; `town` is "unknown" where nobody has told it."""

    order: str
    name: str
    town: str


def shipment(order: Order, customer: Customer | None) -> Shipment:
    """Where an order goes, by what is known of its customer when it comes."""
    if customer is None:
        return Shipment(order.id, order.customer, "unknown")
    return Shipment(order.id, customer.name, customer.town)


pipeline = Pipeline("shipments")
customers = pipeline.table("customers", key=str, value=Customer)  # the latest row of each, by their id
(
    pipeline.stream("orders", value=Order, timestamp=lambda order: order.at)
    .partition_by(lambda order: order.customer, id="by-customer", key_type=str)  # to where the customer's row is
    .join(customers, shipment, id="shipment", how="left")
    .send_to("shipments")
)
