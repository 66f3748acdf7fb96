"""The example that looks customers up in a table."""

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from fluvial.runtime.cli.app import main

CUSTOMERS, ORDERS = 50, 200


def test_each_order_goes_where_its_customer_lives_now(
    run: Callable[..., str], values: Callable[[Path], list[dict[str, Any]]], tmp_path: Path
) -> None:
    random = Random(5)
    moves = [random.randrange(CUSTOMERS) for _ in range(3 * CUSTOMERS)]
    customers = [{"id": f"c{who}", "name": f"name {who}", "town": f"town {at}"} for at, who in enumerate(moves)]
    known = {customer["id"]: customer for customer in customers}
    orders = [{"id": f"o{at}", "customer": f"c{random.randrange(2 * CUSTOMERS)}", "at": at} for at in range(ORDERS)]
    unknown = {"town": "unknown"}
    wanted = [
        {"order": order["id"], "name": order["customer"], **unknown, **_without_id(known.get(str(order["customer"])))}
        for order in orders
    ]
    for name, rows in (("customers", customers), ("orders", orders)):
        (tmp_path / name).write_bytes(b"\n".join(map(msgspec.json.encode, rows)) + b"\n")
    system = ("--system", f"log:{tmp_path / 'log'}")
    told = ("--format", "json", "--key-field", "id", "--partitions", "2", "--quiet")
    assert main(["produce", "customers", str(tmp_path / "customers"), *told, *system]) == 0
    words = ("--input-format", "json", "--input", f"orders={tmp_path / 'orders'}", "--partitions", "3")
    run("customers.py", *system, *words, "--output", f"shipments={tmp_path / 'shipments'}")
    assert sorted(values(tmp_path / "shipments"), key=repr) == sorted(wanted, key=repr)


def _without_id(customer: dict[str, str] | None) -> dict[str, str]:
    return {} if customer is None else {name: told for name, told in customer.items() if name != "id"}
