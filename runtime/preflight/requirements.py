"""What an engine requires of its machine, beyond what each installation of Fluvial has."""

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from ...dsl.errors import MissingExtraError
from ...dsl.validation import explain


@dataclass(frozen=True, slots=True)
class Requirement:
    """Something that an engine requires: how to check for it, and what to say and do if it is missing."""

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


_REQUIREMENTS = (
    Requirement(
        "spark", has_pyspark, "pyspark is not installed", "the extra that brings it", "pip install 'fluvial[spark]'"
    ),
    Requirement(
        "spark",
        _has_java,
        "there is no Java",
        "Java 17 or later, on the PATH or under JAVA_HOME",
        "install Java 17 or later, or use the engine 'local'",
    ),
)


def missing(engine: str) -> Requirement | None:
    """The first requirement of an engine that this machine does not meet; None if it meets all.

    >>> missing("local") is None
    True
    """
    return next((one for one in _REQUIREMENTS if one.engine == engine and not one.is_there()), None)


def check_requirements(engine: str, *, at: object = None) -> None:
    """Raise `MissingExtraError` if this machine does not meet a requirement; `at` is where the engine was named."""
    requirement = missing(engine)
    if requirement is not None:
        wrong = f"the engine {engine!r} cannot start here: {requirement.missing}"
        raise MissingExtraError(explain(wrong, requirement.expected, requirement.remedy, at))
