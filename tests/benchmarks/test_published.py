"""The figures in the text of the documentation are those of the files of results."""

import json
import re
from typing import Any

import pytest

from benchmarks.results import LATEST
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs/guide/performance.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")


def kept(name: str) -> dict[str, Any]:
    """The results of a kind of run."""
    found: dict[str, Any] = json.loads((LATEST.parent / f"{name}.json").read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("name", ["latest", "large_state", "large_state_on_spark", "soak"])
def test_figures_stand_beside_their_date_and_commit(name: str) -> None:
    found = kept(name)
    assert f"easured on {found['date']} at commit `{found['commit']}`" in PAGE


def test_the_readme_names_date_and_commit_of_its_figures() -> None:
    found = kept("latest")
    assert re.findall(r"Measured on (\S+) at commit `(\w+)`", README) == [(found["date"], found["commit"])]


def test_the_text_tells_of_the_soak_what_its_samples_say() -> None:
    found = kept("soak")
    steady = [sample for sample in found["samples"] if sample["seconds"] >= found["warm_seconds"]]
    (rss, threads, files) = (sorted(sample[name] for sample in steady) for name in ("rss_mb", "threads", "files"))
    assert f"At {found['rate']:,} messages/s memory stayed at {rss[0]:.0f} to {rss[-1]:.0f} MB" in PAGE
    assert f"with {threads[0]} or {threads[-1]} threads and {files[0]} to {files[-1]} files" in PAGE
    assert f"the last minute that was written lay {found['behind_seconds']:.0f} s back" in PAGE


@pytest.mark.parametrize("run", kept("large_state")["runs"], ids=lambda run: str(run["kind"]))
def test_the_table_of_large_state_says_what_was_measured(run: dict[str, Any]) -> None:
    build, finish = run["build"], run["finish"]
    row = re.search(rf"^\| {run['kind']}.*$", PAGE, re.MULTILINE)
    assert row
    assert [cell.strip() for cell in row[0].split("|")[2:-1]] == [
        f"in {build['seconds']:.0f} s",
        f"{build['peak_rss_mb']:,} MB",
        f"{finish['restored']:,} records in {finish['restore_seconds']:.0f} s",
        f"{round(finish['restored_per_second'], -3):,} records/s",
        f"in another {finish['seconds'] - finish['restore_seconds']:.0f} s",
        f"{finish['peak_rss_mb']:,} MB",
    ]


@pytest.mark.parametrize(("name", "row"), [("fill", "filled, "), ("touch", "one key in "), ("end", "to the end of ")])
def test_the_table_of_large_state_on_spark_says_what_was_measured(name: str, row: str) -> None:
    part = kept("large_state_on_spark")[name]
    cells = re.search(rf"^\| {row}[^|]*\|(.*)\|$", PAGE, re.MULTILINE)
    assert cells
    messages, written, seconds, memory = (cell.strip() for cell in cells[1].split("|"))
    runs = part["batches"] if name == "touch" else 1
    if name != "end":
        assert messages == f"{part['messages_per_batch']:,}"
        assert written == f"{part['megabytes_per_batch']} MB"
    assert seconds.startswith(f"{part['seconds'] / runs:.0f} s")
    assert memory == f"{part['peak_rss_mb']:,} MB"
