"""Who may be loaded by importing what."""

import subprocess
import sys

import pytest

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


@pytest.mark.parametrize("module", ["fluvial.runtime", "fluvial.runtime.serdes", "fluvial.runtime.testing"])
def test_runtime_loads_no_extra_before_it_is_asked_for(module: str) -> None:
    assert loaded_by(module) & EXTRAS == set()


def test_words_load_neither_plan_nor_runtime() -> None:
    code = "import sys, fluvial.dsl; print(*[name for name in sys.modules if name.startswith('fluvial.')])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {name.split(".")[1] for name in ran.stdout.split()} == {"dsl"}


def test_run_is_a_function_whoever_is_loaded_first() -> None:
    code = "import fluvial.runtime.cli.app; from fluvial.runtime import run; print(callable(run))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "True\n"
