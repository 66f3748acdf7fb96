"""Pages: their blocks of Python and their commands run, one after the other, in a folder of their own."""

import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import msgspec
import pytest

from engines.command_line import forget_modules_of
from examples import traffic
from fluvial.planner import draw, plan
from fluvial.runtime.cli.app import main
from fluvial.runtime.pipeline_loader import load_pipeline
from generators.shop import classes, message, proto
from golden import assert_golden
from tests.docs.pages import PAGES, ROOT, Block, blocks

FIRST = ROOT / "docs" / "guide" / "first-pipeline.md"
DAY = 1_700_000_000_000
INPUTS: dict[str, list[dict[str, Any]]] = {
    "orders": [{"id": f"o{number}", "customer": f"c{number}", "cents": 300, "at": DAY + number} for number in (1, 2)],
    "payments": [{"order": "o1", "cents": 300, "at": DAY + 60_000}],
    "customers": [{"id": "c1", "name": "Ann", "town": "Rome"}],
    "readings": [{"device": "d1", "celsius": celsius, "at": DAY} for celsius in (20.0, -300.0)],
}
"""What the pages feed to the examples."""
TOTAL = {"user": "string", "clicks": "int64"}
TESTING = ROOT / "docs" / "guide" / "testing.md"


def named(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The current folder of a reader: the examples and their inputs, an access log, and the files that pages show."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    shutil.copy(ROOT / "README.md", tmp_path)
    (tmp_path / "access.log").write_text("\n".join(traffic.lines(20)) + "\n")
    for name, rows in INPUTS.items():
        (tmp_path / f"{name}.jsonl").write_bytes(msgspec.json.Encoder().encode_lines(rows))
    click = proto("click.proto", message("Click", user="string", at="int64"), message("Total", **TOTAL))
    messages = classes(click, apart=True)
    generated = SimpleNamespace(Click=messages["shop.Click"], Total=messages["shop.Total"])
    monkeypatch.setitem(sys.modules, "click_pb2", generated)
    for block in (block for page in PAGES for block in blocks(page)):
        if block.file is not None:
            (tmp_path / block.file).write_text(block.code)
    yield
    forget_modules_of(tmp_path)


def run_python(block: Block, names: dict[str, Any]) -> None:
    """Run a block, and the tests that it defines."""
    before = set(names)
    exec(compile(block.code, f"line {block.line}", "exec"), names)
    for name in names.keys() - before:
        if name.startswith("test_"):
            names[name]()


def run_commands(block: Block, _: dict[str, Any]) -> None:
    """Run the commands of a block, which are all ours; variables before a command are those of its environment."""
    for line in block.code.splitlines():
        words = shlex.split(line, comments=True)
        at = words.index("fluvial")
        variables = dict(word.split("=", 1) for word in words[:at])
        with patch.dict(os.environ, variables):
            assert main(words[at + 1 :]) == 0, line
    sys.stdout.flush()


RUNNERS = {"python": run_python, "sh": run_commands}


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("page", PAGES, ids=named)
def test_a_page_holds(page: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A block of text is what the block before it prints."""
    names: dict[str, Any] = {"__name__": "page"}
    if page != FIRST:  # other pages go on from the first one
        run_python(next(block for block in blocks(FIRST) if block.file == "visits.py"), names)
        main(["produce", "clicks", "clicks.jsonl", "--quiet"])
    printed = ""
    for block in blocks(page):
        if block.why is not None:
            continue
        if block.language == "text" and block.file is None:
            assert printed == block.code, f"{named(page)}:{block.line}"
        elif block.language in RUNNERS:
            capfd.readouterr()
            RUNNERS[block.language](block, names)
            printed = capfd.readouterr().out


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_block_of_a_page_is_seen(page: Path) -> None:
    assert 2 * len(blocks(page)) == sum(line.startswith("```") for line in page.read_text().splitlines())


@pytest.mark.usefixtures("folder")
def test_the_drawing_is_that_of_the_first_pipeline() -> None:
    assert main(["draw", "visits.py", "-o", "visits.svg"]) == 0
    assert_golden(Path("visits.svg").read_text(), ROOT / "docs" / "images" / "visits.svg")


@pytest.mark.usefixtures("folder")
def test_the_drawing_of_a_run_is_that_of_its_page() -> None:
    names: dict[str, Any] = {"__name__": "page"}
    run_python(next(block for block in blocks(FIRST) if block.file == "visits.py"), names)
    run_python(next(block for block in blocks(TESTING) if "draw_run" in block.code), names)
    assert_golden(Path("visits-run.svg").read_text(), ROOT / "docs" / "images" / "visits-run.svg")


def test_the_drawing_of_the_readme_is_that_of_the_visitor_sessions() -> None:
    made = plan(load_pipeline(str(ROOT / "examples" / "visitor_sessions.py")))
    assert_golden(draw(made, "svg"), ROOT / "docs" / "images" / "visitor-sessions.svg")
