"""The example that sends lines in bulks."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.mark.parametrize("engine", ["local"])  # state by task has no place on Spark
def test_lines_come_in_bulks_with_their_offsets(
    run: Callable[..., str], values: Callable[[Path], list[dict[str, Any]]], tmp_path: Path
) -> None:
    lines = [f"line {number}" for number in range(250)]
    (tmp_path / "lines").write_text("\n".join(lines) + "\n")
    run("bulk_lines.py", "--input", f"lines={tmp_path / 'lines'}", "--output", f"bulks={tmp_path / 'bulks'}")
    bulks = values(tmp_path / "bulks")
    assert [(bulk["first"], bulk["last"]) for bulk in bulks] == [(0, 99), (100, 199), (200, 249)]
    assert [line for bulk in bulks for line in bulk["lines"]] == lines
