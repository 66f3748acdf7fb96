"""Decisions have one form, and their index lists them."""

import re
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

FOLDER = ROOT / "docs" / "decisions"
PAGES = sorted(FOLDER.glob("0*.md"))
HEAD = re.compile(r"# (\d{4}): (.+)\n\n- Status: ((?:accepted|replaced).*)\n- Date: (\d{4}-\d\d-\d\d)\n\n")
SECTIONS = ["At stake", "Decision", "Alternatives", "What follows"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_decision_has_status_date_and_alternatives(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert HEAD.match(text)
    assert re.findall(r"^## (.+)$", text, re.MULTILINE)[: len(SECTIONS)] == SECTIONS


def test_the_index_lists_each_decision_as_its_page_says() -> None:
    rows = []
    for page in PAGES:
        head = HEAD.match(page.read_text(encoding="utf-8"))
        assert head is not None
        number, title, status, date = head.groups()
        rows.append(f"| [{number}]({page.name}) | {title} | {date} | {status} |")
    index = (FOLDER / "index.md").read_text(encoding="utf-8").splitlines()
    assert [line for line in index if line.startswith("| [")] == rows
