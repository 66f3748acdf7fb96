"""What the Spark engine lacks is told before anything starts."""

import sys
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec
from pathlib import Path

import pytest

from explained import assert_explains, error_of
from fluvial.dsl import MissingExtraError, Pipeline
from fluvial.runtime import run
from fluvial.runtime.preflight.requirements import missing


@pytest.fixture(autouse=True)
def pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with pyspark and without Java."""
    monkeypatch.setitem(sys.modules, "pyspark", module_from_spec(ModuleSpec("pyspark", None)))
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)


def on_spark() -> None:
    run(Pipeline("p"), engine="spark", system="memory:")


def test_a_run_without_java_says_so() -> None:
    raised = error_of(on_spark, MissingExtraError)
    assert_explains(
        raised, "cannot start here: there is no Java", on_spark, "Java 17 or later", "install Java", below=1
    )


@pytest.mark.parametrize("variable", ["PATH", "JAVA_HOME"])
def test_java_is_found_where_spark_looks(variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.touch(mode=0o755)
    monkeypatch.setenv(variable, str(java.parent if variable == "PATH" else tmp_path))
    assert missing("spark") is None


def test_the_local_engine_needs_no_java() -> None:
    assert missing("local") is None
