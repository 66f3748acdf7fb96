"""Resources: the style sheets, the script and the page that lie beside this code."""

from functools import cache
from importlib.resources import files


@cache
def resource(name: str) -> str:
    """The text of a file of this package."""
    return files(__name__.rpartition(".")[0]).joinpath(name).read_text("utf-8")
