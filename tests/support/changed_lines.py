"""Refuses changed lines of the packages that the tests of their files do not take: `make changed-lines`.

It traces the tests that stand for the changed files, see `mirror`, and the test files that changed with them; none that
is slow or needs Spark or Kafka, and for some seconds at most. Where it cannot tell, it says so and passes.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from behaviour_tests import BEHAVIOUR_TESTS
from mirror import PACKAGES, Rows, own_test

SINCE = "CHANGED_SINCE"
"""The variable that may name the commit to compare with.

Without it, that is where the main branch of `origin` was left; on that branch itself, the commit before the last one.
"""
SECONDS = 12
"""For how long the tests may compute; how long they wait for their turn on a busy machine does not count."""
NOT_HERE = ("runtime/spark/", "tests/spark_engine/", "tests/faults/", "tests/properties/", "tests/oracle/")
"""Code whose tests start Spark, and tests that `make coverage` does not count, either."""
NO_TESTS = 5
"""The code with which pytest says that it found no test to run."""


def main(root: Path, environment: Mapping[str, str], seconds: int = SECONDS) -> int:
    """Trace the tests of what changed; not 0 if they fail, or do not take a line that changed."""
    since = earlier(root, environment)
    if since is None:
        return _pass("no earlier commit here: changed lines are not checked")
    changed = _git(root, "diff", "--name-only", "--diff-filter=d", since).splitlines()
    tests = chosen_tests(root, changed, BEHAVIOUR_TESTS)
    if not tests:
        return _pass(f"no code with tests changed since {since[:9]}: no lines to check")
    with TemporaryDirectory() as folder:
        traced = _trace(root, _data(environment, folder), tests, seconds)
        if traced == -signal.SIGXCPU:
            return _pass(f"the tests of what changed compute for more than {seconds} s: changed lines are not checked")
        return traced or _compare(root, since, _data(environment, folder), [*tests], folder)


def chosen_tests(root: Path, changed: Iterable[str], rows: Rows) -> dict[str, set[str]]:
    """The test files to trace for each changed file of code: those that stand for it, and those that changed.

    A file that no test stands for has no logic, and is left out.
    """
    files = [file for file in changed if file.endswith(".py") and not file.startswith(NOT_HERE)]
    beside = {file for file in files if file.startswith("tests/") and Path(file).name.startswith("test_")}
    code = [file for file in files if file.startswith(tuple(f"{package}/" for package in PACKAGES))]
    own = {file: (own_test(file),) if (root / own_test(file)).is_file() else rows.get(file, ()) for file in code}
    return {file: {*tests, *beside} for file, tests in own.items() if tests}


def earlier(root: Path, environment: Mapping[str, str]) -> str | None:
    """The commit to compare with; None in a clone that has none."""
    named = environment.get(SINCE)
    if named:
        return _commit(root, named)
    left = _git(root, "merge-base", "HEAD", "origin/HEAD").strip()
    return left if left and left != _commit(root, "HEAD") else _commit(root, "HEAD^")


def _commit(root: Path, name: str) -> str | None:
    return _git(root, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}").strip() or None


def _git(root: Path, *arguments: str) -> str:
    """What git prints; nothing where it fails."""
    return subprocess.run(("git", *arguments), cwd=root, capture_output=True, text=True, check=False).stdout


def _trace(root: Path, environment: Mapping[str, str], tests: Mapping[str, set[str]], seconds: int) -> int:
    limit = ("sh", "-c", f'ulimit -S -t {seconds} && exec "$0" "$@"')
    options = ("-q", "--quick", "-m", "not spark and not kafka and not slow", "--cov", "--cov-report=")
    files = sorted({test for of_one in tests.values() for test in of_one})
    command = (*limit, sys.executable, "-m", "pytest", *options, *files)
    traced = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    if traced.returncode == NO_TESTS:
        return 0
    if traced.returncode > 0:
        print(traced.stdout, traced.stderr)
    return traced.returncode


def _compare(root: Path, since: str, environment: Mapping[str, str], code: Sequence[str], folder: str) -> int:
    lines = f"{folder}/coverage.lcov"
    report = ("-m", "coverage", "lcov", "-q", f"--include={','.join(code)}", "-o", lines)
    subprocess.run((sys.executable, *report), cwd=root, env=environment, check=True)
    options = ("--compare-branch", since, "--diff-range-notation", "..", "--fail-under", "100")
    compare = (str(Path(sys.executable).with_name("diff-cover")), lines, *options, "--include", *code)
    refused = subprocess.run(compare, cwd=root, check=False).returncode
    if refused:
        print("Test the missing lines, or name the tests that take them in tests/support/behaviour_tests.py.")
    return refused


def _data(environment: Mapping[str, str], folder: str) -> dict[str, str]:
    return {**environment, "COVERAGE_FILE": f"{folder}/.coverage"}


def _pass(why: str) -> int:
    print(why)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path.cwd(), os.environ))
