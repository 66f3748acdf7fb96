"""The example that asks a web service."""

import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from examples.enrich import MAX_IN_FLIGHT, country_of
from programs import ENGINES

CUSTOMERS = 60
TASKS = {"local": 1, "spark": 2}
"""How many tasks call the service at once: one a partition of the input, and on Spark one a core."""


def orders(file: Path, number: int) -> Path:
    rows = ({"customer": f"c{i % CUSTOMERS}", "item": "tea", "cents": i} for i in range(number))
    file.write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
    return file


# For Spark tests/runtime/spark/worker/test_stage_feeder.py has calls in flight together each time.
@pytest.mark.parametrize("engine", ENGINES, indirect=True)
def test_orders_are_enriched_in_order_and_many_at_once(
    run_apart: Callable[..., str],
    engine: str,
    values: Callable[[Path], list[dict[str, Any]]],
    service: str,
    tmp_path: Path,
) -> None:
    given, made = orders(tmp_path / "orders", 1_000), tmp_path / "enriched"
    files = ("--input", f"orders={given}", "--input-format", "json", "--output", f"enriched={made}")

    run_apart("enrich.py", *files, ENRICH_URL=service)

    found = values(made)
    assert {row["country"] == country_of(row["order"]["customer"]) for row in found} == {True}
    for customer in {row["order"]["customer"] for row in found}:
        # All of a customer, each once, in the order in which they were placed.
        cents = [row["order"]["cents"] for row in found if row["order"]["customer"] == customer]
        assert cents == list(range(int(customer[1:]), 1_000, CUSTOMERS))
    with urllib.request.urlopen(f"{service}/peak") as answer:
        peak = int(answer.read())
    assert 0.8 * MAX_IN_FLIGHT <= peak <= MAX_IN_FLIGHT * TASKS[engine]
