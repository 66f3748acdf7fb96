"""The page of the architecture: its picture, its links and the names in them are those of the code."""

import re
from pathlib import Path

import pytest

from docs.pictures import architecture
from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "architecture.md"
LINKS = sorted(set(re.findall(r"\[`([^`]+)`\]\(\.\./([^)]+)\)", PAGE.read_text(encoding="utf-8"))))


def names_of(target: Path) -> set[str]:
    """What a link to a file may be called: the file or its folder, and what it defines."""
    names = {target.stem, target.name, target.parent.name}
    names |= {folder.relative_to(ROOT).as_posix() for folder in (target, target.parent)}
    if target.is_file():
        names |= set(re.findall(r"^(?:def |class |)(\w+)", target.read_text(encoding="utf-8"), re.MULTILINE))
    return names


def test_the_picture_is_what_the_code_draws() -> None:
    """After a wanted change: make pictures"""
    assert architecture.FILE.read_text(encoding="utf-8") == architecture.drawn()


@pytest.mark.parametrize(("text", "target"), LINKS)
def test_a_link_leads_to_what_it_names(text: str, target: str) -> None:
    assert (ROOT / target).exists(), f"docs/architecture.md: {target} is not there"
    assert text in names_of(ROOT / target), f"docs/architecture.md: {target} has no {text}"


@pytest.mark.parametrize("package", sorted(architecture.packages()))
def test_a_package_of_the_picture_exists(package: str) -> None:
    assert (ROOT / package / "__init__.py").exists()


@pytest.mark.parametrize(
    "package", sorted(file.parent.relative_to(ROOT).as_posix() for file in (ROOT / "runtime").glob("*/__init__.py"))
)
def test_each_package_of_the_runtime_has_a_place(package: str) -> None:
    linked = {Path(target).parent.as_posix() for _, target in LINKS}
    assert package in architecture.packages() or any(one.startswith(package) for one in linked)


def test_the_page_is_found() -> None:
    for page in ("CONTRIBUTING.md", "docs/index.md", "mkdocs.yml"):
        assert "architecture.md" in (ROOT / page).read_text(encoding="utf-8"), page
