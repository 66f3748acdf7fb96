"""Running examples as users do, on each engine."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fluvial.runtime.cli.app import main
from fluvial.runtime.preflight.requirements import missing
from programs import CLI, ROOT, serving

Run = Callable[..., str]
"""Runs an example with words of the command line and variables of the environment; gives what a process of its own has
printed."""

Values = Callable[[Path], list[dict[str, Any]]]
"""Reads the documents of a file of JSON lines."""


def python(*words: str, **env: str) -> str:
    done = subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(words)} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture
def script() -> Run:
    """Python with these words, in the folder of the repository."""
    return python


@pytest.fixture(params=["local", pytest.param("spark", marks=pytest.mark.spark)])
def engine(request: pytest.FixtureRequest) -> str:
    """One engine after the other."""
    name: str = request.param
    return name


@pytest.fixture
def run(engine: str, request: pytest.FixtureRequest) -> Run:
    """`fluvial run examples/...` on an engine, in this process; on Spark on the session that tests share."""
    if engine == "spark":
        session, patch = request.getfixturevalue("spark"), request.getfixturevalue("monkeypatch")
        patch.setattr(spark_engine(), "session_for", lambda _: session_for(session))

    def run_here(example: str, *more: str) -> str:
        assert main(["run", str(ROOT / "examples" / example), "--engine", engine, *more]) == 0
        return ""

    return run_here


def spark_engine() -> Any:
    return import_module("fluvial.runtime.spark.engine")


def session_for(session: Any) -> Any:
    return import_module("fluvial.runtime.spark.query.session").session_for(session)


@pytest.fixture
def run_apart(engine: str) -> Run:
    """`fluvial run examples/...` on an engine, in a process that starts its own Spark."""
    words = ["--engine", engine]
    if engine == "spark":
        if lacking := missing("spark"):
            pytest.skip(lacking.missing)
        words += ["--master", "local[2]", "--spark-conf", "spark.ui.enabled=false"]
    return lambda example, *more, **env: python("-c", CLI, "run", f"examples/{example}", *words, *more, **env)


@pytest.fixture
def values() -> Values:
    return lambda file: [msgspec.json.decode(line) for line in file.read_bytes().splitlines()]


@pytest.fixture
def service() -> Iterator[str]:
    """The web service of the enriching example; its address."""
    with serving("examples/enrich.py", "--serve", "0", "--delay", "20") as address:
        yield address
