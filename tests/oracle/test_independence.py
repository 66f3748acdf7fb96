"""The oracle shares nothing with what it judges but what a user says: `oracle` tells the rule."""

import ast
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

import oracle

FILES = sorted(Path(oracle.__path__[0]).rglob("*.py"))
JUDGED = ("fluvial.planner", "fluvial.runtime", "fluvial.dsl.serde", "fluvial.dsl.annotations", "fluvial.dsl.finite")
"""Packages and modules whose work the oracle does on its own."""
JUDGED_WORDS = ("FLOAT64", "INT64", "msgpack")
"""What `fluvial.dsl` shows of them; `Serde` is a record that a pipeline holds."""


def imports(source: str) -> Iterator[str]:
    """The full names that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "the oracle's imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def judged(source: str) -> set[str]:
    """What a file imports of what the oracle judges."""
    words = {f"fluvial.dsl.{word}" for word in JUDGED_WORDS}
    inside = tuple(f"{module}." for module in JUDGED)
    return {name for name in imports(source) if name in words or f"{name}.".startswith(inside)}


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(oracle.__path__[0])))
def test_a_file_of_the_oracle_imports_nothing_that_it_judges(file: Path) -> None:
    assert judged(file.read_text()) == set()


@pytest.mark.parametrize(
    "line",
    [
        "import fluvial.planner",
        "from fluvial import runtime",
        "def f():\n    from fluvial.planner.plan import Plan",
        "from fluvial.dsl import serde",
        "from fluvial.dsl.serde import value_serde",
        "from fluvial.dsl import INT64",
    ],
)
def test_an_import_of_what_is_judged_is_seen(line: str) -> None:
    assert judged(line)


@pytest.mark.parametrize("name", JUDGED)
def test_what_is_judged_is_there(name: str) -> None:
    assert find_spec(name), f"{name} is gone: name what took its place"
