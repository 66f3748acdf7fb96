"""Names of a package that are imported when they are used: most processes need few of them."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """A `__getattr__` for a package, which imports its names from their modules. `homes` has the module of each,
    relative to the package. No module of the package may have one of these names: once imported, it would hide it."""

    def named(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(homes[name], package), name)
        setattr(sys.modules[package], name, value)
        return value

    return named
