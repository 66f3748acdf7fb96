"""Where the user's modules are found, and which of them have the name of a module of Python's own."""

import os
import site
import sys
import sysconfig
from functools import cache
from pathlib import Path
from types import ModuleType


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
    """Whether a folder has modules with names of Python's own modules, which they would replace if the folder came
    first in `sys.path`."""
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
    own, last = Path(file).stem, name.rpartition(".")[2]
    return last == f"{own}_file" or name.partition(".")[0] in sys.stdlib_module_names
