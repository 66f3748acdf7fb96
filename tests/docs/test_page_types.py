"""Pages: mypy finds nothing in their blocks of Python, in strict mode, as in a reader's files."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import users_mypy
from tests.docs.pages import PAGES, ROOT, Block, blocks

AS_A_PAGE = "# mypy: disable-error-code=no-redef, implicit-reexport"
"""Said in each file of a page, so that all else is checked as users check it, with what the cache has of that."""

STUB = """
from google.protobuf.message import Message

class Click(Message):
    user: str
    at: int

class Total(Message):
    user: str
    clicks: int
    def __init__(self, *, user: str = ..., clicks: int = ...) -> None: ...
"""
"""What protoc would make of the file that the page on serdes names."""


def python_blocks(page: Path) -> list[Block]:
    return [block for block in blocks(page) if block.language == "python"]


def at_their_lines(page: Path) -> list[str]:
    """The code of a page's blocks, each line at the line that it has in the page."""
    lines: list[str] = []
    for block in python_blocks(page):
        lines += [""] * (block.line - 1 - len(lines)) + block.code.splitlines()
    return lines


def bound(tree: ast.Module) -> Iterator[str]:
    """The names that statements at the top of a module bind."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((alias.asname or alias.name).partition(".")[0] for alias in node.names)
        elif not isinstance(node, ast.Expr):
            yield from (
                one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)
            )


def typed(page: Path, first: Block) -> str:
    """A page as one module. What it takes over from the first page is imported from there."""
    lines = at_their_lines(page)
    tree = ast.parse("\n".join(lines))
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    taken = sorted(used & set(bound(ast.parse(first.code))) - set(bound(tree)))
    if taken:
        lines[0] = f"from visits import {', '.join(taken)}"
    return "\n".join([*lines, AS_A_PAGE, ""])


@pytest.fixture
def modules(tmp_path: Path) -> Path:
    """A folder with a module for each page that has code, and with the files that pages show."""
    shown = [block for page in PAGES for block in python_blocks(page) if block.file is not None]
    for block in shown:
        (tmp_path / str(block.file)).write_text(f"{block.code}\n{AS_A_PAGE}\n")
    (tmp_path / "click_pb2.pyi").write_text(STUB)
    (first,) = (block for block in shown if block.file == "visits.py")
    for page in PAGES:
        if python_blocks(page):
            name = re.sub(r"\W", "_", page.relative_to(ROOT).with_suffix("").as_posix())
            (tmp_path / f"page_{name}.py").write_text(typed(page, first))
    return tmp_path


@pytest.mark.slow
def test_the_blocks_of_all_pages_are_typed(modules: Path) -> None:
    """The numbers of lines are those of the pages. A page may define a name again, for its blocks follow each other."""
    assert len(list(modules.glob("page_*.py"))) > 30
    command = users_mypy.command(sys.executable, ".")
    done = subprocess.run(command, cwd=modules, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
