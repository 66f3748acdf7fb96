"""One name, one meaning: a public class or alias of a module has a name that no other module defines."""

import ast
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("dsl", "planner", "runtime")
VARIABLES = {"TypeVar", "ParamSpec", "TypeVarTuple"}
"""A variable means nothing outside the signatures of its own module, so many modules have a `T`."""
TWICE: Mapping[str, str] = {}
"""The names that two modules may define, each with its reason."""


def _is_variable(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Call) and ast.unparse(value.func).rpartition(".")[2] in VARIABLES


def defined(code: str) -> Iterable[str]:
    """The public classes and aliases at the top level of a module: names such as `Plan`, not `_Plan` or `PLAN`."""
    for node in ast.parse(code).body:
        match node:
            case ast.ClassDef(name=name):
                names = [name]
            case ast.Assign(targets=targets, value=value) if not _is_variable(value):
                names = [target.id for target in targets if isinstance(target, ast.Name)]
            case ast.AnnAssign(target=ast.Name(id=name)):
                names = [name]
            case _:
                names = []
        yield from (name for name in names if name[0].isupper() and not name.isupper())


def twice(root: Path) -> dict[str, list[str]]:
    """The names that several modules define, with the paths of those modules from the root."""
    places = defaultdict[str, list[str]](list)
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            for name in dict.fromkeys(defined(path.read_text())):
                places[name].append(path.relative_to(root).as_posix())
    return {name: paths for name, paths in places.items() if len(paths) > 1}


def test_a_public_name_is_defined_in_one_module() -> None:
    again = {name: paths for name, paths in twice(ROOT).items() if name not in TWICE}
    assert again == {}, "rename all but one, import a shared alias from one place, or begin its name with _"


def test_a_reason_is_of_a_name_that_two_modules_define() -> None:
    assert set(TWICE) <= set(twice(ROOT))


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("class Plan: ...", ["Plan"]),
        ("Reader = Callable[[bytes], int]", ["Reader"]),
        ("Reader: TypeAlias = Callable[[bytes], int]", ["Reader"]),
        ("T = TypeVar('T')\nP = typing.ParamSpec('P')", []),
        ("class _Plan: ...\nLIMIT = 3\nlogger = 1", []),
        ("def read():\n    class Plan: ...", []),
    ],
)
def test_classes_and_aliases_are_seen(code: str, names: list[str]) -> None:
    assert list(defined(code)) == names


def test_a_name_in_two_modules_is_seen(tmp_path: Path) -> None:
    for place, code in {"dsl/one.py": "class Plan: ...", "runtime/kernel/two.py": "Plan = int"}.items():
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text(code)
    assert twice(tmp_path) == {"Plan": ["dsl/one.py", "runtime/kernel/two.py"]}
