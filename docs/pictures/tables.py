"""Scenes of tables: orders and their customers, from a stream of rows and from elsewhere."""

from collections.abc import Callable, Mapping

from docs.pictures.playing import MINUTE, Sent, played
from fluvial.dsl import Pipeline
from fluvial.runtime.testing import draw_run


def _shipped(order: str, town: str | None) -> str:
    return f"{order} to {town or 'nowhere'}"


def looked_up() -> str:
    """Orders with the town that the table has when they come."""
    pipeline = Pipeline("shipments")
    towns = pipeline.table("towns", key=str, value=str)
    orders = pipeline.stream("orders", key=str, value=str)
    orders.join(towns, _shipped, id="shipped", how="left").send_to("shipments")
    sent: list[Sent] = [
        ("towns", "c1", "London", 1 * MINUTE),
        ("orders", "c1", "tea", 3 * MINUTE),
        ("orders", "c2", "coffee", 4 * MINUTE),
        ("towns", "c1", "Rome", 6 * MINUTE),
        ("towns", "c2", "Bern", 7 * MINUTE),
        ("orders", "c1", "milk", 9 * MINUTE),
        ("orders", "c2", "cake", 10 * MINUTE),
    ]
    return draw_run(played(pipeline, sent), by="step")


SCENES: Mapping[str, Callable[[], str]] = {"table": looked_up}
