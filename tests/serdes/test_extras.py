"""What is missing is told with the command that brings it."""

import subprocess
import sys

import pytest

CODE = """
import sys
for name in {blocked!r}:
    sys.modules[name] = None
from fluvial.dsl import MissingExtraError
try:
    from fluvial.runtime.serdes import {wanted}
except MissingExtraError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("wanted", "blocked"), [("avro", "fastavro"), ("protobuf", "google.protobuf"), ("Registry", "authlib")]
)
def test_a_missing_package_is_reported_with_the_command_that_brings_it(wanted: str, blocked: str) -> None:
    code = CODE.format(wanted=wanted, blocked=[blocked])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    first, at, expected, remedy = done.stdout.splitlines()
    assert first.startswith(f"{wanted} needs {blocked}")
    assert (at, expected) == ("  at <string>:7", "  expected: the extra that brings it")
    assert remedy == f"  to do: pip install 'fluvial[{wanted.lower()}]'"


def test_avro_needs_no_registry() -> None:
    code = CODE.format(wanted="avro, protobuf", blocked=["authlib"])
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == ""


def test_what_there_is_not() -> None:
    code = "from fluvial.runtime.serdes import thrift"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "cannot import name 'thrift'" in done.stderr
