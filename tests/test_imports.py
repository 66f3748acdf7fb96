"""Who may be loaded by importing what."""

import subprocess
import sys

import pytest

from fluvial.runtime.preflight.requirements import missing

CLIENTS = {"confluent_kafka", "fastavro", "google", "pandas", "pyarrow", "pyspark", "rocksdict"}
EXTRAS = {"authlib", "fastavro", "google", "httpx2", "pandas", "pyarrow", "pyspark"}


def loaded_by(module: str) -> set[str]:
    """Import a module in a fresh interpreter and return the top-level names that are loaded then."""
    code = f"import sys, {module}; print(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(ran.stdout.split())


@pytest.mark.parametrize("module", ["fluvial.dsl", "fluvial.planner"])
def test_words_and_plan_load_no_client(module: str) -> None:
    assert loaded_by(module) & CLIENTS == set()


@pytest.mark.slow
@pytest.mark.parametrize("module", ["fluvial.runtime", "fluvial.runtime.serdes", "fluvial.runtime.testing"])
def test_runtime_loads_no_extra_before_it_is_asked_for(module: str) -> None:
    assert loaded_by(module) & EXTRAS == set()


def test_words_load_neither_plan_nor_runtime() -> None:
    code = "import sys, fluvial.dsl; print(*[name for name in sys.modules if name.startswith('fluvial.')])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {name.split(".")[1] for name in ran.stdout.split()} == {"dsl"}


EVERYTHING = """
import pkgutil
from importlib import import_module

import fluvial.dsl, fluvial.planner, fluvial.runtime, fluvial.runtime.serdes, fluvial.runtime.testing

packages = [fluvial.dsl, fluvial.planner, fluvial.runtime, fluvial.runtime.serdes, fluvial.runtime.testing]
before = [(package, name, getattr(package, name)) for package in packages for name in package.__all__]
for package in packages[:3]:
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        import_module(module.name)
for package, name, value in before:
    assert getattr(package, name) is value, (package.__name__, name)
print(len(before), *(getattr(fluvial.runtime, name).__name__ for name in ("run", "reset", "start")))
"""


@pytest.mark.slow
@pytest.mark.skipif(missing("spark") is not None, reason="modules of the Spark engine import pyspark")
def test_no_module_hides_a_public_name() -> None:
    """A module sets its name in its package when it is loaded, which may be long after the package was."""
    ran = subprocess.run([sys.executable, "-c", EVERYTHING], capture_output=True, text=True, check=True)
    number, *functions = ran.stdout.split()
    assert int(number) > 50
    assert functions == ["run", "reset", "start"]
