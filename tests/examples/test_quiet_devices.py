"""The example that watches devices by timers."""

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import msgspec

PATIENCE = 300_000
MINUTE = 60_000


def readings() -> list[dict[str, Any]]:
    """Readings of some devices, each now and then silent, in order, those of others up to half a minute behind."""
    random = Random(11)
    found: list[tuple[int, dict[str, Any]]] = []
    for number in range(20):
        at = random.randrange(MINUTE)
        for _ in range(30):
            at += random.choice((MINUTE, MINUTE, 2 * MINUTE, 7 * MINUTE, PATIENCE - 1, PATIENCE, PATIENCE + 1))
            celsius = random.choice((20.0, 21.5, 19.0, -300.0))
            row = {"device": f"d{number}", "celsius": celsius, "at": at}
            found.append((at + random.randrange(30_000), row))
    return [row for _, row in sorted(found, key=lambda pair: pair[0])]


def wanted(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Which devices went quiet: after the last reading of each run without so long a gap."""
    times: dict[str, list[int]] = {}
    for row in rows:
        if row["celsius"] > -273:
            times.setdefault(row["device"], []).append(row["at"])
    found = []
    for device, heard in times.items():
        count = 0
        for at, after in zip(heard, [*heard[1:], None], strict=True):
            count += 1
            if after is None or after - at >= PATIENCE:
                found.append({"device": device, "since": at, "readings": count})
                count = 0
    return found


def test_each_silence_is_reported_once_and_what_cannot_be_goes_elsewhere(
    run: Callable[..., str], values: Callable[[Path], list[dict[str, Any]]], tmp_path: Path
) -> None:
    rows = readings()
    (tmp_path / "readings").write_bytes(b"\n".join(map(msgspec.json.encode, rows)) + b"\n")
    outputs = [word for name in ("quiet", "impossible") for word in ("--output", f"{name}={tmp_path / name}")]
    inputs = ["--input-format", "json", "--input", f"readings={tmp_path / 'readings'}"]
    run("quiet_devices.py", *inputs, *outputs)
    assert sorted(values(tmp_path / "quiet"), key=repr) == sorted(wanted(rows), key=repr)
    impossible = [row for row in rows if row["celsius"] < -273]
    assert sorted(values(tmp_path / "impossible"), key=repr) == sorted(impossible, key=repr)
