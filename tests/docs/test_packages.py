"""Docstrings of packages: what comes in, what goes out, which file to read first. No docstring is without words."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

LAYERS = ("dsl", "planner", "runtime")
PACKAGES = sorted(file for layer in LAYERS for file in (ROOT / layer).rglob("__init__.py"))


def without_words(source: str) -> Iterator[int]:
    """The lines at which docstrings begin that contain no word of three letters."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text is not None and not re.search("[A-Za-z]{3}", text):
                yield node.body[0].lineno


@pytest.mark.parametrize("package", PACKAGES, ids=lambda file: file.parent.relative_to(ROOT).as_posix())
def test_a_package_says_what_comes_in_what_goes_out_and_what_to_read_first(package: Path) -> None:
    text = " ".join((ast.get_docstring(ast.parse(package.read_text(encoding="utf-8"))) or "").split())
    assert "Comes in: " in text
    assert "Goes out: " in text
    first = re.search(r"Read `(\w+)` first", text)
    assert first is not None
    assert (package.parent / f"{first[1]}.py").exists() or (package.parent / first[1] / "__init__.py").exists()


@pytest.mark.slow
@pytest.mark.parametrize("layer", LAYERS)
def test_every_docstring_has_words(layer: str) -> None:
    silent = [
        f"{file.relative_to(ROOT)}:{line}"
        for file in sorted((ROOT / layer).rglob("*.py"))
        for line in without_words(file.read_text(encoding="utf-8"))
    ]
    assert silent == []


def test_a_docstring_without_words_is_seen() -> None:
    assert list(without_words('"""."""\ndef f() -> None:\n    """Adds up."""\n')) == [1]
