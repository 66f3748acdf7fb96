"""The mirror, both ways: each test file in it stands for a file of code, and each file of code has a test file.

A file of code has a test file of its name, `tests/planner/test_stages.py` for `planner/stages.py`, or a row in
`BEHAVIOUR_TESTS` with the files that test the behaviour that it has a part in.
"""

from collections.abc import Iterable
from pathlib import Path

import pytest

from behaviour_tests import BEHAVIOUR_TESTS
from mirror import PACKAGES, Rows, code_of, problems, reached, unreached

ROOT = Path(__file__).parents[1]
CONTRACT = "class Store:\n    def read(self) -> bytes: ...\n"
LOGIC = "def double(number):\n    return 2 * number\n"


def without_code(root: Path, mirror: str) -> Iterable[str]:
    """The test files of a mirror that name no file of code, as paths from the root."""
    for path in sorted((root / "tests" / mirror).rglob("test_*.py")):
        test = path.relative_to(root).as_posix()
        if not (root / code_of(test)).is_file():
            yield test


@pytest.mark.parametrize("mirror", PACKAGES)
def test_a_test_file_in_a_mirror_names_a_file_of_code(mirror: str) -> None:
    """What shows a behaviour of several files belongs to the folder of that behaviour: docs/contributing lists them."""
    assert list(without_code(ROOT, mirror)) == []


def test_each_file_of_code_has_a_test_file_or_a_row() -> None:
    assert list(problems(ROOT, BEHAVIOUR_TESTS)) == []


@pytest.mark.slow
def test_a_test_file_in_a_row_imports_the_file_of_code() -> None:
    assert list(unreached(ROOT, BEHAVIOUR_TESTS)) == []


def files(root: Path, **texts: str) -> Path:
    """A repository; `__` stands for `/`, and each file ends in `.py`."""
    for name, text in texts.items():
        path = root / (name.replace("__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_a_test_file_that_names_no_file_of_code_is_seen(tmp_path: Path) -> None:
    root = files(tmp_path, runtime__task="", tests__runtime__test_task="", tests__runtime__test_stalls="")
    assert list(without_code(root, "runtime")) == ["tests/runtime/test_stalls.py"]


def test_a_new_file_with_logic_needs_a_test_and_others_do_not(tmp_path: Path) -> None:
    root = files(tmp_path, dsl__new=LOGIC, dsl__contract=CONTRACT, dsl__table="ROWS = {}", dsl__old=LOGIC)
    files(root, tests__dsl__test_old="")
    (problem,) = problems(root, {})
    assert problem.startswith("dsl/new.py has no test: write tests/dsl/test_new.py, or name the tests")


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"dsl/old.py": ("tests/test_one.py",)}, "dsl/old.py has a row, and a test file of its own"),
        ({"dsl/gone.py": ("tests/test_one.py",)}, "dsl/gone.py has a row, and is no file with logic"),
        ({"dsl/contract.py": ("tests/test_one.py",)}, "dsl/contract.py has a row, and is no file with logic"),
        ({"dsl/new.py": ("tests/test_two.py",)}, "dsl/new.py has a row with tests/test_two.py, which does not exist"),
    ],
)
def test_a_row_that_is_not_true_is_seen(tmp_path: Path, row: Rows, problem: str) -> None:
    root = files(tmp_path, dsl__new=LOGIC, dsl__contract=CONTRACT, dsl__old=LOGIC)
    files(root, tests__dsl__test_old="", tests__test_one="")
    assert list(problems(root, {"dsl/new.py": ("tests/test_one.py",), **row})) == [problem]


def test_a_row_with_a_test_that_never_reaches_the_code_is_seen(tmp_path: Path) -> None:
    root = files(
        tmp_path, dsl__new=LOGIC, dsl__old="from .new import double", tests__support__shared="import fluvial.dsl.old"
    )
    files(root, tests__test_one="from shared import double", tests__test_two="import fluvial.dsl")
    rows = {"dsl/new.py": ("tests/test_one.py", "tests/test_two.py")}
    assert list(unreached(root, rows)) == ["dsl/new.py has a row with tests/test_two.py, which never reaches it"]


@pytest.mark.parametrize(
    "importing",
    [
        "from fluvial.dsl.new import double",
        "from fluvial.dsl import new",
        "def later():\n    import fluvial.dsl.new",
        "from fluvial.planner import double",
        "import_module('fluvial.dsl.new')",
        "import_module(f'fluvial.{package}.new')",
    ],
)
def test_each_way_to_import_is_followed(tmp_path: Path, importing: str) -> None:
    root = files(tmp_path, dsl__new=LOGIC, tests__test_one=importing)
    (root / "planner").mkdir()
    (root / "planner" / "__init__.py").write_text("HOMES = {'double': '..dsl.new'}")
    assert "dsl/new.py" in reached(root, "tests/test_one.py")


def test_every_folder_of_tests_is_listed_for_contributors() -> None:
    text = (ROOT / "docs/contributing/tests.md").read_text()
    folders = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and any(path.rglob("*.py"))}
    assert {name for name in folders if f"`tests/{name}`" not in text} == set()
