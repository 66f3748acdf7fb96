"""What an engine needs of the machine that it is started on, besides what every installation brings."""

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from ...dsl.errors import MissingExtraError
from ...dsl.validation import explain


@dataclass(frozen=True, slots=True)
class Need:
    """Something that an engine cannot do without: what to say where it is missing, and what to do then."""

    engine: str
    is_there: Callable[[], bool]
    missing: str
    expected: str
    remedy: str


def has_pyspark() -> bool:
    """Whether Spark's Python package is installed."""
    return find_spec("pyspark") is not None


def _has_java() -> bool:
    home = os.environ.get("JAVA_HOME")
    return shutil.which(str(Path(home, "bin", "java")) if home else "java") is not None


_NEEDS = (
    Need("spark", has_pyspark, "pyspark is not installed", "the extra that brings it", "pip install 'fluvial[spark]'"),
    Need(
        "spark",
        _has_java,
        "there is no Java",
        "Java 17 or later, on the PATH or under JAVA_HOME",
        "install Java 17 or later, or use the engine 'local'",
    ),
)


def missing(engine: str) -> Need | None:
    """The first thing that an engine lacks here, if anything.

    >>> missing("local") is None
    True
    """
    return next((need for need in _NEEDS if need.engine == engine and not need.is_there()), None)


def require(engine: str, *, at: object = None) -> None:
    """Raise `MissingExtraError` where an engine lacks something; `at` is where it was asked for."""
    need = missing(engine)
    if need is not None:
        wrong = f"the engine {engine!r} cannot start here: {need.missing}"
        raise MissingExtraError(explain(wrong, need.expected, need.remedy, at))
