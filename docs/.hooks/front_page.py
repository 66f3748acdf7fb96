"""Puts the first screen of the README on the front page of the documentation: one text for both."""

from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError

MARK = "<!-- the first screen of the README -->"


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """Replace the mark of the front page."""
    if page.file.src_uri != "index.md":
        return markdown
    if MARK not in markdown:
        raise PluginError(f"docs/index.md lacks the line {MARK}")
    readme = Path(config.config_file_path).parent / "README.md"
    return markdown.replace(MARK, first_screen(readme.read_text(encoding="utf-8")))


def first_screen(readme: str) -> str:
    """Give what comes before the first section, with links as they are inside `docs`."""
    return readme.partition("\n## ")[0].replace("](docs/", "](")
