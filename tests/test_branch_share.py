"""The gate of branches alone, `make coverage`, over reports made for it."""

import json
from pathlib import Path

import pytest

from branch_share import main


@pytest.mark.parametrize(
    ("taken", "code", "said"),
    [
        (19, 0, "branches alone: 19 of 20 are taken, 95.00 %\n"),
        (18, 1, "branches alone: 18 of 20 are taken, 90.00 %; less than 95 %\n"),
    ],
)
def test_a_share_below_the_least_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], taken: int, code: int, said: str
) -> None:
    report = tmp_path / "coverage.json"
    report.write_text(json.dumps({"totals": {"covered_branches": taken, "num_branches": 20}}))
    assert (main(report, 95), capsys.readouterr().out) == (code, said)
