"""Purity: only the files of this list read the clock or the environment, sleep, or draw random numbers and ids.

All others take a `Machine`, or a function, as an argument, so that a test sets the time and need not wait."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("dsl", "planner", "runtime")

ALLOWED = {
    "runtime/cli/commands/run.py": "Spark reads its options from the environment",
    "runtime/cli/settings_file.py": "the edge: settings that the environment gives",
    "runtime/metrics/connections.py": "a server that is out of file descriptors pauses",
    "runtime/metrics/endpoints.py": "where the user's session keeps files of runs",
    "runtime/preflight/requirements.py": "where Java is",
    "runtime/process/clock.py": "the clock itself",
    "runtime/process/data_files.py": "the mode of files, which a parent process passes on",
    "runtime/process/machine.py": "the machine itself",
    "runtime/process/stop_request.py": "when a signal came",
    "runtime/process/watchdog.py": "a process of its own, which imports nothing of the package",
    "runtime/serdes/registry.py": "serdes know no other package of the runtime",
    "runtime/spark/engine.py": "the edge: when a run began",
    "runtime/spark/frames/batch_job.py": "the processing time of a job",
    "runtime/spark/frames/batch_run.py": "the edge: when a run began, and a name for its jobs",
    "runtime/spark/query/checkpoint_record.py": "a folder's name that no other has",
    "runtime/spark/query/query.py": "the id of a checkpoint, and the clock of its driver",
    "runtime/spark/query/session.py": "Spark's processes get their settings by the environment",
    "runtime/spark/worker/inbox.py": "where Spark lets its workers spill",
    "runtime/spark/query/supervision.py": "waits for queries of Spark, which keep their own time",
    "runtime/spark/task_jobs.py": "a task hands the environment of its worker on to its container",
    "runtime/systems/log/journal.py": "the id of a log",
    "runtime/systems/log/system.py": "the name of a writer",
    "runtime/systems/memory.py": "the id of a system in memory",
    "runtime/testing/driver.py": "the edge: the id of a run",
}
"""The files that may, and why."""

NAMED = {
    "time": {"time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "sleep"},
    "uuid": {"uuid1", "uuid4"},
    "os": {"environ", "getenv", "urandom"},
    "datetime": {"now", "utcnow", "today"},
    "THIS_MACHINE": {"clock", "wall", "sleep", "random", "new_id", "process_name"},
}
"""By module or object, what reaches outside. Of `random` and `secrets` all does."""
BARE = {"wall_clock", "uuid4", "environ", "getenv", "monotonic", "sleep"}
"""The same where it is imported by itself."""


IMPORTS = re.compile(r"import .*\b(time|uuid\w*|os|environ|getenv|datetime|random|secrets|wall_clock|THIS_MACHINE)\b")
"""What a file imports that may have some: the others are not parsed."""


def defaults(tree: ast.AST) -> Iterator[ast.AST]:
    """The default values of arguments and fields: they are what a caller may replace."""
    for node in ast.walk(tree):
        if isinstance(node, ast.arguments):
            yield from (one for one in (*node.defaults, *node.kw_defaults) if one is not None)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            yield node.value


def impure(source: str) -> Iterator[int]:
    """The lines that use the clock, the environment, randomness or a pause other than as a default."""
    tree = ast.parse(source)
    imported = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        for alias in getattr(node, "names", ())
        if isinstance(alias, ast.alias)
    }
    replaceable = {id(part) for default in defaults(tree) for part in ast.walk(default)}
    for node in ast.walk(tree):
        if id(node) in replaceable:
            continue
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            owner = node.value.id
            if owner in imported and (owner in ("random", "secrets") or node.attr in NAMED.get(owner, ())):
                yield node.lineno
        elif isinstance(node, ast.Name) and node.id in BARE & imported:
            yield node.lineno


@cache
def found() -> dict[str, list[int]]:
    """The lines of each file that has some."""
    files = (path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    sources = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in files}
    lines = {file: list(impure(source)) for file, source in sources.items() if IMPORTS.search(source)}
    return {file: at for file, at in lines.items() if at}


def test_only_files_of_the_list_reach_outside() -> None:
    assert {file: at for file, at in found().items() if file not in ALLOWED} == {}


def test_every_file_of_the_list_reaches_outside() -> None:
    assert ALLOWED.keys() - found().keys() == set()


@pytest.mark.parametrize(
    "line",
    [
        "import time; started = time.monotonic()",
        "import time; time.sleep(1)",
        "from uuid import uuid4; name = uuid4().hex",
        "import os; home = os.environ.get('HOME')",
        "import random; pause = random.uniform(0, 1)",
        "from datetime import datetime; now = datetime.now(UTC)",
        "from .clock import wall_clock; now = wall_clock()",
        "from .machine import THIS_MACHINE; machine = THIS_MACHINE.clock()",
    ],
)
def test_a_use_is_seen(line: str) -> None:
    assert list(impure(line)) == [1]


@pytest.mark.parametrize(
    "line",
    [
        "import time\ndef wait(clock: Clock = time.monotonic): return clock()",
        "import time",
        "due = machine.clock()",
        "at = time.time",
    ],
)
def test_what_a_caller_may_replace_is_not(line: str) -> None:
    assert list(impure(line)) == []
