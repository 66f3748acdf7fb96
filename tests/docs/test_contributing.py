"""The page for contributors: the files and folders that it names are there, and each package is in its table."""

import re

import pytest

from tests.docs.pages import ROOT

TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`([\w.]+(?:/[\w.]*)+)`", TEXT)))
"""What looks like the path of a file or a folder."""
MADE = (".kafka", ".links")
"""What `make` makes, and a clone does not have."""


@pytest.mark.parametrize("path", [path for path in NAMED if not path.startswith(MADE)])
def test_a_path_exists(path: str) -> None:
    assert (ROOT / path).exists()


@pytest.mark.parametrize("package", sorted(file.parent.name for file in (ROOT / "runtime").glob("*/__init__.py")))
def test_each_package_of_the_runtime_is_in_the_table(package: str) -> None:
    assert f"`runtime/{package}/`" in TEXT
