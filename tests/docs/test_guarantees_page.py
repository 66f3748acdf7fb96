"""Every promise of what survives a failure has a test that makes that failure."""

import ast
import re
from collections.abc import Iterator
from functools import cache

import pytest

from tests.docs.pages import ROOT

DOCS = ROOT / "docs"
PAGE = (DOCS / "guide/guarantees.md").read_text(encoding="utf-8")

PROMISING = (
    ("concepts.md", "Guarantees", 0),
    ("guide/kafka.md", "What survives which failure", 0),
    ("guide/kafka.md", "When brokers are away", 0),
    ("guide/containers.md", "When one dies", 0),
    ("guide/containers.md", "One process for each container", 0),
    ("guide/containers.md", "On a Spark cluster", 0),
    ("guide/local.md", "Running on the local engine", 1),
    ("guide/local.md", "When the disk fails", 0),
)
"""Sections whose first table promises something in each row, with the number of the cell that says what happens."""


def table(text: str) -> list[list[str]]:
    """The cells of the rows of the first table, without its head."""
    lines = re.search(r"(?:^\|.*\n)+", text, re.MULTILINE)
    assert lines
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[0].splitlines()[2:]]


def section(text: str, title: str) -> str:
    """What stands below a heading, up to the next one."""
    return re.split(r"^#+ ", text.partition(f"# {title}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]


def sections() -> Iterator[tuple[str, str]]:
    """The sections of the page: the file that each leads to, and its text."""
    for part in PAGE.split("\n## ")[1:]:
        target = re.search(r"Promised in \[[^]]*\]\(([^)#]+)", part)
        assert target
        yield target[1], part


def promises() -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """The file in which each promise stands, its words, and its tests."""
    for target, part in sections():
        for words, tests in table(part):
            yield target, words, tuple(re.findall(r"`([^`]+)`", tests))


@cache
def functions_of(file: str) -> frozenset[str]:
    """The names of the functions of a file."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


@pytest.mark.parametrize(("target", "words", "tests"), list(promises()))
def test_a_promise_stands_on_its_page_and_has_tests(target: str, words: str, tests: tuple[str, ...]) -> None:
    assert words in (DOCS / "guide" / target).resolve().read_text(encoding="utf-8"), f"docs/guide/{target} changed"
    assert tests, f"name a test that makes this failure happen: {words}"
    for test in tests:
        file, name = test.split("::")
        assert name in functions_of(file), f"{file} has no test {name!r}, which proves {words!r}"


@pytest.mark.parametrize(("page", "title", "cell"), PROMISING)
def test_each_row_that_promises_something_is_on_the_page(page: str, title: str, cell: int) -> None:
    proved = {words for _, words, _ in promises()}
    rows = table(section((DOCS / page).read_text(encoding="utf-8"), title))
    assert [row[cell] for row in rows if row[cell] not in proved] == [], "docs/guide/guarantees.md lacks these"
