"""The folders from which the user's modules are imported, and modules whose names are those of Python's own."""

import ast
import os
import site
import sys
import sysconfig
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import FrameType, ModuleType

from ...dsl.errors import PipelineError
from ...dsl.origin import Origin
from ...dsl.validation import explain


@cache
def installed_folders() -> tuple[str, ...]:
    """The folders of installed packages and of Python's own modules."""
    paths = sysconfig.get_paths()
    return (*site.getsitepackages(), paths["stdlib"], paths["platstdlib"])


def own_paths() -> list[str]:
    """The folders of `sys.path`, in their order, apart from those of installed packages and of Python."""
    folders = (path or str(Path.cwd()) for path in sys.path)
    return [path for path in dict.fromkeys(folders) if not path.startswith(installed_folders())]


def hides_modules(folder: str) -> bool:
    """Whether a folder has modules with names of Python's own modules. If the folder were first in `sys.path`, they
    would replace these."""
    try:
        entries = [entry for entry in os.scandir(folder) if entry.name.endswith(".py") or entry.is_dir()]
    except OSError:
        return False
    alike = [entry for entry in entries if entry.name.removesuffix(".py") in sys.stdlib_module_names]
    return any(entry.is_file() or Path(entry.path, "__init__.py").is_file() for entry in alike)


def is_hidden(name: str, module: ModuleType) -> bool:
    """Whether another process cannot import the user's module by this name: Python has a module of that name, or
    `load_pipeline` gave the module another name than its file has."""
    file = getattr(module, "__file__", None)
    if file is None or name == "__main__" or file.startswith(installed_folders()):
        return False
    own, last = os.path.splitext(os.path.basename(file))[0], name.rpartition(".")[2]
    return last == f"{own}_file" or name.partition(".")[0] in sys.stdlib_module_names


class _OwnModuleFinder:
    """Finds a user's module that has the name of one of Python's, where the user's code imports it. What Python,
    Fluvial and installed packages import stays Python's, unless the user's was imported before."""

    def __init__(self) -> None:
        self.folders: dict[str, None] = {}

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if path is not None or name not in sys.stdlib_module_names or not self._is_importing():
            return None
        return PathFinder.find_spec(name, list(self.folders), target)

    def _is_importing(self) -> bool:
        """Whether the code that imports a module now lies in the user's folders."""
        frame: FrameType | None = sys._getframe(2)
        while frame is not None and _imports(frame):
            frame = frame.f_back
        if frame is None or frame.f_globals.get("__name__", "").startswith("fluvial."):
            return False
        if frame.f_code.co_filename.startswith("<"):  # code without a file
            return False
        file = os.path.abspath(frame.f_code.co_filename)
        return file.startswith(tuple(folder + os.sep for folder in self.folders)) and not _is_installed(file)


_finder = _OwnModuleFinder()


def prefer_own_modules(folders: Iterable[str]) -> None:
    """Have the user's code in these folders import the user's modules that are there, also those with names of modules
    of Python's. A name that this process has imported already keeps its module: see `refuse_taken`."""
    _finder.folders |= {folder: None for folder in folders if hides_modules(folder)}
    if _finder.folders and _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


def refuse_taken(modules: Iterable[ModuleType], folders: Collection[str]) -> None:
    """Raise PipelineError where one of these modules imports a user's module, at once or in a function, whose name this
    process uses for Python's module."""
    refuse_taken_in((module.__file__ or "" for module in modules), folders)


def refuse_taken_in(files: Iterable[str], folders: Collection[str]) -> None:
    """Like `refuse_taken`, for the source files of modules."""
    hiding = [folder for folder in folders if hides_modules(folder)]
    for file in files if hiding else ():
        for name, line in _imported_by(file):
            own = _own_file(name, hiding)
            if own is not None and own != file and _is_pythons(name):
                wrong = f"the module {name!r} in {own} cannot be imported: Python's module of that name is in use"
                expected = "names that no module has which Python, Fluvial or Spark use themselves"
                remedy = (
                    f"rename {Path(own).name if Path(own).stem == name else Path(own).parent.name}, and what imports it"
                )
                raise PipelineError(explain(wrong, expected, remedy, Origin(file, line)))


def _imports(frame: FrameType) -> bool:
    name = frame.f_globals.get("__name__", "")
    return name.partition(".")[0] == "importlib" or frame.f_code.co_filename.startswith("<frozen importlib")


def _is_installed(file: str) -> bool:
    return file.startswith(installed_folders())


def _is_pythons(name: str) -> bool:
    """Whether this process has Python's module of a name."""
    module = sys.modules.get(name)
    file = getattr(module, "__file__", None)
    return module is not None and (file is None or _is_installed(file))


def _own_file(name: str, folders: Iterable[str]) -> str | None:
    """The file of the user's module of a name, if it is one of Python's names."""
    if name not in sys.stdlib_module_names:
        return None
    files = (Path(folder, *parts) for folder in folders for parts in ((name, "__init__.py"), (f"{name}.py",)))
    return next((str(file) for file in files if file.is_file()), None)


def _imported_by(file: str) -> Iterator[tuple[str, int]]:
    """The names of the top-level modules that a source file imports, with their lines."""
    try:
        tree = ast.parse(Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name.partition(".")[0], node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.partition(".")[0], node.lineno
