"""A file, a function and a class are no larger than a reader takes in at once."""

import ast
from collections.abc import Iterable
from pathlib import Path

import pytest

from mirror import PACKAGES

ROOT = Path(__file__).parents[1]
MOST_LINES = 400
MOST_IN_BODY = 45
"""Lines of a function, without those of its arguments and its docstring."""
MOST_METHODS = 12
"""Public methods of a class, without properties: whoever gets the object has to know of each."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def body_lines(function: Function) -> int:
    """The lines of a function behind its docstring."""
    first, *rest = function.body
    documents = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    body = rest if documents else function.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def public_methods(owner: ast.ClassDef) -> set[str]:
    """What can be called of an object, by name: overloads count once, and properties not at all."""
    return {
        one.name
        for one in owner.body
        if isinstance(one, Function)
        and not one.name.startswith("_")
        and not any("property" in ast.dump(decorator) for decorator in one.decorator_list)
    }


def too_large(code: str) -> Iterable[str]:
    """What of a file is larger than it may be."""
    if (lines := len(code.splitlines())) > MOST_LINES:
        yield f"{lines} lines: what of it is of another kind?"
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, Function) and (lines := body_lines(node)) > MOST_IN_BODY:
            yield f"{node.name} has {lines} lines: which of them have a name of their own?"
        if isinstance(node, ast.ClassDef) and (methods := len(public_methods(node))) > MOST_METHODS:
            yield f"{node.name} has {methods} public methods: who calls which of them?"


def test_nothing_is_too_large() -> None:
    files = sorted(file for package in PACKAGES for file in (ROOT / package).rglob("*.py"))
    found = {file: [*too_large(file.read_text())] for file in files}
    assert [f"{file.relative_to(ROOT)}: {one}" for file, all_of in found.items() for one in all_of] == []
    assert files


BODY = '    """What it does."""\n' + "    pass\n"


@pytest.mark.parametrize(
    ("code", "parts"),
    [
        ("\n" * MOST_LINES, []),
        ("\n" * MOST_LINES + "one = 1\n", ["401 lines"]),
        ("def one():\n" + BODY + "    pass\n" * (MOST_IN_BODY - 1), []),
        ("async def one():\n" + BODY + "    pass\n" * MOST_IN_BODY, ["one has 46 lines"]),
        ("class One:\n" + "".join(f"    def a{n}(self): ...\n" for n in range(MOST_METHODS)), []),
        (
            "class One:\n" + "".join(f"    def a{n}(self): ...\n" for n in range(MOST_METHODS + 1)),
            ["One has 13 public"],
        ),
        ("class One:\n" + "".join(f"    @property\n    def a{n}(self): ...\n" for n in range(MOST_METHODS + 1)), []),
    ],
)
def test_what_is_too_large_is_seen(code: str, parts: list[str]) -> None:
    found = [*too_large(code)]
    assert len(found) == len(parts)
    assert all(text.startswith(part) for text, part in zip(found, parts, strict=True))
