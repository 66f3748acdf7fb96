"""A run goes on from what an earlier version has kept: stores, changelogs and checkpoints."""

from pathlib import Path

import pytest

from engines.targets import contents
from fluvial.runtime import run
from fluvial.runtime.launch import EngineName
from generators.kept_state import SETTINGS, feed, kept_pipeline, open_archive, portion
from oracle.interpreter import run_oracle

ARCHIVES = Path(__file__).parent / "kept"
OUTPUTS = ("hourly", "early", "visits", "named", "bought", "streaks")


def goes_on(archive: Path, engine: EngineName, folder: Path) -> None:
    """Have a run go on from an archive to the end of a second portion, and judge all that was written."""
    system = open_archive(archive, folder)
    records = feed(system, 1)
    report = run(kept_pipeline(), engine=engine, system=system, settings=SETTINGS, until="end")
    assert report.resumed
    assert sum(report.read[name] for name in ("clicks", "orders", "users")) == records
    whole = {
        name: [first + second for first, second in zip(partitions, portion(1)[name], strict=True)]
        for name, partitions in portion(0).items()
    }
    expected = run_oracle(kept_pipeline(), whole)
    for name in OUTPUTS:
        written = sorted((record[0], record[1]) for record in contents(system, name))
        assert written == sorted((record[0], record[1]) for record in expected[name]), name


@pytest.mark.parametrize("engine", ["local", pytest.param("spark", marks=pytest.mark.spark)])
def test_what_an_earlier_version_has_kept_is_gone_on_with(engine: EngineName, tmp_path: Path) -> None:
    goes_on(ARCHIVES / f"{engine}.tar.xz", engine, tmp_path)
