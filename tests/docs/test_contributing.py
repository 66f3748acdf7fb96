"""The pages for contributors: short, with paths that exist, and each package of the runtime in the table."""

import re
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

PAGE = ROOT / "CONTRIBUTING.md"
FURTHER = tuple(sorted((ROOT / "docs/contributing").glob("*.md")))
MADE = (".kafka", ".links")
"""What `make` makes, and a clone does not have."""


def named(page: Path) -> set[str]:
    """What looks like the path of a file or a folder, but for what `make` makes."""
    found = re.findall(r"`([\w.]+(?:/[\w.]*)+)`", page.read_text(encoding="utf-8"))
    return {path for path in found if not path.startswith(MADE)}


@pytest.mark.parametrize("page", [PAGE, *FURTHER], ids=lambda page: page.stem)
def test_the_paths_of_a_page_exist(page: Path) -> None:
    assert [path for path in sorted(named(page)) if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("package", sorted(file.parent.name for file in (ROOT / "runtime").glob("*/__init__.py")))
def test_each_package_of_the_runtime_is_in_the_table(package: str) -> None:
    assert f"`runtime/{package}/`" in (ROOT / "docs/contributing/layout.md").read_text(encoding="utf-8")


def test_contributing_is_one_page_that_leads_to_the_others() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 60
    assert [page.name for page in FURTHER if f"](docs/contributing/{page.name})" not in text] == []
