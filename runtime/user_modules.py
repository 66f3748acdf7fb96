"""Where the user's modules are found, and where Python's own are found in their place."""

import os
import site
import sys
import sysconfig
from functools import cache
from pathlib import Path
from types import ModuleType


@cache
def installed_folders() -> tuple[str, ...]:
    """The folders of what is installed, and of Python's own modules."""
    paths = sysconfig.get_paths()
    return (*site.getsitepackages(), paths["stdlib"], paths["platstdlib"])


def own_paths() -> list[str]:
    """The folders, in their order, where this process looks for modules that are not installed."""
    folders = (path or str(Path.cwd()) for path in sys.path)
    return [path for path in dict.fromkeys(folders) if not path.startswith(installed_folders())]


def hides_modules(folder: str) -> bool:
    """Whether a folder has modules of the names of Python's own: in front of those, they take their places."""
    try:
        found = [entry for entry in os.scandir(folder) if entry.name.endswith(".py") or entry.is_dir()]
    except OSError:
        return False
    named = [entry for entry in found if entry.name.removesuffix(".py") in sys.stdlib_module_names]
    return any(entry.is_file() or Path(entry.path, "__init__.py").is_file() for entry in named)


def is_hidden(name: str, module: ModuleType) -> bool:
    """Whether another process finds something else under the name of the user's module, or nothing: Python has one of
    that name, or a target has loaded it under another name than its file's."""
    file = getattr(module, "__file__", None)
    if file is None or name == "__main__" or file.startswith(installed_folders()):
        return False
    own, last = Path(file).stem, name.rpartition(".")[2]
    return last == f"{own}_file" or name.partition(".")[0] in sys.stdlib_module_names
