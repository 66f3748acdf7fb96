"""Docstrings: each public name has one, with an example, and every example of the packages runs."""

import doctest
import inspect
from collections.abc import Iterator
from importlib import import_module
from pkgutil import walk_packages
from types import ModuleType
from typing import Any

import pytest

from fluvial.dsl import MessageStream
from tests.docs.pages import ROOT, blocks

PACKAGES = ("fluvial.dsl", "fluvial.planner", "fluvial.runtime")
PUBLIC = (*PACKAGES, "fluvial.runtime.serdes", "fluvial.runtime.testing", "fluvial.runtime.testing.strategies")
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def modules() -> Iterator[ModuleType]:
    """All modules; those of the Spark engine load pyspark, and are run by its own tests."""
    for name in PACKAGES:
        package = import_module(name)
        yield package
        for found in walk_packages(package.__path__, f"{name}."):
            if not found.name.startswith("fluvial.runtime.spark"):
                yield import_module(found.name)


def given() -> dict[str, Any]:
    """What the page of reference says that examples take for granted."""
    names: dict[str, Any] = {}
    exec(blocks(ROOT / "docs" / "reference" / "dsl.md")[0].code, names)
    return names


def examples(module: ModuleType) -> Iterator[doctest.DocTest]:
    """The examples of a module, each with names of its own."""
    # Under the name of a user's module, for errors name the newest line that is not Fluvial's.
    names = {**given(), **vars(module), "__name__": "example"}
    for example in doctest.DocTestFinder().find(module, globs=names):
        if example.examples:
            yield example


EXAMPLES = [example for module in modules() for example in examples(module)]


@pytest.mark.parametrize("example", EXAMPLES, ids=[example.name for example in EXAMPLES])
def test_an_example_runs(example: doctest.DocTest) -> None:
    told: list[str] = []
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    assert runner.run(example, out=told.append).failed == 0, "".join(told)


def public() -> Iterator[tuple[str, Any]]:
    """Classes and functions that users may name."""
    for package in map(import_module, PUBLIC):
        for name in package.__all__:
            found = getattr(package, name)
            if inspect.isclass(found) or inspect.isfunction(found):
                yield f"{package.__name__}.{name}", found


def methods(name: str, kind: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties that a class defines itself."""
    for attribute, found in vars(kind).items():
        method = found.fget if isinstance(found, property) else getattr(found, "__func__", found)
        if inspect.isfunction(method) and not attribute.startswith("_"):
            yield f"{name}.{attribute}", method


def test_every_public_name_has_an_example() -> None:
    assert [name for name, found in public() if ">>> " not in (inspect.getdoc(found) or "")] == []


def test_every_public_method_says_what_it_does() -> None:
    classes = [(name, found) for name, found in public() if inspect.isclass(found)]
    silent = [name for owner in classes for name, method in methods(*owner) if not method.__doc__]
    assert silent == []


def test_every_verb_has_an_example() -> None:
    verbs = methods("MessageStream", MessageStream)
    assert [name for name, verb in verbs if ">>> " not in verb.__doc__] == []
