"""Standard error and output that are full, closed, or read by nobody."""

import io
import os
import subprocess
import sys
import time
from contextlib import ExitStack

import pytest

from fluvial.runtime.process.standard_streams import MOST_BYTES, forgiving_stderr, is_read, queued_stderr

PATIENCE = 60.0
"""Seconds in which a thread has its turn, however busy the machine is."""

FORGIVING = """
import sys
from fluvial.runtime.process.standard_streams import forgiving_stderr

with forgiving_stderr():
    print("lost", file=sys.stderr)
    print("no line", end="", file=sys.stderr)
    with open("made", "w") as file:
        print("said", file=sys.stderr)
        print(file.fileno() > 2, end="")
"""


@pytest.mark.parametrize("stderr", ["2>/dev/full", "2>&-", "2>&- <&-"])
def test_what_standard_error_does_not_take_is_dropped(stderr: str, tmp_path: object) -> None:
    words = ["sh", "-c", f'exec "$0" -c "$1" {stderr}', sys.executable, FORGIVING]
    ended = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=False, cwd=str(tmp_path))
    assert (ended.returncode, ended.stdout) == (0, "True")


def test_what_it_takes_is_written_by_lines(tmp_path: object) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", FORGIVING], capture_output=True, text=True, check=True, cwd=str(tmp_path)
    )
    assert ended.stderr == "lost\nno linesaid\n"


def test_a_stream_that_somebody_has_put_there_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = io.StringIO()
    monkeypatch.setattr(sys, "stderr", theirs)
    with forgiving_stderr():
        assert sys.stderr is theirs


@pytest.mark.slow
def test_who_says_something_does_not_wait_for_a_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    line, many = "x" * 999 + "\n", 2 * MOST_BYTES // 1000
    # The end that is read closes first, or a test that fails waits for the thread that writes.
    with open(writing, "w") as beginning, open(reading) as end:
        monkeypatch.setattr(sys, "stderr", beginning)
        with queued_stderr():
            for _ in range(many):
                print(line, end="", file=sys.stderr)
            deadline = time.monotonic() + PATIENCE
            while is_read(sys.stderr):  # until the thread has filled the pipe
                assert time.monotonic() < deadline
        read = left_out = 0
        while read + left_out < many:
            if (found := end.readline()) == line:
                read += 1
            else:
                assert found.endswith(" lines are left out here: nobody read them)\n")
                left_out += int(found[1:].split()[0].replace(",", ""))
        assert read + left_out == many
        assert read > MOST_BYTES // 1000 - 1


def test_what_is_said_is_written_before_the_end() -> None:
    out = io.StringIO()
    before, sys.stderr = sys.stderr, out
    try:
        with queued_stderr():
            for number in range(100):
                print(number, file=sys.stderr)
    finally:
        sys.stderr = before
    assert out.getvalue().split() == [str(number) for number in range(100)]


def test_two_runs_at_a_time_leave_standard_error_as_it_was_whichever_ends_first() -> None:
    out = io.StringIO()
    before, sys.stderr = sys.stderr, out
    try:
        with ExitStack() as first, ExitStack() as second:
            first.enter_context(queued_stderr())
            second.enter_context(queued_stderr())
            print("of both", file=sys.stderr)
            first.close()
            print("of the second", file=sys.stderr)
            second.close()
            assert sys.stderr is out
    finally:
        sys.stderr = before
    assert out.getvalue() == "of both\nof the second\n"


def test_a_line_that_is_longer_than_what_may_wait_is_counted() -> None:
    out = io.StringIO()
    before, sys.stderr = sys.stderr, out
    try:
        with queued_stderr():
            assert not sys.stderr.isatty()
            with pytest.raises(io.UnsupportedOperation):
                sys.stderr.fileno()  # as that of what is behind it
            sys.stderr.write("x" * MOST_BYTES + "\n")
    finally:
        sys.stderr = before
    assert out.getvalue() == "(1 lines are left out here: nobody read them)\n"
