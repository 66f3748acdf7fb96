"""Scenes of join: orders and their payments."""

from collections.abc import Callable, Mapping
from datetime import timedelta

from docs.pictures.playing import MINUTE, Sent, played
from fluvial.dsl import Message, Pipeline
from fluvial.runtime.testing import draw_run

_WITHIN = timedelta(minutes=10)


def _paid(order: str, payment: str | None) -> str:
    return f"{order}, {payment or 'not paid'}"


def joined() -> str:
    """Orders with the payments of the next ten minutes, and orders without one."""
    pipeline = Pipeline("settled")
    orders, payments = (pipeline.stream(name, key=str, value=str) for name in ("orders", "payments"))
    orders.join(payments, _paid, id="settled", within=_WITHIN, how="left").send_to("settled")
    sent: list[Sent] = [
        ("orders", "o1", "tea", 1 * MINUTE),
        ("orders", "o2", "cake", 3 * MINUTE),
        ("payments", "o1", "3 euro", 6 * MINUTE),
        ("orders", "o3", "milk", 15 * MINUTE),
        ("payments", "o3", "2 euro", 16 * MINUTE),
        ("payments", "o2", "5 euro", 17 * MINUTE),
    ]
    means = "for how long it may be joined"
    return draw_run(played(pipeline, sent), intervals={"orders": _kept}, interval_legend=means)


def _kept(order: Message[str]) -> tuple[int, int]:
    return order.timestamp, order.timestamp + _WITHIN // timedelta(milliseconds=1)


SCENES: Mapping[str, Callable[[], str]] = {"join": joined}
