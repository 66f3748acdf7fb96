"""The blocks of code of the pages that people read."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")))

# A page may say in a comment above a block why it cannot run in a test.
_BLOCK = re.compile(
    r'^(?:<!-- not run: (?P<why>[^\n]+) -->\n+)?```(?P<language>\w*)(?: title="(?P<file>[^"]+)")?\n(?P<code>.*?)^```$',
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Block:
    """A block of a page. `file` is the name that its title gives it, `why` the reason for which it is not run."""

    line: int
    language: str
    code: str
    file: str | None
    why: str | None


def blocks(page: Path) -> list[Block]:
    """All blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(
            text.count("\n", 0, found.start("code")) + 1, found["language"], found["code"], found["file"], found["why"]
        )
        for found in _BLOCK.finditer(text)
    ]
