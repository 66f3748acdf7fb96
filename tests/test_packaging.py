"""What is shipped is what is there."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
SHIPPED = ("dsl", "planner", "runtime")


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    """The settings of the project."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def folders_with_code() -> set[str]:
    """The name that each folder with Python files must have as a package."""
    files = [file for top in SHIPPED for file in (ROOT / top).rglob("*.py")]
    return {".".join(("fluvial", *file.parent.relative_to(ROOT).parts)) for file in files}


def test_every_folder_with_code_is_listed_as_a_package(project: dict[str, Any]) -> None:
    assert set(project["tool"]["setuptools"]["packages"]) == folders_with_code()


def test_every_package_has_an_init() -> None:
    missing = [name for name in folders_with_code() if not folder_of(name).joinpath("__init__.py").exists()]
    assert missing == []


@pytest.mark.parametrize("top", SHIPPED)
def test_every_top_package_says_that_it_is_typed(top: str) -> None:
    assert (ROOT / top / "py.typed").exists()


def test_every_kind_of_file_beside_the_code_is_package_data(project: dict[str, Any]) -> None:
    shipped = project["tool"]["setuptools"]["package-data"]["*"]
    beside = [file for top in SHIPPED for file in (ROOT / top).rglob("*") if file.is_file() and file.suffix != ".py"]
    left_out = [file for file in beside if file.suffix != ".pyc" and not any(map(file.match, shipped))]
    assert left_out == []


def test_every_dependency_is_pinned(project: dict[str, Any]) -> None:
    pinned = {line.partition("==")[0].lower() for line in (ROOT / "constraints.txt").read_text().split()}
    extras = project["project"]["optional-dependencies"]
    outside = [requirement for name, extra in extras.items() if name != "all" for requirement in extra]
    declared = [*project["project"]["dependencies"], *outside]
    assert {bare(requirement) for requirement in declared} <= pinned


def test_the_versions_of_python_that_are_claimed_are_those_that_ci_runs(project: dict[str, Any]) -> None:
    claimed = re.findall(r"Python :: (3\.\d+)", " ".join(project["project"]["classifiers"]))
    run = re.findall(r'python-version: "(.+)"', (ROOT / ".github" / "workflows" / "ci.yml").read_text())
    assert claimed == run
    for page in ("README.md", "CONTRIBUTING.md"):
        assert set(re.findall(r"Python (3\.\d+)", (ROOT / page).read_text())) == set(claimed), page


def folder_of(package: str) -> Path:
    """The folder of a package."""
    return ROOT.joinpath(*package.split(".")[1:])


def bare(requirement: str) -> str:
    """The name in a requirement."""
    return requirement.partition(">")[0].partition("[")[0].strip().lower()
