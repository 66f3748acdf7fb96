"""The orders and payments of the benchmarks: the same everywhere, and as their description says."""

from itertools import accumulate

import msgspec
import pytest

from benchmarks.constants import OUT_OF_ORDER, WITHIN
from benchmarks.oracle import expected
from benchmarks.orders import ORDERS, PAYMENTS, UNPAID, Order, Payment, orders, payments, purchases
from benchmarks.sources import BASE, JITTER, SPAN

COUNT = 5_000


def test_purchases_are_the_same_every_time() -> None:
    assert list(purchases(500)) == list(purchases(500))
    assert next(purchases(1_000, seed=1)) != next(purchases(1_000, seed=2))


def test_the_input_of_the_join_does_not_change_unnoticed() -> None:
    order, payment = msgspec.json.encode(next(orders(1_000))), msgspec.json.encode(next(payments(1_000)))
    assert order == b'{"order":"o00000000","user":"u074674","at":1700000045131,"amount":8272,"item":"sku-00000"}'
    assert payment == b'{"order":"o00063352","at":1700000258142,"paid":4300,"method":"transfer"}'


@pytest.mark.parametrize("made", [list(orders(COUNT)), list(payments(COUNT))], ids=["orders", "payments"])
def test_messages_are_behind_by_less_than_a_join_waits(made: list[Order] | list[Payment]) -> None:
    times = [message.at for message in made]
    behind = max(latest - at for latest, at in zip(accumulate(times, max), times, strict=True))
    assert 0 < behind < JITTER < OUT_OF_ORDER
    assert BASE <= min(times) < max(times) < BASE + SPAN + JITTER + 2 * WITHIN


def test_no_payment_is_before_its_order_and_about_half_come_in_time() -> None:
    placed = {order.order: order.at for order in orders(COUNT)}
    waited = [payment.at - placed[payment.order] for payment in payments(COUNT)]
    in_time = sum(wait <= WITHIN for wait in waited)
    assert min(waited) >= 0
    assert in_time / len(waited) == pytest.approx(0.5, abs=0.05)
    assert len(expected("W6", orders(COUNT), payments(COUNT))) == in_time


def test_an_order_is_paid_once_at_most_and_one_in_ten_never() -> None:
    paid = {payment.order for payment in payments(COUNT)}
    assert len({order.order for order in orders(COUNT)}) == COUNT
    assert len(paid) == len(list(payments(COUNT))) == COUNT - COUNT // UNPAID


@pytest.mark.parametrize("count", [0, 1, 9, 10, 11, 99])
def test_sizes_are_those_of_what_is_made(count: int) -> None:
    assert ORDERS.size(count) == len(list(orders(count)))
    assert PAYMENTS.size(count) == len(list(payments(count)))
