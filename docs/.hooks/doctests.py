"""Shows the examples of docstrings as code: without a fence around it, a line of `>>>` is prose to Markdown."""

from itertools import groupby
from typing import Any

from griffe import Extension, Object


class Doctests(Extension):
    """Puts a fence around each run of lines that starts with `>>>` and ends with an empty line."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Change the docstring of an object after it is loaded."""
        if obj.docstring is not None and ">>> " in obj.docstring.value:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """Give `text` with a fence around each example."""
    paragraphs = [
        "\n".join(lines) for full, lines in groupby(text.splitlines(), key=lambda line: bool(line.strip())) if full
    ]
    return "\n\n".join(f"```pycon\n{part}\n```" if part.startswith(">>> ") else part for part in paragraphs)
