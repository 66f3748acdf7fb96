"""Shows links to source files as code: the site holds the pages alone, and the files are in the repository."""

import re
from typing import Any

_TO_SOURCE = re.compile(r"\[(`[^`\]]+`)\]\(\.\./[^)]*\)")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Give a page without its links to files outside `docs`."""
    return without_source_links(markdown)


def without_source_links(markdown: str) -> str:
    """Replace each link to a file outside `docs` by its text.

    >>> without_source_links("see [`plan`](../planner/planner.py) and [concepts](concepts.md)")
    'see `plan` and [concepts](concepts.md)'
    """
    return _TO_SOURCE.sub(r"\1", markdown)
