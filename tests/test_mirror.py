"""Test files in the mirrors stand for files of code: `tests/planner/test_stages.py` for `planner/stages.py`."""

from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MIRRORS = ("dsl", "planner", "runtime")


def without_code(root: Path, mirror: str) -> Iterable[str]:
    """The test files of a mirror that name no file of code, as paths from the root."""
    for test in sorted((root / "tests" / mirror).rglob("test_*.py")):
        code = test.relative_to(root / "tests").with_name(test.name.removeprefix("test_"))
        if not (root / code).is_file():
            yield str(test.relative_to(root))


@pytest.mark.parametrize("mirror", MIRRORS)
def test_a_test_file_in_a_mirror_names_a_file_of_code(mirror: str) -> None:
    """What shows a behaviour of several files belongs to its folder: docs/contributing/tests.md lists them."""
    assert list(without_code(ROOT, mirror)) == []


def test_a_test_file_that_names_none_is_seen(tmp_path: Path) -> None:
    for place in ("runtime/local/task.py", "tests/runtime/local/test_task.py", "tests/runtime/local/test_stalls.py"):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).touch()
    assert list(without_code(tmp_path, "runtime")) == ["tests/runtime/local/test_stalls.py"]


def test_every_folder_of_tests_is_listed_for_contributors() -> None:
    text = (ROOT / "docs/contributing/tests.md").read_text()
    folders = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and any(path.rglob("*.py"))}
    assert {name for name in folders if f"`tests/{name}`" not in text} == set()
