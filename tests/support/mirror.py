"""Which tests stand for which file of code, and which files a test reaches by its imports."""

import ast
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

PACKAGES = ("dsl", "planner", "runtime")
Rows = Mapping[str, tuple[str, ...]]
"""The test files of the behaviour that a file of code has a part in, by that file."""


def own_test(code: str) -> str:
    """The test file that stands for a file of code: `tests/planner/test_stages.py` for `planner/stages.py`."""
    path = Path(code)
    return Path("tests", path).with_name(f"test_{path.name}").as_posix()


def code_of(test: str) -> str:
    """The file of code that a test file of the mirrors stands for."""
    path = Path(test)
    return path.relative_to("tests").with_name(path.name.removeprefix("test_")).as_posix()


def without_own_test(root: Path) -> list[str]:
    """The files of the packages that have logic and no test file of their name.

    `__init__.py`, and files without a function that does something, need none.
    """
    paths = (path for package in PACKAGES for path in sorted((root / package).rglob("*.py")))
    files = (path.relative_to(root).as_posix() for path in paths if path.name != "__init__.py")
    return [code for code in files if not (root / own_test(code)).is_file() and has_logic(root / code)]


def has_logic(path: Path) -> bool:
    """Whether a file has a function whose body is more than a docstring, `...`, or the return of a name or a constant.

    Protocols, records and tables of constants have none.
    """
    functions = (node for node in ast.walk(_parsed(path)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return any(not _is_plain(statement) for function in functions for statement in function.body)


def _is_plain(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(value=ast.Constant()) | ast.Pass():
            return True
        case ast.Return(value=None | ast.Constant() | ast.Name() | ast.Attribute()):
            return True
        case _:
            return False


def reached(root: Path, test: str) -> set[str]:
    """The files that a test file and the fixtures of its folder import, and those that these import, and so on.

    Paths from the root. That is more than a test runs: what a package loads on demand counts as soon as it is imported.
    """
    shared = [folder / "conftest.py" for folder in Path(test).parents if Path("tests") in folder.parents]
    found: set[str] = set()
    waiting = [test, *(path.as_posix() for path in shared if (root / path).is_file())]
    while waiting:
        file = waiting.pop()
        if file not in found:
            found.add(file)
            waiting += _imported(root, file)
    return found


def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def _imported(root: Path, file: str) -> tuple[str, ...]:
    """The files that a file imports."""
    path = root / file
    names = {name for node in ast.walk(_parsed(path)) for name in _names(root, path, node)}
    paths = [found for name in names for found in _files(root, name)]
    if path.name == "__init__.py" and "KindTable.gathered(" in path.read_text():
        paths += path.parent.glob("*.py")
    return tuple(found.relative_to(root).as_posix() for found in paths)


def _names(root: Path, path: Path, node: ast.AST) -> Iterable[str]:
    """The modules that a node may import. A text that reads like a module's name is one for `import_module`."""
    match node:
        case ast.Import(names=aliases):
            return [alias.name for alias in aliases]
        case ast.ImportFrom(level=level, names=aliases):
            module = node.module or ""
            if level:
                module = ".".join([*_package(root, path, path.name != "__init__.py", level), *filter(None, [module])])
            return [module, *(f"{module}.{alias.name}" for alias in aliases)]
        case ast.Constant(value=str(text)):
            return _in_text(root, path, text)
        case ast.JoinedStr(values=parts):
            return _in_text(
                root, path, "".join(str(one.value) if isinstance(one, ast.Constant) else "*" for one in parts)
            )
        case _:
            return []


def _in_text(root: Path, path: Path, text: str) -> list[str]:
    if not text.startswith(("fluvial.", ".")) or not re.fullmatch(r"(fluvial|\.{1,2})[a-z_*]*(\.[a-z_*]+)*", text):
        return []
    if text.startswith("fluvial"):
        return [text]
    name = text.lstrip(".")
    return [".".join([*_package(root, path, False, len(text) - len(name)), name])]


def _package(root: Path, path: Path, is_module: bool, level: int) -> list[str]:
    """The package that so many dots lead to from a file; for `import_module` a module is a package, too."""
    parts = ["fluvial", *path.relative_to(root).with_suffix("").parts]
    if path.name == "__init__.py" or is_module:
        parts.pop()
    return parts[: len(parts) - level + 1]


def _files(root: Path, name: str) -> Iterable[Path]:
    """The file of a module or of a package. A `*` stands for a name that a run decides."""
    if name.startswith("fluvial."):
        base, place = root, name.removeprefix("fluvial.").replace(".", "/")
    else:
        base, place = root / "tests" / "support", name.replace(".", "/")
    if "*" in place:
        return base.glob(f"{place}.py")
    return [path for path in (base / f"{place}.py", base / place / "__init__.py") if place and path.is_file()]


def problems(root: Path, rows: Rows) -> Iterable[str]:
    """What is wrong with the mirror, a line for each: code without a test, and rows that name what is not there."""
    files = without_own_test(root)
    for code in files:
        if code not in rows:
            yield f"{code} has no test: write {own_test(code)}, or name the tests of its behaviour in BEHAVIOUR_TESTS"
    for code, tests in rows.items():
        if (root / own_test(code)).is_file():
            yield f"{code} has a row, and a test file of its own"
        elif code not in files:
            yield f"{code} has a row, and is no file with logic"
        yield from (
            f"{code} has a row with {test}, which does not exist" for test in tests if not (root / test).is_file()
        )


def unreached(root: Path, rows: Rows) -> Iterable[str]:
    """The rows with a test file that never imports the file of code, a line for each."""
    for code, tests in rows.items():
        for test in tests:
            if (root / test).is_file() and code not in reached(root, test):
                yield f"{code} has a row with {test}, which never reaches it"
