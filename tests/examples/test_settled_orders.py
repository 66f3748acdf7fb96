"""The example that joins orders and payments."""

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import msgspec

MINUTE = 60_000
ORDERS = 200


def test_each_order_is_paid_in_time_or_said_not_to_be(
    run: Callable[..., str], values: Callable[[Path], list[dict[str, Any]]], tmp_path: Path
) -> None:
    random = Random(7)
    orders: list[dict[str, Any]] = []
    payments: list[dict[str, Any]] = []
    wanted: list[dict[str, Any]] = []
    for number in range(ORDERS):
        id, at, cents = f"o{number}", number * MINUTE, 100 + number
        orders.append({"id": id, "cents": cents, "at": at})
        delays = [random.randrange(60) for _ in range(random.randrange(3))]
        payments += [{"order": id, "cents": 50 + delay, "at": at + delay * MINUTE} for delay in delays]
        in_time = [50 + delay for delay in delays if delay <= 30] or [0]
        wanted += [{"order": id, "due": cents, "paid": paid} for paid in in_time]
    payments.sort(key=lambda payment: payment["at"])
    files = {"orders": orders, "payments": payments}
    for name, rows in files.items():
        (tmp_path / name).write_bytes(b"\n".join(map(msgspec.json.encode, rows)) + b"\n")
    inputs = [word for name in files for word in ("--input", f"{name}={tmp_path / name}")]
    run("settled_orders.py", "--input-format", "json", *inputs, "--output", f"settled={tmp_path / 'settled'}")
    assert sorted(values(tmp_path / "settled"), key=repr) == sorted(wanted, key=repr)
