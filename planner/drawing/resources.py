"""Resources: the style sheets, the script and the page that lie beside this code."""

from functools import cache
from pathlib import Path


@cache
def resource(name: str) -> str:
    """The text of a file of this package."""
    return Path(__file__).with_name(name).read_text("utf-8")
