"""The page on settings has each setting, and names none that there is not."""

import re
from pathlib import Path

import pytest

from fluvial.planner.settings import setting_types

PAGE = (Path(__file__).parents[2] / "docs/guide/settings.md").read_text()
FIRST, SAMZA = PAGE.split("## For users of Apache Samza")


def rows(part: str, cell: int) -> str:
    """A column of the tables of a part."""
    return "\n".join(line.split("|")[cell] for line in part.splitlines() if line.startswith("|"))


@pytest.mark.parametrize("setting", setting_types())
def test_each_setting_has_a_row(setting: str) -> None:
    assert f"`{setting}`" in rows(FIRST, 1)


def test_what_stands_for_settings_of_samza_is_there() -> None:
    named = set(re.findall(r"`([a-z]+(?:_[a-z]+)+)`", rows(SAMZA, 2)))
    assert named - {"async_flat_map", "in_threads", "on_error"} <= setting_types().keys()  # the others are arguments
    assert {"async_commit", "turn_messages", "commit_interval"} <= named
