"""All scenes by the name of their picture. To add one: a function that returns a picture, in a file beside this one,
and its name in that file's `SCENES`."""

from collections.abc import Callable, Mapping
from pathlib import Path

from docs.pictures import calls, duplicates, joins, processors, routes, tables, values, windows

FOLDER = Path(__file__).parents[1] / "images" / "operators"

SCENES: Mapping[str, Callable[[], str]] = {
    **values.SCENES,
    **calls.SCENES,
    **routes.SCENES,
    **windows.SCENES,
    **joins.SCENES,
    **duplicates.SCENES,
    **tables.SCENES,
    **processors.SCENES,
}


def drawn() -> dict[str, str]:
    """Each picture by the name of its file."""
    return {f"{name}.svg": draw() for name, draw in SCENES.items()}
